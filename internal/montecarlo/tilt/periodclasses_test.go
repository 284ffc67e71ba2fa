package tilt

import (
	"math"
	"testing"

	"minsep/internal/montecarlo/internal/likelihood"
)

// TestRotationTriplesAreBounded holds the bound of N_3 against the sum over all triples: equal
// where each age is a group of its own, else above it.
func TestRotationTriplesAreBounded(t *testing.T) {
	exact, more := 0, 0
	for _, c := range append(randomRotationCases(150), rotationCases...) {
		list := rotationPatterns(c.c.Steps, c.period)
		if len(list) > 130 {
			continue
		}
		want := 0.0
		lost := 0.0 // by rounding
		eachTuple(c.c, list, c.sigma, 3, func(_ []int, w float64) {
			w -= lost
			lost = want + w - want - w
			want += w
		})
		for groups := 1; groups <= 4; groups++ {
			got, err := newTripleBound(c.periods(), 1/(c.sigma*c.sigma), likelihood.NewColumns(c.c), groups)
			if err != nil {
				t.Fatalf("%v: %v", c, err)
			}
			above := math.Exp(got)/want - 1
			if above < -1e-12 || groups >= c.c.Bands()-1 && above > 1e-12 {
				t.Errorf("%v, %d groups: N = %v, want %v (relative %g)", c, groups, math.Exp(got), want, above)
			}
			if above < 1e-12 {
				exact++
			} else {
				more++
			}
		}
	}
	if exact < 100 || more < 30 {
		t.Errorf("only %d and %d cases", exact, more)
	}
}
