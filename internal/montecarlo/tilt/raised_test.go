package tilt

import (
	"math"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/sampling"
)

// TestMomentsAreRaised: every source's ln N is above the one that it has computed, by at least what
// densities are covered for.
func TestMomentsAreRaised(t *testing.T) {
	c := toeplitz(24, 1, .5, .375)
	specs := map[string]montecarlo.Spec{
		"b-min-sep":       specOf(sampling.BMinSep{Prob: .1, Steps: 24, MinSep: 4, WarmStart: true}, c, 1),
		"b-min-sep, once": specOf(sampling.BMinSep{Prob: .1, Steps: 24, MinSep: 24, WarmStart: true}, c, 1),
		"epoch-min-sep":   specOf(sampling.EpochMinSep{Steps: 24, MinSep: 4, EpochSteps: 8}, c, 1),
		"rotation":        specOf(sampling.Rotation{Steps: 24, EpochSteps: 8}, c, 1),
		"balls-in-bins":   specOf(sampling.BallsInBins{Steps: 24, Period: 6}, c, 1),
	}
	for name, s := range specs {
		columns := likelihood.NewColumns(c)
		exact, err := familyOf(s).source(t.Context(), s, columns, 2, math.Inf(1))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all := map[string]*source{name: exact}
		if _, ok := familyOf(s).(lawFamily); ok && name != "b-min-sep, once" && name != "balls-in-bins" {
			if all[name+" in blocks"], err = newBlockSource(t.Context(), newLawFamily(s), s, columns, 2, 2, true, math.Inf(1)); err != nil {
				t.Fatalf("%s in blocks: %v", name, err)
			}
		}
		for name, s := range all {
			const least = 9e-10
			if s.raised < least || s.raised > 1e-8 || s.logN() != s.lnN+s.raised {
				t.Errorf("%s: ln N = %g is raised by %g, want at least %g", name, s.lnN, s.raised, least)
			}
		}
	}
}
