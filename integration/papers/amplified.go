package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/mechanism"
	"minsep/sampling"
)

// estimated is what every heading of estimates says.
const estimated = "Noise multipliers are estimates by tilted sampling (at least 10 M/δ samples, both directions), ± one standard error of the\n" +
	"RMSE from sampling; the line through two estimates of δ may add 0.5 %."

// amplifiedTables are those that take minutes.
func amplifiedTables() []table {
	return []table{
		{"arXiv 2605.18379, Table 6, balls-in-bins: RMSE at δ = 1e-5, n = 2048, k = 8, b = 256, least over the parameter named, for each ε.\n" + estimated + "\n" +
			"Left out: γ-BIFR, γ-BFR and 1/i + c (two free parameters: hundreds of estimates), BandInvMF (an optimisation for each\n" +
			"number of bands), the k-ary tree (not Toeplitz: tens of times as long a sample), ε = 1 and 4 (as many minutes again),\n" +
			"BandMF w/ Opt. and + Heuristic (not kinds that we make).", ballsFractional},
		{"arXiv 2605.18379, Table 7: as Table 6, with b-min-sep sampling (warm start, separation = bands, p0 = k/n) and cyclic Poisson sampling (exact, by PLD).\n" +
			estimated + "\nLeft out: γ-BFR and 1/i + c (two free parameters), ε = 1 and 4 with b-min-sep.", minSepFractional},
		{"arXiv 2601.22334, Table 4, balls-in-bins: RMSE at δ = 1e-5, n = 3900, k = 10, b = 390.\n" + estimated + "\n" +
			"Left out: ε < 1 and most cells below 8 (M/δ in the thousands at 0.2 ms a sample: half a minute to minutes each);\n" +
			"BandInvMF, whose amplified figures no reading reproduces (1 to 15 % off).", ballsLambda},
		{"arXiv 2601.22334, Table 4, DP-SGD with Poisson sampling at k/n, by PLD.", sgdLambda},
	}
}

// job computes one row.
type job func() (row, error)

// parallel computes rows with all processors, in order, and tells of each on standard error: they
// take long.
func parallel(jobs []job) ([]row, error) {
	rows, errs := make([]row, len(jobs)), make([]error, len(jobs))
	next := make(chan int)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := range next {
				rows[i], errs[i] = jobs[i]()
				fmt.Fprintf(os.Stderr, "%s: %.5g %s\n", rows[i].name, rows[i].computed, rows[i].note)
			}
		})
	}
	for i := range jobs {
		next <- i
	}
	close(next)
	group.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", i, err)
		}
	}
	return rows, nil
}

// family is a published row with one free parameter of few values.
type family struct {
	name, parameter string
	published       [2]string // at each of epsilons
	values          []float64
	start           [2]int // where the climb begins, as an index of values
	make            func(value float64) (*mechanism.Strategy, error)
}

// epsilons are the columns of arXiv 2605.18379 that are estimated.
var epsilons = [2]float64{2, 8}

// jobs are the cells of f, of the claim that claimOf makes of a strategy.
func (f family) jobs(claimOf func(s *mechanism.Strategy, epsilon float64) claim) (jobs []job) {
	for e, epsilon := range epsilons {
		jobs = append(jobs, func() (row, error) {
			i, best, err := climb(f.start[e], len(f.values), func(i int) (claim, error) {
				s, err := f.make(f.values[i])
				if err != nil {
					return claim{}, err
				}
				return claimOf(s, epsilon), nil
			})
			if err != nil {
				return row{}, fmt.Errorf("%s, ε = %v: %w", f.name, epsilon, err)
			}
			note := fmt.Sprintf("± %.2g", best.spread())
			if f.parameter != "" {
				note += fmt.Sprintf(", %s = %.4g", f.parameter, f.values[i])
			}
			return row{fmt.Sprintf("%s, ε = %v", f.name, epsilon), f.published[e], best.rmse(), note}, nil
		})
	}
	return jobs
}

// powers are those of two, 1 to last.
func powers(last int) (list []float64) {
	for i := 1; i <= last; i *= 2 {
		list = append(list, float64(i))
	}
	return list
}

