package mechanism

import (
	"math"

	"minsep/internal/param"
)

// ParamError is a parameter whose value breaks a rule.
type ParamError = param.Error

// Strategy is the strategy matrix C (F0): Steps×Steps, lower triangular, with a positive diagonal.
// It is held in exactly one of four ways:
//
//   - Toeplitz: the first column of C;
//   - InverseToeplitz: the first column of C⁻¹, a few bands, so that noise needs past inputs only;
//   - BLT: scales and decays of a sum of exponentials;
//   - Columns: every column from the diagonal down.
//
// Many goroutines may use a Strategy at once; its methods keep no state. Constructors and
// [ReadStrategy] return valid strategies. Call [Strategy.Validate] on any other one: the other
// methods require a valid strategy.
type Strategy struct {
	Kind  string `json:"kind"`  // the family, KindStamped or KindOwn: where the numbers came from; how they are held does not follow from it
	Steps int    `json:"steps"` // 1 to MaxSteps

	Toeplitz        []float64   `json:"toeplitz,omitempty"`         // first column of C, c_0 > 0; at most Steps entries, zeros beyond
	InverseToeplitz []float64   `json:"inverse_toeplitz,omitempty"` // first column of C⁻¹, h_0 > 0; at most Steps entries, zeros beyond
	BLT             *BLT        `json:"blt,omitempty"`              // scales and decays
	Columns         [][]float64 `json:"columns,omitempty"`          // column i (0-based): C[i][i], C[i+1][i], …; 1 to Steps-i entries, zeros beyond

	// Normalized divides every column by its Euclidean norm: the strategy is C D⁻¹, with D the
	// norms of the columns of the C held above, and its inverse D C⁻¹ (F1; arXiv 2601.22334,
	// Proposition 7).
	Normalized bool `json:"normalized,omitempty"`
}

// BLT is a buffered linear Toeplitz matrix: first column 1, then Σ_m Scales[m]·Decays[m]^(t-1) at t
// ≥ 1. Applying C⁻¹ takes one buffer a term.
type BLT struct {
	Scales []float64 `json:"scales"` // finite
	Decays []float64 `json:"decays"` // in [0, 1)
}

// representations returns the number of the four forms that are filled.
func (s *Strategy) representations() int {
	count := 0
	for _, filled := range []bool{s.Toeplitz != nil, s.InverseToeplitz != nil, s.BLT != nil, s.Columns != nil} {
		if filled {
			count++
		}
	}
	return count
}

// Bands returns the number of bands w: C[i][j] = 0 for i-j ≥ w. It is Steps for a BLT with a buffer
// and for an InverseToeplitz of more than one entry.
func (s *Strategy) Bands() int {
	switch {
	case s.Toeplitz != nil:
		return trimmed(s.Toeplitz)
	case s.InverseToeplitz != nil:
		if trimmed(s.InverseToeplitz) == 1 {
			return 1
		}
		return s.Steps
	case s.BLT != nil:
		if len(s.BLT.Scales) == 0 {
			return 1
		}
		return s.Steps
	}
	bands := 0
	for _, c := range s.Columns {
		bands = max(bands, trimmed(c))
	}
	return bands
}

// trimmed returns the length of x without its trailing zeros.
func trimmed(x []float64) int {
	n := len(x)
	for n > 0 && x[n-1] == 0 {
		n--
	}
	return n
}

// IsToeplitz reports whether C is a Toeplitz matrix: C[i][j] depends on i-j only. A normalised
// strategy of more than one band is not: its last columns are cut off, and divided by smaller
// norms.
func (s *Strategy) IsToeplitz() bool {
	return s.Columns == nil && (!s.Normalized || s.Bands() == 1)
}

// FirstColumn appends the first column of the Toeplitz matrix that s holds, before Normalized, to
// dst[:0]: the first min(Bands, Steps) entries. It returns nil for a strategy that is held by
// columns.
func (s *Strategy) FirstColumn(dst []float64) []float64 {
	dst = dst[:0]
	switch {
	case s.Toeplitz != nil:
		return append(dst, s.Toeplitz[:s.Bands()]...)
	case s.InverseToeplitz != nil:
		return appendSeriesInverse(dst, s.InverseToeplitz, s.Bands())
	case s.BLT != nil:
		return s.BLT.appendColumn(dst, s.Bands())
	}
	return nil
}

// appendColumn appends the first n entries of the first column to dst.
func (b *BLT) appendColumn(dst []float64, n int) []float64 {
	start := len(dst)
	dst = append(dst, make([]float64, n)...)
	c := dst[start:]
	c[0] = 1
	for m, power := range b.Scales {
		for t := 1; t < n; t++ {
			c[t] += power
			power *= b.Decays[m]
		}
	}
	return dst
}

// appendSeriesInverse appends to dst the first n coefficients of 1/h(x), h given by its
// coefficients, h[0] ≠ 0.
func appendSeriesInverse(dst, h []float64, n int) []float64 {
	start := len(dst)
	dst = append(dst, make([]float64, n)...)
	unit := make([]float64, n)
	unit[0] = 1
	solveToeplitz(dst[start:], h[:min(n, len(h))], unit)
	return dst
}

// Column appends column i (0-based) of C from the diagonal down to dst[:0]: min(Bands, Steps-i)
// entries, divided by the column's norm if the strategy is normalised. For InverseToeplitz and BLT,
// every call computes the whole first column: for all columns of a Toeplitz matrix call
// [Strategy.FirstColumn] once.
func (s *Strategy) Column(dst []float64, i int) []float64 {
	if i < 0 || i >= s.Steps {
		panic("mechanism: column out of range")
	}
	size := min(s.Bands(), s.Steps-i)
	if s.Columns != nil {
		c := s.Columns[i]
		dst = append(dst[:0], c[:min(len(c), size)]...)
		for len(dst) < size {
			dst = append(dst, 0)
		}
	} else {
		dst = s.FirstColumn(dst)[:size]
	}
	if s.Normalized {
		norm := euclidean(dst)
		for j := range dst {
			dst[j] /= norm
		}
	}
	return dst
}

// ColumnNorms returns the Euclidean norms of the columns that s holds, before Normalized: Steps
// entries. They are the diagonal of D when s is normalised. With squares of a first column it takes
// O(Steps).
func (s *Strategy) ColumnNorms() []float64 {
	norms := make([]float64, s.Steps)
	if s.Columns != nil {
		for i, c := range s.Columns {
			norms[i] = euclidean(c)
		}
		return norms
	}
	c := s.FirstColumn(nil)
	square := 0.0
	for size := 1; size <= s.Steps; size++ {
		if size <= len(c) {
			square += c[size-1] * c[size-1]
		}
		norms[s.Steps-size] = math.Sqrt(square)
	}
	return norms
}

// NonNegative reports whether no entry of C is negative, as the accounting of participations at
// random requires.
func (s *Strategy) NonNegative() bool {
	if s.Columns == nil {
		return nonNegative(s.FirstColumn(nil))
	}
	for _, c := range s.Columns {
		if !nonNegative(c) {
			return false
		}
	}
	return true
}

// nonNegative reports whether every entry is at least 0; NaN is not.
func nonNegative(x []float64) bool {
	for _, v := range x {
		if !(v >= 0) {
			return false
		}
	}
	return true
}

// euclidean returns the 2-norm.
func euclidean(x []float64) float64 { return math.Sqrt(square(x)) }

// square returns the squared 2-norm.
func square(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return sum
}
