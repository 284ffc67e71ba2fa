package verification

import (
	"testing"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
)

// TestMinorDirectionIsCheap: a direction of which estimates saw no value, with M far above δ, takes little more than the fewest
// samples that any mean can be accepted with, and each estimate counts: fewer of them leave more to be reckoned with.
func TestMinorDirectionIsCheap(t *testing.T) {
	const delta, bound = 1e-5, 0.025
	p := Problem{Delta: delta}
	estimates := []NoiseEstimate{}
	for i, mean := range []float64{1.1e-5, 8e-6, 6e-6, 5e-6} {
		estimates = append(estimates, NoiseEstimate{NoiseMultiplier: onGrid(i), Estimates: [2]Estimate{
			{Direction: montecarlo.P, Samples: 50000, Mean: mean, Bound: 5 * delta},
			{Direction: montecarlo.Q, Samples: 10 * bound / delta, Mean: 1e-8 * bound, Bound: bound}, // of slack alone
		}})
	}
	least := samplesOf(t, p, accounting.Goal{Bound: bound})
	for _, errors := range []float64{mainErrors, spareErrors} {
		all := newModel(estimates, 0.8*delta).goals(onGrid(1), errors)[1]
		if got := samplesOf(t, p, all); got > 1.75*least {
			t.Errorf("%v standard errors: %.0f samples, where a mean of 0 takes %.0f", errors, got, least)
		}
		if two := newModel(estimates[:2], 0.8*delta).goals(onGrid(1), errors)[1]; !(all.Mean < 0.6*two.Mean) {
			t.Errorf("%v standard errors: a mean of %g from four estimates, %g from two", errors, all.Mean, two.Mean)
		}
	}
	// What was seen counts.
	for i := range estimates {
		estimates[i].Estimates[1].Mean = delta / 2
	}
	if goal := newModel(estimates, 0.8*delta).goals(onGrid(1), 0)[1]; goal.Mean < delta/4 {
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
