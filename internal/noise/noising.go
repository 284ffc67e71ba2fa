package noise

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"minsep/internal/param"
	"minsep/mechanism"
)

// ParamError is a parameter with a value that breaks a rule.
type ParamError = param.Error

// Noising holds the coefficients by which C⁻¹ is applied to independent normals, exactly as the
// arithmetic of the package comment uses them. One of Feedback, Filter and Decays says how; with
// none of them steps are independent.
type Noising struct {
	Gain     Coefs   `json:"gain,omitempty"`      // 1/C[t][t]: one entry for all steps, or one a step
	Feedback []Coefs `json:"feedback,omitempty"`  // f_{t,1}, f_{t,2}, …: one row for all steps, or one a step
	Filter   Coefs   `json:"filter,omitempty"`    // h_0, h_1, …
	Scales   Coefs   `json:"scales,omitempty"`    // of a BLT's buffers
	Decays   Coefs   `json:"decays,omitempty"`    // of the same buffers, in [0, 1)
	RowScale Coefs   `json:"row_scale,omitempty"` // D_t of a normalised strategy, one a step
}

// Coefs are numbers that JSON holds as hexadecimal floating-point strings, so that every reader
// gets the same bits.
type Coefs []float64

// MarshalJSON writes strings such as "0x1.8p+00".
func (c Coefs) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 2+26*len(c))
	b = append(b, '[')
	for i, v := range c {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = strconv.AppendFloat(b, v, 'x', -1, 64)
		b = append(b, '"')
	}
	return append(b, ']'), nil
}

// UnmarshalJSON reads the output of MarshalJSON, finite numbers only.
func (c *Coefs) UnmarshalJSON(data []byte) error {
	var text []Hex
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	*c = make(Coefs, len(text))
	for i, v := range text {
		(*c)[i] = float64(v)
	}
	return nil
}

// Hex is one number in the form of [Coefs].
type Hex float64

// MarshalText writes hexadecimal floating point.
func (h Hex) MarshalText() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(h), 'x', -1, 64), nil
}

// UnmarshalText reads a finite number.
func (h *Hex) UnmarshalText(b []byte) error {
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return fmt.Errorf("number %q: must be finite, such as 0x1.8p+00", b)
	}
	*h = Hex(v)
	return nil
}

// NewNoising returns the coefficients of a strategy, which it validates. They are finite if the
// deviations of its steps are, as [NewRecipe] requires.
func NewNoising(s *mechanism.Strategy) (*Noising, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	n := new(Noising)
	switch {
	case s.InverseToeplitz != nil:
		n.Filter = append(n.Filter, s.InverseToeplitz...)
	case s.BLT != nil && len(s.BLT.Scales) == 0:
		n.Gain = Coefs{1}
	case s.BLT != nil:
		n.Scales = append(n.Scales, s.BLT.Scales...)
		n.Decays = append(n.Decays, s.BLT.Decays...)
	case s.Columns != nil:
		n.fromColumns(s)
	default:
		c := s.FirstColumn(nil)
		n.Gain = Coefs{1 / c[0]}
		if len(c) > 1 {
			row := make(Coefs, len(c)-1)
			for j := range row {
				row[j] = -c[j+1] / c[0]
			}
			n.Feedback = []Coefs{row}
		}
	}
	if s.Normalized {
		n.RowScale = s.ColumnNorms()
	}
	return n, nil
}

// fromColumns fills gains and feedback of a strategy that is held by columns. Row t comes from the
// entries C[t][t-j] = Columns[t-j][j].
func (n *Noising) fromColumns(s *mechanism.Strategy) {
	bands := s.Bands()
	n.Gain = make(Coefs, s.Steps)
	for t := range n.Gain {
		n.Gain[t] = 1 / s.Columns[t][0]
	}
	if bands == 1 {
		return
	}
	n.Feedback = make([]Coefs, s.Steps)
	for t := range n.Feedback {
		row := make(Coefs, min(t, bands-1))
		for j := 1; j <= len(row); j++ {
			if c := s.Columns[t-j]; j < len(c) && c[j] != 0 {
				row[j-1] = -c[j] / s.Columns[t][0]
			}
		}
		n.Feedback[t] = row
	}
}

// history returns the number of earlier rows that a step needs: outputs for feedback, inputs for a
// filter.
func (n *Noising) history() int {
	bands := len(n.Filter) - 1
	for _, row := range n.Feedback {
		bands = max(bands, len(row))
	}
	return max(bands, 0)
}

// rowScale returns D_t, 1 if the strategy is not normalised.
func (n *Noising) rowScale(t int) float64 {
	if n.RowScale == nil {
		return 1
	}
	return n.RowScale[t]
}

// at returns the entry of c for step t. c has one entry for all steps, or one for each.
func at[T any](c []T, t int) T {
	if len(c) == 1 {
		return c[0]
	}
	return c[t]
}
