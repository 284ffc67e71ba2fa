package verification

import (
	"math"
	"testing"

	"minsep/accounting"
	"minsep/accounting/internal/normal"
	"minsep/accounting/montecarlo"
)

// TestMinorDirectionIsCheap: a direction of which estimates saw no value, with M far above δ, takes
// little more than the fewest samples that any mean can be accepted with, and each estimate counts:
// fewer of them leave more to be reckoned with.
func TestMinorDirectionIsCheap(t *testing.T) {
	const delta, bound = 1e-5, 0.025
	p := Problem{Delta: delta}
	estimates := []NoiseEstimate{}
	for i, mean := range []float64{1.1e-5, 8e-6, 6e-6, 5e-6} {
		estimates = append(estimates, NoiseEstimate{NoiseMultiplier: math.Pow(1.01, float64(i)), Estimates: [2]Estimate{
			{Direction: montecarlo.P, Samples: 50000, Mean: mean, Bound: 5 * delta},
			{Direction: montecarlo.Q, Samples: 10 * bound / delta, Mean: 1e-8 * bound, Bound: bound}, // of slack alone
		}})
	}
	least := samplesOf(t, p, accounting.Goal{Bound: bound})
	for _, errors := range []float64{mainErrors, spareErrors} {
		all := newModel(scaleOf(t, 2, delta), estimates, NoiseEstimate{}).goals(1.01, errors)[1]
		if got := samplesOf(t, p, all); got > 2.1*least {
			t.Errorf("%v standard errors: %.0f samples, where a mean of 0 takes %.0f", errors, got, least)
		}
		if two := newModel(scaleOf(t, 2, delta), estimates[:2], NoiseEstimate{}).goals(1.01, errors)[1]; !(all.Mean < 0.75*two.Mean) {
			t.Errorf("%v standard errors: a mean of %g from four estimates, %g from two", errors, all.Mean, two.Mean)
		}
	}
	// What was seen counts.
	for i := range estimates {
		estimates[i].Estimates[1].Mean = delta / 2
	}
	if goal := newModel(scaleOf(t, 2, delta), estimates, NoiseEstimate{}).goals(1.01, 0)[1]; goal.Mean < delta/4 {
		t.Errorf("estimates of δ/2: a mean of %g", goal.Mean)
	}
}

func samplesOf(t *testing.T, p Problem, g accounting.Goal) float64 {
	t.Helper()
	_, tests, err := p.claim().Allocate([]accounting.Goal{g})
	if err != nil {
		t.Fatal(err)
	}
	return float64(tests[0].Samples)
}

// TestCandidatesRise: also where no noise multiplier has so large a δ, so that all of them begin at
// the smallest that the model knows, as with two examples that take part once in a hundred runs.
func TestCandidatesRise(t *testing.T) {
	const delta = 0.9
	var estimates []NoiseEstimate
	for _, sigma := range []float64{0.031, 0.034, 0.05} {
		estimates = append(estimates, NoiseEstimate{NoiseMultiplier: sigma, Estimates: [2]Estimate{
			{Direction: montecarlo.P, Samples: 2000, Mean: 0.0099, Bound: 1},
			{Direction: montecarlo.Q, Samples: 2000, Mean: 0.0099, Bound: 1},
		}})
	}
	m := newModel(scaleOf(t, 2, delta), estimates, NoiseEstimate{})
	for _, budget := range []uint64{1000, 10_000, 1_000_000} {
		p := Problem{Delta: delta, Samples: budget, bought: budget}
		sigmas, err := p.candidates(m, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(sigmas); i++ {
			if sigmas[i] <= sigmas[i-1] {
				t.Errorf("budget %d: candidates %v", budget, sigmas)
			}
		}
	}
}

// TestSpareShare: of the parts of a budget that the spare candidate may have, the one with the
// least noise is taken, counting the spare's noise for one time out of seven. Both candidates
// together keep within the budget.
func TestSpareShare(t *testing.T) {
	const delta = 1e-6
	chosen := map[float64]int{}
	for _, slope := range []float64{-8, -40} {
		for _, effort := range []float64{3, 40, 2000} { // M/δ
			for _, count := range []uint64{500, 20_000} { // samples of an estimate
				var estimates []NoiseEstimate
				for _, j := range []int{-4, 0, 5} {
					e := NoiseEstimate{NoiseMultiplier: math.Pow(1.01, float64(j))}
					mean := delta * math.Pow(math.Pow(1.01, float64(j)), slope)
					e.Estimates[0] = Estimate{Direction: montecarlo.P, Samples: count * uint64(effort), Mean: mean, Bound: effort * delta * math.Pow(math.Pow(1.01, float64(j)), 2*slope)}
					e.Estimates[1] = Estimate{Direction: montecarlo.Q, Mean: 1e-9 * delta, Bound: 1e-9 * delta}
					estimates = append(estimates, e)
				}
				m := newModel(scaleOf(t, 2, delta), estimates, NoiseEstimate{})
				low, high := m.at(.999*delta), m.at(.02*delta)
				for _, budget := range []float64{1e3, 1e4, 1e5, 1e7} {
					p := Problem{Delta: delta, Samples: uint64(budget), bought: uint64(budget)}
					sigmas, both := p.mainAndSpare(m, low, high, 2*high, 1)
					if !both {
						continue
					}
					expected := func(main, spare float64) float64 {
						return math.Log(main) + math.Log(spare/main)*normal.Tail(math.Sqrt2*mainErrors)
					}
					got, best, of := expected(sigmas[0], sigmas[1]), math.Inf(1), 0.0
					for _, share := range shares {
						main, ok := p.least(m, low, high, mainErrors, (1-share)*budget, delta)
						if !ok {
							continue
						}
						if spare, ok := p.least(m, main*leastApart, high*leastApart, spareErrors, share*budget, delta); ok {
							best = min(best, expected(main, spare))
							if roundUp(main) == sigmas[0] && roundUp(spare) == sigmas[1] {
								of = share
							}
						}
					}
					if got > best+5e-4 {
						t.Errorf("slope %g, M/δ %g, budget %g: %v, e^%.4g more noise than another share has", slope, effort, budget, sigmas, got-best)
					}
					if of == 0 {
						t.Errorf("slope %g, M/δ %g, budget %g: %v are of no share", slope, effort, budget, sigmas)
					}
					chosen[of]++
					total := 0.0
					for i, errors := range []float64{mainErrors, spareErrors} {
						for _, g := range m.goals(sigmas[i], errors) {
							if !g.Proven {
								total += samplesOf(t, p, g)
							}
						}
					}
					if total > budget+4 { // each of four trials is rounded up
						t.Errorf("slope %g, M/δ %g: %.0f samples of %g", slope, effort, total, budget)
					}
				}
			}
		}
	}
	if len(chosen) < 3 {
		t.Errorf("shares %v were chosen: it shows little", chosen)
	}
	t.Log(chosen)
}
