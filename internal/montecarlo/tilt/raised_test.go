package tilt

import (
	"math"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
)

// TestMomentsAreRaised: every source's ln N is above the one that it has computed, by at least what
// densities are covered for.
func TestMomentsAreRaised(t *testing.T) {
	c := toeplitz(24, 1, .5, .375)
	specs := map[string]montecarlo.Spec{
		"b-min-sep":       {Scheme: montecarlo.BMinSep, Steps: 24, MinSep: 4, Prob: .1, WarmStart: true},
		"b-min-sep, once": {Scheme: montecarlo.BMinSep, Steps: 24, MinSep: 24, Prob: .1, WarmStart: true},
		"epoch-min-sep":   {Scheme: montecarlo.EpochMinSep, Steps: 24, MinSep: 4, EpochSteps: 8},
		"rotation":        {Scheme: montecarlo.Rotation, Steps: 24, MinSep: 1, EpochSteps: 8},
		"balls-in-bins":   {Scheme: montecarlo.BallsInBins, Steps: 24, MinSep: 6},
	}
	for name, s := range specs {
		s.Strategy, s.NoiseMultiplier = c, 1
		columns := likelihood.NewColumns(c)
		exact, err := familyOf(s).source(s, columns, 2, false, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all := map[string]*source{name: exact}
		if b, ok := newLawFamily(s); ok && s.MinSep < s.Steps {
			if all[name+" in blocks"], err = newBlockSource(b, s, columns, 2, 2, true, math.Inf(1), nil); err != nil {
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
