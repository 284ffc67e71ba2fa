package mechanism_test

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"minsep/internal/must"
	"minsep/mechanism"
)

func TestClosedForms(t *testing.T) {
	const n = 40
	made := func(p mechanism.Params) *mechanism.Strategy {
		p.Steps = n
		return must.Get(p.Make(t.Context(), nil))(t)
	}
	// with all bands the fractional roots are exact: γ and 1-γ multiply to the prefix matrix, and
	// inverse roots are inverses
	for _, gamma := range []float64{.2, .5, .8, 1} {
		rest := 1 - gamma
		root := made(mechanism.Params{Kind: mechanism.KindBFR, Bands: n, Gamma: &gamma})
		other := made(mechanism.Params{Kind: mechanism.KindBFR, Bands: n, Gamma: &rest})
		inverse := made(mechanism.Params{Kind: mechanism.KindBIFR, Bands: n, Gamma: &gamma})
		x := make([]float64, n)
		for i := range x {
			x[i] = math.Cos(float64(i))
		}
		product := root.Multiply(other.Multiply(x))
		same := inverse.Multiply(x)
		for i, v := range mechanism.Prefix(n).Multiply(x) {
			if math.Abs(product[i]-v) > 1e-12 {
				t.Errorf("γ %v: (A^γ A^(1-γ) x)[%d] = %v, want %v", gamma, i, product[i], v)
			}
			if r := root.Multiply(x); math.Abs(same[i]-r[i]) > 1e-12 {
				t.Errorf("γ %v: inverse of A^-γ gives %v, A^γ %v", gamma, same[i], r[i])
			}
		}
	}
	bsr := must.Get(mechanism.BSR(n, 4))(t)
	for j, want := range []float64{1, .5, .375, .3125} {
		if bsr.Toeplitz[j] != want {
			t.Errorf("BSR[%d] = %v, want %v", j, bsr.Toeplitz[j], want)
		}
	}
	bisr := made(mechanism.Params{Kind: mechanism.KindBISR, Bands: 4})
	for j, want := range []float64{1, -.5, -.125, -.0625} {
		if bisr.InverseToeplitz[j] != want {
			t.Errorf("BISR[%d] = %v, want %v", j, bisr.InverseToeplitz[j], want)
		}
	}
	lambda, offset, plain := .9, .5, false
	cgd := made(mechanism.Params{Kind: mechanism.KindLambdaCGD, Lambda: &lambda, Normalized: &plain})
	for j, v := range cgd.Column(nil, 3) {
		if math.Abs(v-math.Pow(.9, float64(j))) > 1e-14 {
			t.Errorf("λ-CGD[%d] = %v", j, v)
		}
	}
	one := made(mechanism.Params{Kind: mechanism.KindOneParameter, Bands: 3, Offset: &offset})
	if one.Toeplitz[1] != 1 || one.Toeplitz[0] != 1.5 {
		t.Errorf("one parameter: %v", one.Toeplitz)
	}
	for _, err := range []error{
		second(mechanism.BSR(3, 4)), second(mechanism.Toeplitz(2, []float64{1, 2, 3})), second(mechanism.Stamped(cgd, 0)),
	} {
		if err == nil {
			t.Error("a parameter out of range is accepted")
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestStamped(t *testing.T) {
	for _, s := range samples() {
		stamped := must.Get(mechanism.Stamped(s, 3))(t)
		block := matrix(s)
		all := matrix(stamped)
		for i := range stamped.Steps {
			for j := range stamped.Steps {
				want := 0.0
				if i/s.Steps == j/s.Steps {
					want = block.At(i%s.Steps, j%s.Steps)
				}
				if math.Abs(all.At(i, j)-want) > 1e-14 {
					t.Fatalf("%s: entry %d, %d is %v, want %v", s.Kind, i, j, all.At(i, j), want)
				}
			}
		}
	}
}

// TestOptimaAreOptimal perturbs every optimised coefficient: no direction may lower the loss, which
// Problem.Loss computes without the optimisers' code.
func TestOptimaAreOptimal(t *testing.T) {
	const n = 60
	training := &mechanism.Workload{Steps: n, Momentum: .8, Forgetting: .1, Decay: .05, LearningRates: mechanism.RatesOf(mechanism.WarmupCosineSchedule, n, 5)}
	for _, p := range []mechanism.Problem{
		{Workload: mechanism.Prefix(n)},
		{Workload: mechanism.Prefix(n), Participation: mechanism.Participation{MinSep: 10}},
		{Workload: mechanism.Prefix(n), Objective: mechanism.MaxError, Participation: mechanism.Participation{MinSep: 7, MaxParticipations: 3}},
		{Workload: &mechanism.Workload{Steps: n, Momentum: .9}, Participation: mechanism.Participation{MinSep: 20, MaxParticipations: 2}},
		{Workload: &mechanism.Workload{Steps: n, Momentum: .5, Forgetting: .1}, Participation: mechanism.Participation{MinSep: 10}},
		{Workload: training, Participation: mechanism.Participation{MinSep: 8, MaxParticipations: 3}},
		{Workload: workloads(n)[3], Participation: mechanism.Participation{MinSep: 8, MaxParticipations: 3}},
	} {
		for _, c := range []struct {
			kind         string
			size         int
			coefficients func(*mechanism.Strategy) [][]float64
		}{
			{mechanism.KindBandedToeplitz, 5, func(s *mechanism.Strategy) [][]float64 { return [][]float64{s.Toeplitz} }},
			{mechanism.KindBandedToeplitz, 15, func(s *mechanism.Strategy) [][]float64 { return [][]float64{s.Toeplitz} }},
			{mechanism.KindBanded, 4, func(s *mechanism.Strategy) [][]float64 { return s.Columns }},
			{mechanism.KindBandInv, 4, func(s *mechanism.Strategy) [][]float64 { return [][]float64{s.InverseToeplitz} }},
			{mechanism.KindBLT, 2, func(s *mechanism.Strategy) [][]float64 { return [][]float64{s.BLT.Scales, s.BLT.Decays} }},
		} {
			if !p.Workload.IsToeplitz() && c.kind != mechanism.KindBandedToeplitz && c.kind != mechanism.KindBanded || c.kind == mechanism.KindBanded && p.Objective == mechanism.MaxError {
				continue // is refused
			}
			start := time.Now()
			s, err := p.Make(t.Context(), c.kind, c.size)
			if err != nil {
				t.Errorf("%s %d, %+v: %v", c.kind, c.size, p.Participation, err)
				continue
			}
			best := must.Get(p.Loss(s))(t)
			t.Logf("%s %d: loss %.6f, %v", c.kind, c.size, best, time.Since(start))
			s.Normalized = s.Normalized || c.kind == mechanism.KindBanded // columns that are changed keep their norm
			for _, x := range c.coefficients(s) {
				for i := range x {
					for _, step := range []float64{-3e-3, 3e-3} {
						old := x[i]
						x[i] *= 1 + step
						monotone := p.Participation.MinSep == 0 || c.size <= p.Participation.MinSep || slices.IsSortedFunc(s.Toeplitz, func(a, b float64) int { return cmp.Compare(b, a) })
						if loss, err := p.Loss(s); monotone && err == nil && loss < best*(1-1e-9) {
							t.Errorf("%s %d: loss %v falls to %v at coefficient %d times %v", c.kind, c.size, best, loss, i, 1+step)
						}
						x[i] = old
					}
				}
			}
		}
	}
	if second((mechanism.Problem{Workload: training, Objective: mechanism.MaxError}).Make(t.Context(), mechanism.KindBandedToeplitz, 4)) == nil {
		t.Error("the largest error with a schedule is accepted")
	}
}

// TestInverseBeyondColumnSum optimises so many inverse bands that C's first column turns negative
// after min-sep unless it is held back. Its sensitivity is then an upper bound, and the loss with
// it must still fall with the number of bands.
func TestInverseBeyondColumnSum(t *testing.T) {
	p := mechanism.Problem{Workload: mechanism.Prefix(512), Participation: mechanism.Participation{MinSep: 64}}
	last := math.Inf(1)
	for _, bands := range []int{16, 32, 64} {
		s := must.Get(p.Make(t.Context(), mechanism.KindBandInv, bands))(t)
		loss := must.Get(p.Loss(s))(t)
		sensitivity := must.Get(s.Sensitivity(p.Participation))(t)
		t.Logf("%d bands: loss %v, %+v", bands, loss, sensitivity)
		if loss > last {
			t.Errorf("%d bands: loss %v is above that of fewer bands, %v", bands, loss, last)
		}
		last = loss
	}
}