const (
	stepsFractional, epochFractional = 2048, 256
	deltaFractional                  = 1e-5
)

func problemFractional() mechanism.Problem {
	return mechanism.Problem{Workload: mechanism.Prefix(stepsFractional), Participation: mechanism.Participation{MinSep: epochFractional}}
}

func inBins(period int, s *mechanism.Strategy, epsilon float64) claim {
	return claim{montecarlo.Spec{Scheme: montecarlo.BallsInBins, Steps: s.Steps, MinSep: period, Strategy: s}, epsilon, deltaFractional}
}

func ballsFractional() ([]row, error) {
	p := problemFractional()
	kind := func(kind string) func(float64) (*mechanism.Strategy, error) {
		return func(size float64) (*mechanism.Strategy, error) { return p.Make(kind, int(size)) }
	}
	var jobs []job
	for _, f := range []family{
		{"BISR", "bands", [2]string{"13.23", "4.74"}, powers(stepsFractional), [2]int{5, 7}, kind(mechanism.KindBISR)},
		{"DP-λCGD", "λ", [2]string{"16.35", "7.24"}, []float64{.8, .85, .9, .925, .95, .97, .98}, [2]int{3, 5},
			func(lambda float64) (*mechanism.Strategy, error) {
				return mechanism.LambdaCGD(stepsFractional, lambda, true)
			}},
		{"BandMF", "bands", [2]string{"14.59", "4.83"}, powers(epochFractional), [2]int{5, 7}, kind(mechanism.KindBandedToeplitz)},
		{"BSR", "bands", [2]string{"13.16", "4.55"}, powers(stepsFractional), [2]int{6, 7}, kind(mechanism.KindBSR)},
		{"BLT", "", [2]string{"15.50", "4.87"}, []float64{4}, [2]int{}, kind(mechanism.KindBLT)},
		{"DP-FTRL", "ν", [2]string{"12.83", "4.82"}, []float64{.1, .07, .05, .035, .025, .0175, .0125, .008, .005, .003, .002}, [2]int{3, 7},
			func(nu float64) (*mechanism.Strategy, error) { return dampedBy(stepsFractional, nu) }},
	} {
		jobs = append(jobs, f.jobs(func(s *mechanism.Strategy, epsilon float64) claim { return inBins(epochFractional, s, epsilon) })...)
	}
	return parallel(jobs)
}

func minSepFractional() ([]row, error) {
	p := problemFractional()
	claimOf := func(s *mechanism.Strategy, epsilon float64) claim {
		sep := len(s.Toeplitz)
		prob := 1 / float64(epochFractional-sep+1) // F3.1 with p0 = 1/256
		return claim{montecarlo.Spec{Scheme: montecarlo.BMinSep, Steps: stepsFractional, MinSep: sep, Prob: prob, WarmStart: true, Strategy: s}, epsilon, deltaFractional}
	}
	var jobs []job
	for _, f := range []family{
		{"BandMF, b-min-sep", "bands", [2]string{"13.48", "4.71"}, powers(epochFractional), [2]int{4, 6},
			func(bands float64) (*mechanism.Strategy, error) {
				return p.Make(mechanism.KindBandedToeplitz, int(bands))
			}},
		{"BSR, b-min-sep", "bands", [2]string{"12.95", "4.25"}, powers(epochFractional), [2]int{5, 7},
			func(bands float64) (*mechanism.Strategy, error) { return mechanism.BSR(stepsFractional, int(bands)) }},
	} {
		jobs = append(jobs, f.jobs(claimOf)...)
	}
	for i, published := range []string{"24.45", "14.61", "9.19", "5.95"} {
		jobs = append(jobs, func() (row, error) { return cyclicFractional(float64(int(1)<<i), published) })
	}
	return parallel(jobs)
}

// cyclicFractional is exact.
func cyclicFractional(epsilon float64, published string) (row, error) {
	r := row{name: fmt.Sprintf("BandMF, cyclic Poisson, ε = %v", epsilon), published: published, computed: math.Inf(1)}
	p := problemFractional()
	for _, bands := range powers(epochFractional) {
		s, err := p.Make(mechanism.KindBandedToeplitz, int(bands))
		if err != nil {
			return r, err
		}
		rmse, err := provenRMSE(sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: bands / epochFractional, Steps: stepsFractional, MinSep: int(bands)}}, s, epsilon)
		if err != nil {
			return r, err
		}
		if rmse < r.computed {
			r.computed, r.note = rmse, fmt.Sprintf("bands = %v", bands)
		}
	}
	return r, nil
}

