package main

import (
	"math"

	"minsep/internal/accounting"
	"minsep/internal/golden"
	"minsep/mechanism"
)

// unamplified returns the RMSE of a mechanism of (8, 1e-5)-differential privacy without
// amplification for a loss, squared error times squared sensitivity (F1).
func unamplified(loss float64) (float64, error) {
	sigma, err := accounting.GaussianNoiseMultiplier(8, 1e-5, 1)
	return sigma * math.Sqrt(loss), err
}

// least returns the least unamplified RMSE of the strategies that make gives for sizes.
func least(p mechanism.Problem, sizes []int, make func(size int) (*mechanism.Strategy, error)) (float64, error) {
	best := math.Inf(1)
	for _, size := range sizes {
		s, err := make(size)
		if err != nil {
			return 0, err
		}
		loss, err := p.Loss(s)
		if err != nil {
			return 0, err
		}
		best = min(best, loss)
	}
	return unamplified(best)
}

// tablesFractional is the unamplified column of Table 6 of arXiv 2605.18379.
func tablesFractional() []table {
	return []table{{
		"arXiv 2605.18379, Table 6, column ε = 8 without amplification: RMSE at (8, 1e-5), n = 2048, k = 8, b = 256.\n" +
			"Each row is the least over its free parameter: bands in powers of two, γ, c, ν, λ.", rowsFractional,
	}}
}

func rowsFractional() ([]row, error) {
	const n, b = 2048, 256
	p := mechanism.Problem{Workload: mechanism.Prefix(n), Participation: mechanism.Participation{MinSep: b}}
	var all, upToB []int
	for size := 1; size <= n; size *= 2 {
		all = append(all, size)
		if size <= b {
			upToB = append(upToB, size)
		}
	}
	kind := func(k string) func(int) (*mechanism.Strategy, error) {
		return func(size int) (*mechanism.Strategy, error) { return made(p, k, size) }
	}
	var rows []row
	for _, c := range []struct {
		name, published, note string
		sizes                 []int
		make                  func(int) (*mechanism.Strategy, error)
	}{
		{"BISR", "6.75", "", all, kind(mechanism.KindBISR)},
		{"γ-BIFR", "6.69", "", all, kind(mechanism.KindBIFR)},
		{"BandInvMF", "6.55", "with a certified sensitivity; the column sum, which does not hold for 128 bands, gives 6.55 there", upToB, kind(mechanism.KindBandInv)},
		{"DP-λCGD", "9.68", "columns normalised", []int{1}, kind(mechanism.KindLambdaCGD)},
		{"BandMF", "6.35", "banded Toeplitz, not normalised", upToB, kind(mechanism.KindBandedToeplitz)},
		{"BSR", "6.57", "", all, kind(mechanism.KindBSR)},
		{"γ-BFR", "6.38", "", all, kind(mechanism.KindBFR)},
		{"1/i + c", "6.54", "", upToB, kind(mechanism.KindOneParameter)},
		{"BLT", "6.65", "4 buffers", []int{4}, kind(mechanism.KindBLT)},
		{"DP-FTRL", "6.90", "C = (1-(1-ν)x)^(-1/2)", []int{1}, func(int) (*mechanism.Strategy, error) { return damped(p) }},
		{"k-ary tree, k = 3", "12.53", "0/1 Fenwick matrix", []int{3}, kind(mechanism.KindFenwick)},
		{"k-ary tree, k = 7", "", "the best of k from 2 to 32; 3 is the paper's, as its figures show", []int{7}, kind(mechanism.KindFenwick)},
	} {
		rmse, err := least(p, c.sizes, c.make)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{name: c.name, published: c.published, computed: rmse, note: c.note, open: c.name == "BandInvMF"})
	}
	return rows, nil
}

// damped is the best of the strategies that dampedBy makes.
func damped(p mechanism.Problem) (*mechanism.Strategy, error) {
	loss := func(lnNu float64) float64 {
		s, err := dampedBy(p.Workload.Steps, math.Exp(lnNu))
		if err != nil {
			return math.Inf(1)
		}
		loss, err := p.Loss(s)
		if err != nil {
			return math.Inf(1)
		}
		return loss
	}
	low, high := golden.Section(math.Log(1e-6), 0, 1e-5, loss)
	return dampedBy(p.Workload.Steps, math.Exp((low+high)/2))
}

// dampedBy is the strategy with the first column of (1-(1-ν)x)^(-1/2).
func dampedBy(n int, nu float64) (*mechanism.Strategy, error) {
	c := make([]float64, n)
	c[0] = 1
	for t := 1; t < n; t++ {
		c[t] = c[t-1] * (float64(t) - .5) / float64(t) * (1 - nu)
	}
	return mechanism.Toeplitz(n, c)
}
