package mechanism_test

import (
	"math"
	"testing"
	"time"

	"minsep/internal/must"
	"minsep/mechanism"
)

func TestOptimalDenseGolden(t *testing.T) {
	tried := 0
	for _, c := range denseGolden(t) {
		if c.Bands != 0 {
			continue
		}
		tried++
		p := mechanism.Problem{Workload: mechanism.Prefix(c.N), Participation: mechanism.Participation{MinSep: c.N / c.Epochs, Phases: true}}
		start := time.Now()
		s, gap, err := mechanism.OptimalDense(t.Context(), p, 1e-7)
		if err != nil {
			t.Errorf("n %d, %d epochs: %v", c.N, c.Epochs, err)
			continue
		}
		loss := must.Get(p.Loss(s))(t)
		t.Logf("n %d, %d epochs: loss/golden-1 %.2g, gap %.2g, %v", c.N, c.Epochs, loss/c.Loss-1, gap, time.Since(start))
		if math.Abs(loss/c.Loss-1) > 1e-6 {
			t.Errorf("n %d, %d epochs: loss %v, want %v", c.N, c.Epochs, loss, c.Loss)
		}
		for i, v := range c.First {
			if math.Abs(s.Columns[0][i]-v) > 2e-3 {
				t.Errorf("n %d, %d epochs: C[%d][0] = %v, want %v", c.N, c.Epochs, i, s.Columns[0][i], v)
			}
		}
	}
	if tried == 0 {
		t.Fatal("no case")
	}
}

func TestOptimalDenseWorkloads(t *testing.T) {
	for _, c := range []struct{ n, b int }{{30, 10}, {31, 10}, {24, 4}, {13, 3}, {20, 1}, {9, 9}, {40, 19}} {
		for w, a := range workloads(c.n) {
			if a.LearningRates != nil { // which must not be 0
				a.LearningRates[0] += .1
			}
			p := mechanism.Problem{Workload: a, Participation: mechanism.Participation{MinSep: c.b, Phases: true}}
			s, gap, err := mechanism.OptimalDense(t.Context(), p, 1e-5)
			if err != nil {
				t.Errorf("n %d, b %d, workload %d: %v", c.n, c.b, w, err)
				continue
			}
			// the certificate's two figures are computed apart: a gap below zero would show an
			// error in one of them
			if gap < 0 || gap > 1e-5 {
				t.Errorf("n %d, b %d, workload %d: gap %v", c.n, c.b, w, gap)
			}
			sensitivity := must.Get(s.Sensitivity(p.Participation))(t)
			if math.Abs(sensitivity.Value-1) > 1e-9 {
				t.Errorf("n %d, b %d, workload %d: sensitivity %+v, want 1", c.n, c.b, w, sensitivity)
			}
			if c.b == c.n && a.IsToeplitz() {
				toeplitz := must.Get(mechanism.Problem{Workload: a}.Make(t.Context(), mechanism.KindBandedToeplitz, c.n))(t)
				if best, loss := must.Get(p.Loss(toeplitz))(t), must.Get(p.Loss(s))(t); best < loss {
					t.Errorf("workload %d: Toeplitz loss %v below the dense optimum %v", w, best, loss)
				}
			}
		}
	}
}

func TestOptimalDenseRefuses(t *testing.T) {
	a := mechanism.Prefix(8)
	for _, p := range []mechanism.Problem{
		{Workload: a, Objective: mechanism.MaxError},
		{Workload: a, Participation: mechanism.Participation{MinSep: 2}},
		{Workload: a, Participation: mechanism.Participation{MinSep: 2, MaxParticipations: 3, Phases: true}},
		{Workload: &mechanism.Workload{Steps: 8, LearningRates: mechanism.RatesOf(mechanism.WarmupCosineSchedule, 8, 2)}},
	} {
		if _, _, err := mechanism.OptimalDense(t.Context(), p, 1e-5); err == nil {
			t.Errorf("%+v is accepted", p)
		}
	}
}