// provenRMSE is the RMSE of a run of independent events at the smallest proven noise multiplier.
func provenRMSE(sampler sampling.Spec, s *mechanism.Strategy, epsilon float64) (float64, error) {
	sigma, err := accounting.Run{Sampler: sampler, Strategy: s, MaxExamplesPerOwner: 1}.Calibrate(epsilon, deltaFractional)
	if err != nil {
		return 0, err
	}
	e, err := s.Error(mechanism.Prefix(s.Steps))
	return sigma.Upper * e.RMSE, err
}

// poissonSigma is the smallest proven noise multiplier of DP-SGD.
func poissonSigma(prob float64, steps int, epsilon float64) (float64, error) {
	sigma, err := accounting.Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: prob, Steps: steps}}, Strategy: mechanism.Identity(steps),
		MaxExamplesPerOwner: 1}.Calibrate(epsilon, deltaFractional)
	return sigma.Upper, err
}

func ballsLambda() ([]row, error) {
	const n, b = 3900, 390
	p := mechanism.Problem{Workload: mechanism.Prefix(n), Participation: mechanism.Participation{MinSep: b}}
	var jobs []job
	for _, c := range []struct {
		kind, name string
		size       int
		epsilon    float64
		published  string
		note       string
	}{
		{mechanism.KindBISR, "BISR (p=16)", 16, 8, "11.50", ""},
		{mechanism.KindBISR, "BISR (p=64)", 64, 8, "6.81", ""},
		{mechanism.KindBSR, "BSR (p=390)", b, 8, "5.49", ""},
		{mechanism.KindBandedToeplitz, "BandMF (p=390)", b, 8, "5.84", ""},
		{mechanism.KindBLT, "BLT, 4 buffers", 4, 8, "5.87", ""},
		{mechanism.KindLambdaCGD, "DP-λCGD (λ=0.95)", 0, 8, "10.27", ""},
		{mechanism.KindLambdaCGD, "DP-λCGD (λ=0.95)", 0, 2, "21.45", ""},
		{mechanism.KindBSR, "BSR (p=64)", 64, 2, "18.88", ""},
		{mechanism.KindBISR, "BISR (p=16)", 16, 1, "20.25", "a misprint of 30.25"},
	} {
		jobs = append(jobs, func() (row, error) {
			r := row{name: fmt.Sprintf("%s, ε = %v", c.name, c.epsilon), published: c.published}
			s, err := mechanism.LambdaCGD(n, .95, true)
			if c.kind != mechanism.KindLambdaCGD {
				s, err = p.Make(c.kind, c.size)
			}
			if err != nil {
				return r, err
			}
			f, err := amplified(inBins(b, s, c.epsilon))
			if err == nil {
				f, err = f.confirmed()
			}
			r.computed, r.note = f.rmse(), fmt.Sprintf("± %.2g", f.spread())
			if c.note != "" {
				r.note += ", published: " + c.note
			}
			return r, err
		})
	}
	return parallel(jobs)
}

func sgdLambda() ([]row, error) {
	var jobs []job
	for _, c := range []struct {
		epsilon   float64
		published string
	}{{8, "21.82"}, {4, "26.27"}, {2, "31.68"}, {1, "40.10"}, {.5, "59.17"}, {.25, "100.27"}} {
		jobs = append(jobs, func() (row, error) { return sgdCellLambda(c.epsilon, c.published) })
	}
	return parallel(jobs)
}

// sgdCellLambda is exact.
func sgdCellLambda(epsilon float64, published string) (row, error) {
	const n = 3900
	rmse, err := provenRMSE(sampling.Spec{Poisson: &sampling.Poisson{Prob: 1. / 390, Steps: n}}, mechanism.Identity(n), epsilon)
	return row{name: fmt.Sprintf("DP-SGD, ε = %v", epsilon), published: published, computed: rmse}, err
}
