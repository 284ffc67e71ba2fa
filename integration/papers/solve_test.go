package main

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"minsep/accounting/montecarlo"
	"minsep/internal/stattest"
	"minsep/mechanism"
)

// quantile is that of the normal distribution at which 1e-9 of it is outside.
const quantile = 6.11

// bend is what the line through two estimates of δ may be wrong by, as a part of σ.
const bend = .005

// TestEstimateAgainstPLD compares the solver with the exact noise multiplier of Poisson sampling.
func TestEstimateAgainstPLD(t *testing.T) {
	t.Parallel()
	const n = 100
	for _, epsilon := range []float64{4, 1} {
		if testing.Short() && epsilon < 4 {
			continue // seconds
		}
		exact, err := poissonSigma(.05, n, epsilon)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			prob  float64
			agree bool
		}{{.05, true}, {.06, false}} {
			f, err := amplified(claim{montecarlo.Spec{Scheme: montecarlo.Poisson, Steps: n, MinSep: 1, Prob: c.prob, Strategy: mechanism.Identity(n),
				NoiseMultiplier: 1.5 * exact}, epsilon, deltaFractional})
			if err == nil {
				f, err = f.confirmed()
			}
			if err != nil {
				t.Fatal(err)
			}
			if agree := math.Abs(f.sigma-exact) < quantile*f.stdErr+bend*exact; agree != c.agree {
				t.Errorf("ε = %v, p = %v: σ %v ± %v, exact for p = 0.05: %v", epsilon, c.prob, f.sigma, f.stdErr, exact)
			}
		}
	}
}

// TestAmplifiedCells compares published figures: two by tilted sampling, which those without
// amplification are far from, and two exact.
func TestAmplifiedCells(t *testing.T) {
	t.Parallel()
	cell := func(name string, s *mechanism.Strategy, period int, published float64) {
		f, err := amplified(inBins(period, s, 8))
		if err != nil {
			t.Fatal(err)
		}
		allowed := .005 + quantile*f.spread() + bend*published
		if math.Abs(f.rmse()-published) > allowed {
			t.Errorf("%s: %v ± %v, published %v", name, f.rmse(), f.spread(), published)
		}
		if plain := f.rms * f.NoiseMultiplier / startShare; math.Abs(plain-published) < allowed {
			t.Errorf("%s: %v ± %v is no further from the figure without amplification", name, f.rmse(), f.spread())
		}
	}
	blt, err := problemFractional().Make(mechanism.KindBLT, 4)
	if err != nil {
		t.Fatal(err)
	}
	cell("arXiv 2605.18379, Table 6, BLT, ε = 8", blt, epochFractional, 4.87)
	if !stattest.Long() {
		return // 30 s
	}
	inverse, err := mechanism.BISR(3900, 16)
	if err != nil {
		t.Fatal(err)
	}
	cell("arXiv 2601.22334, Table 4, BISR (p=16), ε = 8", inverse, 390, 11.50)
	for _, exact := range []func() (row, error){
		func() (row, error) { return cyclicFractional(8, "5.95") },
		func() (row, error) { return sgdCellLambda(8, "21.82") },
	} {
		r, err := exact()
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(r.computed-r.value()) > halfUnit(r.published)+.004*r.value() {
			t.Errorf("%s: %v, published %s", r.name, r.computed, r.published)
		}
	}
}

// TestClimb requires the least of a family, from either side.
func TestClimb(t *testing.T) {
	for _, start := range []int{0, 2, 3} {
		var tried []int
		best, f, err := climb(start, 4, func(i int) (claim, error) {
			tried = append(tried, i)
			s, err := mechanism.BSR(64, 1<<i)
			if err != nil {
				return claim{}, err
			}
			return claim{montecarlo.Spec{Scheme: montecarlo.BallsInBins, Steps: 64, MinSep: 16, Strategy: s}, 8, 1e-3}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if best != 3 {
			t.Errorf("from %d: %d, RMSE %v, tried %v", start, best, f.rmse(), tried)
		}
	}
}

// TestCutGradient compares the derivatives with differences.
func TestCutGradient(t *testing.T) {
	theta := []float64{1, .5, .3, .2}
	for _, c := range []cut{{100, 30}, {100, 2}} {
		grad, unused := make([]float64, len(theta)), make([]float64, len(theta))
		c.logLoss(theta, grad)
		for j, want := range grad {
			const h = 1e-5
			up, down := slices.Clone(theta), slices.Clone(theta)
			up[j], down[j] = up[j]+h, down[j]-h
			if got := (c.logLoss(up, unused) - c.logLoss(down, unused)) / (2 * h); math.Abs(got-want) > 1e-7 {
				t.Errorf("%v: derivative by %d: %v, difference %v", c, j, want, got)
			}
		}
	}
}

func TestParallel(t *testing.T) {
	var jobs []job
	for i := range 9 {
		jobs = append(jobs, func() (row, error) { return row{computed: float64(i)}, nil })
	}
	rows, err := parallel(jobs)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		if r.computed != float64(i) {
			t.Errorf("row %d is %v", i, r.computed)
		}
	}
	jobs = append(jobs, func() (row, error) { return row{}, fmt.Errorf("none") })
	if _, err := parallel(jobs); err == nil {
		t.Error("no error")
	}
}
