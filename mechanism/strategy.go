package mechanism

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"minsep/internal/param"
	"minsep/internal/strictjson"
)

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
// coefficients, h[0] ≠ 0. Columns of a normalised strategy are made so: see [Strategy.ColumnNorms] for
// why this is no call of solveToeplitz, whose order of additions is the processor's.
func appendSeriesInverse(dst, h []float64, n int) []float64 {
	start := len(dst)
	dst = append(dst, 1/h[0])
	for t := start + 1; t < start+n; t++ {
		sum := 0.0
		for j := 1; j < len(h) && start+j <= t; j++ {
			sum += float64(h[j] * dst[t-j])
		}
		dst = append(dst, -sum/h[0])
	}
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
// entries. They are the diagonal of D when s is normalised, and so a part of the noise: the same
// operations are done in the same order on every processor, and no product is fused with a sum. With
// squares of a first column it takes O(Steps).
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
			square += float64(c[size-1] * c[size-1])
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
		sum += float64(v * v)
	}
	return sum
}

// MarshalJSON writes s with its version. Numbers have as many digits as they need to be read back
// alike.
func (s *Strategy) MarshalJSON() ([]byte, error) {
	return json.Marshal(wire{version, (*plain)(s)})
}

// UnmarshalJSON reads a strategy and validates it. It refuses another version and fields it does not
// know.
func (s *Strategy) UnmarshalJSON(data []byte) error {
	var head struct {
		Version int `json:"version"`
	}
	if err := strictjson.Loose(data, &head); err != nil {
		return fmt.Errorf("strategy: %w", err)
	}
	if head.Version != version {
		return fmt.Errorf("strategy: version %d: this program reads version %d", head.Version, version)
	}
	var read plain
	if err := strictjson.Unmarshal(data, &wire{plain: &read}); err != nil {
		// Package json puts the name of an embedded struct before the field's.
		return errors.New("strategy: " + strings.TrimPrefix(err.Error(), "plain."))
	}
	if err := (*Strategy)(&read).Validate(); err != nil {
		return err
	}
	*s = Strategy(read)
	return nil
}

// Multiply returns C x for x of Steps entries, in O(Steps·Bands), or O(Steps·buffers) for a BLT.
func (s *Strategy) Multiply(x []float64) []float64 {
	s.checkLength(x)
	if s.Normalized {
		scaled := make([]float64, len(x))
		for i, norm := range s.ColumnNorms() {
			scaled[i] = x[i] / norm
		}
		x = scaled
	}
	y := make([]float64, len(x))
	switch {
	case s.Columns != nil:
		for i, c := range s.Columns {
			for j, v := range c {
				y[i+j] += v * x[i]
			}
		}
	case s.InverseToeplitz != nil:
		solveToeplitz(y, s.InverseToeplitz, x)
	case s.BLT != nil:
		copy(y, x)
		for m, scale := range s.BLT.Scales {
			buffer := 0.0
			for t, v := range x {
				y[t] += scale * buffer
				buffer = s.BLT.Decays[m]*buffer + v
			}
		}
	default:
		multiplyToeplitz(y, s.Toeplitz, x)
	}
	return y
}

// Solve returns C⁻¹ z for z of Steps entries: one coordinate of the correlated noise if z is iid
// normal. It takes as long as [Strategy.Multiply].
func (s *Strategy) Solve(z []float64) []float64 {
	s.checkLength(z)
	y := make([]float64, len(z))
	switch {
	case s.Columns != nil:
		copy(y, z)
		for i, c := range s.Columns {
			y[i] /= c[0]
			for j, v := range c[1:] {
				y[i+1+j] -= v * y[i]
			}
		}
	case s.InverseToeplitz != nil:
		multiplyToeplitz(y, s.InverseToeplitz, z)
	case s.BLT != nil:
		buffers := make([]float64, len(s.BLT.Scales))
		for t, v := range z {
			for m, scale := range s.BLT.Scales {
				v -= scale * buffers[m]
			}
			y[t] = v
			for m, decay := range s.BLT.Decays {
				buffers[m] = decay*buffers[m] + v
			}
		}
	default:
		solveToeplitz(y, s.Toeplitz, z)
	}
	if s.Normalized {
		for i, norm := range s.ColumnNorms() {
			y[i] *= norm
		}
	}
	return y
}

// checkLength panics if x is not a vector of Steps entries: that is a mistake of the caller.
func (s *Strategy) checkLength(x []float64) {
	if len(x) != s.Steps {
		panic(fmt.Sprintf("mechanism: vector of %d entries for a strategy of %d steps", len(x), s.Steps))
	}
}

