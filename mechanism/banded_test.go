package mechanism_test

import (
	"testing"

	"minsep/mechanism"
)

type denseCase struct {
	N         int       `json:"n"`
	Epochs    int       `json:"epochs"`
	Bands     int       `json:"bands"`
	EqualNorm bool      `json:"equal_norm"`
	Loss      float64   `json:"mse_times_sens2"`
	First     []float64 `json:"first_column_first8"`
}

func denseGolden(t testing.TB) []denseCase {
	var golden struct {
		Cases []denseCase `json:"cases"`
	}
	readGolden(t, "dense_banded_strategies.json", &golden)
	return golden.Cases
}

// TestOptimalBandedWorkloads perturbs entries of the optimum under workloads whose gradient goes
// through the momentum's state.
func TestOptimalBandedWorkloads(t *testing.T) {
	const n, bands = 40, 4
	for w, a := range []*mechanism.Workload{
		mechanism.Prefix(n), {Steps: n, Momentum: .9, LearningRates: mechanism.RatesOf(mechanism.CooldownSchedule, n, 0)}, {Steps: n, LearningRates: mechanism.RatesOf(mechanism.LinearDecaySchedule, n, 0)},
		{Steps: n, Momentum: .8, Forgetting: .1, Decay: .05, LearningRates: mechanism.RatesOf(mechanism.WarmupCosineSchedule, n, 5)},
		{Steps: n, Toeplitz: []float64{1, .9, .8, .7}}, workloads(n)[5], workloadOfRows(&mechanism.Workload{Steps: n, Momentum: .9, LearningRates: mechanism.RatesOf(mechanism.CooldownSchedule, n, 0)}),
	} {
		p := mechanism.Problem{Workload: a, Participation: mechanism.Participation{MinSep: 8, MaxParticipations: 3}}
		s := must2(p.Make(t.Context(), mechanism.KindBanded, bands))(t)
		best := must2(p.Loss(s))(t)
		toeplitz := must2(mechanism.Problem{Workload: mechanism.Prefix(n)}.Make(t.Context(), mechanism.KindBandedToeplitz, bands))(t)
		toeplitz.Normalized = true
		like := must2(p.Loss(toeplitz))(t)
		t.Logf("workload %d: loss %v, Toeplitz %v", w, best, like)
		if best > like {
			t.Errorf("workload %d: loss %v is above the Toeplitz optimum's %v", w, best, like)
		}
		s.Normalized = true // perturbed columns keep norm one
		for i, c := range s.Columns {
			for j := range c {
				for _, step := range []float64{-1e-2, 1e-2} {
					old := c[j]
					c[j] += step
					if loss := must2(p.Loss(s))(t); loss < best*(1-1e-9) {
						t.Errorf("workload %d: loss %v falls to %v at column %d, entry %d, by %v", w, best, loss, i, j, step)
					}
					c[j] = old
				}
			}
		}
	}
}

func TestOptimalBandedRefuses(t *testing.T) {
	for _, c := range []struct {
		p     mechanism.Problem
		bands int
	}{
		{mechanism.Problem{}, 1},
		{mechanism.Problem{Workload: mechanism.Prefix(8)}, 0},
		{mechanism.Problem{Workload: mechanism.Prefix(8)}, 9},
		{mechanism.Problem{Workload: mechanism.Prefix(8), Objective: "median"}, 2},
		{mechanism.Problem{Workload: mechanism.Prefix(8), Objective: mechanism.MaxError}, 2},
		{mechanism.Problem{Workload: mechanism.Prefix(8), Participation: mechanism.Participation{MinSep: 2}}, 3},
		{mechanism.Problem{Workload: &mechanism.Workload{Steps: 1 << 17, Toeplitz: []float64{1, 1}}}, 2},
	} {
		if second(c.p.Make(t.Context(), mechanism.KindBanded, c.bands)) == nil {
			t.Errorf("%+v with %d bands is accepted", c.p, c.bands)
		}
	}
}
