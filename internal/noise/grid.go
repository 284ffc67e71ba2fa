package noise

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"minsep/internal/param"
)

// Grid is the spacing g of the values of noise: a power of two; 0 for the default; or [NoGrid]. As
// text, and in JSON, it is a number or "none".
type Grid float64

// NoGrid leaves the values unrounded. Then the floating-point channel is open: see the package
// comment.
const NoGrid Grid = -1

const noGridText = "none"

// errGrid is the rule for a grid as text.
var errGrid = errors.New(`must be a power of two, or "none"`)

// String returns a number or "none".
func (g Grid) String() string {
	if g == NoGrid {
		return noGridText
	}
	return strconv.FormatFloat(float64(g), 'g', -1, 64)
}

// Set reads the output of String, except 0 for the default, which is chosen by leaving the flag
// out. [NewRecipe] checks that it is a power of two.
func (g *Grid) Set(text string) error {
	if text == noGridText {
		*g = NoGrid
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return errGrid
	}
	*g = Grid(v)
	return nil
}

// Type returns the name of the value in the help of flags.
func (Grid) Type() string { return "number|none" }

// Describe returns the rule for a value in JSON, in words.
func (Grid) Describe() string { return `a power of two, or "none"` }

// MarshalJSON writes a number or "none".
func (g Grid) MarshalJSON() ([]byte, error) {
	if g == NoGrid {
		return json.Marshal(noGridText)
	}
	return json.Marshal(float64(g))
}

// UnmarshalJSON reads the output of MarshalJSON. As for other types, null changes nothing.
func (g *Grid) UnmarshalJSON(b []byte) error {
	text := bytes.TrimSpace(b)
	if string(text) == "null" {
		return nil
	}
	if string(text) == `"`+noGridText+`"` {
		text = []byte(noGridText)
	} else if len(text) == 0 || text[0] == '"' {
		return errGrid
	}
	return g.Set(string(text))
}

// Grids by the type that holds the values. The default is 2⁻ᵇ of the largest deviation of a step,
// rounded up to a power of two.
//
// Of the 24 bits of a float32, 20 leave room for 16 deviations of noise; beyond that a value is
// refused with [ErrRange] (probability below 1e-56). Of the 53 bits of a float64, 40 leave room for
// sums of 4096 times that size, and a grid that is still 2¹² times coarser than the last bit of a
// value of one deviation.
const (
	gridBits32, rangeBits32 = 20, 24
	gridBits64, rangeBits64 = 40, 50
)

// maxScale bounds σ ζ: maxScale 2²⁰⁺⁴ is within the range of float32, and 1/maxScale 2⁻⁴⁶
// within the range of float64.
const maxScale = 0x1p96

// chooseGrid returns the grid of a recipe for steps of the strategy's deviations times scale; 0 stands
// for values that are not rounded.
func chooseGrid(scale float64, c Config) (float64, error) {
	deviations, err := c.Strategy.StepDeviations()
	if err != nil {
		return 0, err
	}
	step := 0
	for t, v := range deviations {
		if !(v <= deviations[step]) {
			step = t
		}
	}
	if !(deviations[step] < 1<<20) {
		return 0, &GrowthError{step, deviations[step]}
	}
	if c.Grid == NoGrid {
		return 0, nil
	}
	_, e := math.Frexp(deviations[step] * scale)
	usual, finest := math.Ldexp(1, e-gridBits32), math.Ldexp(1, e-(rangeBits32-4))
	held := "a float32, with dtype float32, "
	if c.Float64 {
		usual, finest, held = math.Ldexp(1, e-gridBits64), math.Ldexp(1, e-(rangeBits64-4)), "a float64 "
	}
	if c.Grid == 0 {
		return usual, nil
	}
	check := param.Checker{}
	check.Requiref(
		float64(c.Grid) >= finest && float64(c.Grid) <= scale,
		"grid",
		float64(c.Grid),
		"must be between %v, for which %sholds 16 deviations of the noise, and %v, one deviation of independent noise",
		finest,
		held,
		scale,
	)
	return float64(c.Grid), check.Err()
}

// Valid reports whether g is a power of two, 0 for the default, or [NoGrid]. [NewRecipe] checks
// that it suits the noise.
func (g Grid) Valid() bool {
	f, _ := math.Frexp(float64(g))
	return f == 0.5 || g == 0 || g == NoGrid
}

// clipNormRule is the rule for clip norms.
const clipNormRule = "must be 2^-80 to 2^80, which is 8.3e-25 to 1.2e24"

// ValidClipNorm reports whether a clip norm is in the range that every noise multiplier of 2⁻¹⁶ to
// 2¹⁶ allows, and returns the rule.
func ValidClipNorm(clip float64) (ok bool, rule string) {
	return clip >= 0x1p-80 && clip <= 0x1p80, clipNormRule
}

// Grid returns the grid of the values, or [NoGrid].
func (r *Recipe) Grid() Grid {
	if r.Params.Grid == 0 {
		return NoGrid
	}
	return Grid(r.Params.Grid)
}

// Float32 reports whether a float32 holds the noise on the recipe's grid.
func (r *Recipe) Float32() bool {
	p := r.Params
	_, err := chooseGrid(
		float64(p.NoiseMultiplier)*float64(p.ClipNorm),
		Config{Strategy: r.Strategy, Grid: r.Grid()},
	)
	return err == nil
}

// rounding rounds values to multiples of the grid: v + magic - magic does it, since the last bit of
// v + magic is worth g. Values beyond limit are refused.
type rounding struct{ magic, limit float64 }

// rounding32 is the rounding for a float32. Without a grid magic is 0, which rounds nothing and
// makes every zero positive.
func (g *Generator) rounding32() rounding {
	if g.grid == 0 {
		return rounding{0, math.MaxFloat32}
	}
	return rounding{0x1.8p52 * g.grid, float64(int64(1)<<rangeBits32) * g.grid}
}

// rounding64 is the rounding for a float64. The sum with magic needs two of its 53 bits.
func (g *Generator) rounding64() rounding {
	if g.grid == 0 {
		return rounding{0, math.MaxFloat64}
	}
	return rounding{0x1.8p52 * g.grid, float64(int64(1)<<rangeBits64) * g.grid}
}