// columns returns every column of s down to the last band, divided by its norm if s is normalised.
// Columns of a Toeplitz strategy share memory: do not change them.
func (s *Strategy) columns() [][]float64 {
	all := make([][]float64, s.Steps)
	c := s.FirstColumn(nil)
	for i := range all {
		if s.Columns != nil || s.Normalized {
			all[i] = s.Column(nil, i)
		} else {
			all[i] = c[:min(len(c), s.Steps-i)]
		}
	}
	return all
}

// MaxSteps is the largest number of steps of a strategy: as many as a certificate may have.
const MaxSteps = 1 << 24

// stabilitySteps is the number of leading steps at which a longer Toeplitz strategy is tried for
// stability: growth is geometric, and shows there.
const stabilitySteps = 1 << 21

// Validate returns every fault of s joined, or nil. It refuses more than [MaxSteps] steps, entries
// that are not finite, a diagonal that is not positive, columns longer than the matrix, and a
// matrix or an inverse that grows beyond the range of float32: it applies both to two vectors, in
// O(Steps·Bands), for Toeplitz strategies over the first 2²¹ steps only.
func (s *Strategy) Validate() error {
	check := param.Checker{}
	_, family := familyOf(s.Kind)
	check.Require(
		family || s.Kind == KindStamped || s.Kind == KindOwn,
		"kind",
		s.Kind,
		"must be a known kind of strategy",
	)
	check.Requiref(s.Steps >= 1 && s.Steps <= MaxSteps, "steps", s.Steps, "must be 1 to %d", MaxSteps)
	ways := count(s.Toeplitz != nil, s.InverseToeplitz != nil, s.BLT != nil, s.Columns != nil)
	check.Require(
		ways == 1,
		"representations",
		ways,
		"must be 1: a strategy has exactly one of toeplitz, inverse_toeplitz, blt, columns",
	)
	if check.Err() != nil {
		return check.Err()
	}
	switch {
	case s.Toeplitz != nil:
		checkColumn(&check, "toeplitz column", s.Toeplitz, s.Steps)
	case s.InverseToeplitz != nil:
		checkColumn(&check, "inverse toeplitz column", s.InverseToeplitz, s.Steps)
	case s.BLT != nil:
		s.BLT.check(&check)
	default:
		check.Require(len(s.Columns) == s.Steps, "columns", len(s.Columns), "must be as many as the steps")
		if len(s.Columns) == s.Steps {
			for i, c := range s.Columns {
				checkColumn(&check, fmt.Sprintf("column %d", i), c, s.Steps-i)
			}
		}
	}
	if check.Err() == nil {
		s.checkInverse(&check)
	}
	return check.Err()
}

// checkColumn requires 1 to size finite entries, the first positive.
func checkColumn(check *param.Checker, name string, c []float64, size int) {
	checkEntries(check, name, c, 1, size)
	if len(c) > 0 {
		check.Require(!(c[0] <= 0), name, c[0], "must begin with a number above 0")
	}
}

// check requires as many scales as decays, finite scales, and decays in [0, 1).
func (b *BLT) check(check *param.Checker) {
	checkEntries(check, "scales of blt", b.Scales, len(b.Decays), len(b.Decays))
	for _, v := range b.Decays {
		check.Require(v >= 0 && v < 1, "decay of blt", v, "must be in [0, 1)")
	}
}

// checkInverse requires that C and C⁻¹ stay in the range of float32 on the first unit vector and on
// a vector of scattered signs: noise would overflow otherwise.
func (s *Strategy) checkInverse(check *param.Checker) {
	if s.Columns == nil && s.Steps > stabilitySteps {
		leading := *s
		leading.Steps = stabilitySteps
		leading.Toeplitz = leading.Toeplitz[:min(len(s.Toeplitz), stabilitySteps)]
		leading.InverseToeplitz = leading.InverseToeplitz[:min(len(s.InverseToeplitz), stabilitySteps)]
		s = &leading
	}
	unit, signs := make([]float64, s.Steps), make([]float64, s.Steps)
	unit[0] = 1
	state := uint64(1)
	for i := range signs { // a linear congruential generator with Knuth's MMIX constants
		state = state*6364136223846793005 + 1442695040888963407
		signs[i] = 1 - 2*float64(state>>63)
	}
	for _, x := range [][]float64{unit, signs} {
		for _, y := range [][]float64{s.Multiply(x), s.Solve(x)} {
			for i, v := range y {
				if !(math.Abs(v) <= math.MaxFloat32) {
					check.Require(
						false,
						"growth of the matrix or its inverse at step",
						i,
						"must stay in the range of float32: the strategy is unstable",
					)
					return
				}
			}
		}
	}
}
