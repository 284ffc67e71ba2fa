package tilt

import (
	"context"
	"errors"
	"math"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/mechanism"
	"minsep/sampling"
)

// SmallestProvable is SmallestProvableBelow that goes on to its end.
func SmallestProvable(spec montecarlo.Spec, epsilon, delta float64) (Provable, error) {
	return SmallestProvableBelow(context.Background(), spec, math.Inf(1), epsilon, delta, nil)
}

// TestOtherDirectionIsNoFloor: at .66 the bound of H(P,Q) is 1.6 δ, at .78 the bound of H(Q,P), the
// first that is looked at, is 400 δ. That is no floor of either.
func TestOtherDirectionIsNoFloor(t *testing.T) {
	first := []float64{1}
	for j := 1; j < 16; j++ {
		first = append(first, first[j-1]*(1-0.5/float64(j)))
	}
	c := toeplitz(1000, first...)
	c.Normalized = true
	spec := rotationCase{c, 138, .6}.spec()
	if found, err := SmallestProvable(spec, 8, 9e-6); err != nil || found.NoiseMultiplier > .88 {
		t.Errorf("σ = %v, %v", found.NoiseMultiplier, err)
	}
}

func TestSmallestProvable(t *testing.T) {
	bands := []float64{1, .5, .375, .3125}
	for name, spec := range map[string]montecarlo.Spec{
		"b-min-sep":     specOf(sampling.BMinSep{Prob: .05, Steps: 100, MinSep: 4, WarmStart: true}, toeplitz(100, bands...), 1),
		"from far":      specOf(sampling.BMinSep{Prob: .05, Steps: 100, MinSep: 4, WarmStart: true}, toeplitz(100, bands...), 40),
		"from below":    specOf(sampling.BMinSep{Prob: .05, Steps: 100, MinSep: 4, WarmStart: true}, toeplitz(100, bands...), .1),
		"two examples":  ownersOf(specOf(sampling.BMinSep{Prob: .05, Steps: 40, MinSep: 4}, toeplitz(40, bands...), 1), 2),
		"balls-in-bins": specOf(sampling.BallsInBins{Steps: 40, Period: 5}, toeplitz(40, bands...), 1),
		"poisson":       specOf(sampling.Poisson{Prob: .05, Steps: 40}, mechanism.Identity(40), 1),
	} {
		const delta = 1e-4
		epsilon := 3.0
		if name == "balls-in-bins" { // N_θ ≥ 1 and θ ≤ 3 prove nothing below e^-2ε 4/27
			epsilon = 6
		}
		found, err := SmallestProvable(spec, epsilon, delta)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, direction := range montecarlo.Directions {
			p := found.Proposals[i]
			if p.Direction != direction || p.Divergence > delta || p.Spec.NoiseMultiplier != found.NoiseMultiplier {
				t.Errorf("%s: proposal of direction %s is for %s at σ = %v and proves %g", name, direction, p.Direction, p.Spec.NoiseMultiplier, p.Divergence)
			}
		}
		worst := 0.0
		for _, direction := range montecarlo.Directions {
			spec.NoiseMultiplier = found.NoiseMultiplier * 0.9965
			p, err := NewProposal(t.Context(), Config{spec, epsilon, direction})
			if err != nil {
				t.Fatal(err)
			}
			worst = max(worst, p.Divergence)
		}
		if worst <= delta {
			t.Errorf("%s: σ = %v is not the smallest: 0.35 %% less proves %g", name, found.NoiseMultiplier, worst)
		}
	}
}

// TestSmallestProvableBelow: a search that is ended has what was proven so far, and no proposal is
// made after its end.
func TestSmallestProvableBelow(t *testing.T) {
	spec := specOf(sampling.BMinSep{Prob: .05, Steps: 60, MinSep: 4, WarmStart: true}, toeplitz(60, 1, .5, .375, .3125), 1)
	const epsilon, delta = 3.0, 1e-4
	whole, err := SmallestProvable(spec, epsilon, delta)
	if err != nil {
		t.Fatal(err)
	}
	none, some := 0, 0
	for most := range 9 {
		asked, last := 0, false
		before, closer := math.Inf(1), math.Inf(1)
		found, err := SmallestProvableBelow(t.Context(), spec, math.Inf(1), epsilon, delta, func(proven, ratio float64) bool {
			if last && !(proven > 0 && proven <= before) || ratio > closer || ratio <= 1 || !math.IsInf(ratio, 1) && proven == 0 {
				t.Errorf("%v is proven, within %v, before it was %v, within %v", proven, ratio, before, closer)
			}
			if last = proven > 0; last {
				before = proven
			}
			closer = ratio
			asked++
			return asked <= most
		})
		if len(found.Tried) != min(asked, most) {
			t.Errorf("%d were tried of %d", len(found.Tried), asked)
		}
		for i, tried := range found.Tried {
			if i > 0 && !(tried.NoiseMultiplier > found.Tried[i-1].NoiseMultiplier && tried.Bound <= found.Tried[i-1].Bound) || (tried.Bound <= delta) != (err == nil && tried.NoiseMultiplier >= found.NoiseMultiplier) {
				t.Errorf("%d proposals: %v is the smallest that is proven, of %v", most, found.NoiseMultiplier, found.Tried)
			}
		}
		if asked > most+1 {
			t.Errorf("asked %d times, to end after %d proposals", asked, most)
		}
		switch {
		case errors.Is(err, ErrNotProvable):
			none++
			if last {
				t.Errorf("%d proposals: one was proven: %v", most, err)
			}
		case err != nil:
			t.Fatal(err)
		case found.Proposals[0].Divergence > delta || found.Proposals[1].Divergence > delta || found.NoiseMultiplier < whole.NoiseMultiplier:
			t.Errorf("%d proposals: %v proves %g and %g", most, found.NoiseMultiplier, found.Proposals[0].Divergence, found.Proposals[1].Divergence)
		case found.NoiseMultiplier > whole.NoiseMultiplier:
			some++
		}
	}
	if none == 0 || some == 0 {
		t.Errorf("%d searches had nothing, %d something that is not the least: it shows little", none, some)
	}
}
