package mechanism

import (
	"fmt"
	"math"

	"minsep/internal/param"
)

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
	check := param.Checker{Package: "mechanism"}
	_, family := FamilyOf(s.Kind)
	check.Require(family || s.Kind == KindStamped || s.Kind == KindOwn, "kind", s.Kind, "must be a known kind of strategy")
	check.Require(s.Steps >= 1 && s.Steps <= MaxSteps, "steps", s.Steps, fmt.Sprintf("must be 1 to %d", MaxSteps))
	ways := s.representations()
	check.Require(ways == 1, "representations", ways, "must be 1: a strategy has exactly one of toeplitz, inverse_toeplitz, blt, columns")
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
	if len(c) == 0 || len(c) > size {
		check.Require(false, "length of "+name, len(c), fmt.Sprintf("must be 1 to %d", size))
		return
	}
	check.Positive("diagonal of "+name, c[0])
	for j, v := range c[1:] {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			check.Require(false, fmt.Sprintf("entry %d of %s", j+1, name), v, "must be finite")
		}
	}
}

// check requires as many scales as decays, finite scales, and decays in [0, 1).
func (b *BLT) check(check *param.Checker) {
	check.Require(len(b.Scales) == len(b.Decays), "scales of blt", len(b.Scales), fmt.Sprintf("must be as many as the decays, %d", len(b.Decays)))
	for _, v := range b.Scales {
		check.Require(!math.IsNaN(v) && !math.IsInf(v, 0), "scale of blt", v, "must be finite")
	}
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
					check.Require(false, "growth of the matrix or its inverse at step", i, "must stay in the range of float32: the strategy is unstable")
					return
				}
			}
		}
	}
}
