package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/mechanism"
	"minsep/sampling"
)

// amplifiedRow is a row of a table with amplification by sampling: one figure for each ε.
type amplifiedRow struct {
	table, name string
	epsilons    []float64
	published   []string // at each of epsilons
	note        string
	open        bool    // differences are expected, as the note says
	misprint    float64 // ε at which the published figure is one; 0 if there is none
	space       space
	sampler     func(s *mechanism.Strategy) sampling.Spec
}

// cell is one figure with amplification by sampling, and its recomputed value.
type cell struct {
	Table      string  `json:"table"`
	Row        string  `json:"row"`
	Epsilon    float64 `json:"epsilon"`
	RMSE       float64 `json:"rmse,omitempty"`
	StdErr     float64 `json:"std_err,omitempty"`    // of RMSE; 0 if it is proven
	Parameters string  `json:"parameters,omitempty"` // that were found
	Refused    string  `json:"refused,omitempty"`    // why there is no figure
}

func (c cell) key() string { return fmt.Sprintf("%s, %s, ε = %v", c.Table, c.Row, c.Epsilon) }

const deltaOfTables = 1e-5

// find computes a cell.
func (r amplifiedRow) find(ctx context.Context, c cell) (cell, error) {
	f, err := r.space.least(ctx, claim{c.Epsilon, deltaOfTables, r.sampler})
	switch {
	case ctx.Err() != nil:
		return c, ctx.Err()
	case errors.Is(err, calibration.ErrTooExpensive), errors.Is(err, calibration.ErrNoEstimate), errors.Is(err, errNoLeast):
		c.Refused = err.Error()
		return c, nil
	}
	c.RMSE, c.StdErr, c.Parameters = f.rmse, f.stdErr, r.space.parameters(f)
	return c, err
}

// powers returns the powers of two, 1 to last.
func powers(last int) (list []int) {
	for i := 1; i <= last; i *= 2 {
		list = append(list, i)
	}
	return list
}

func ballsInBins(period int) func(s *mechanism.Strategy) sampling.Spec {
	return func(s *mechanism.Strategy) sampling.Spec {
		return sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: s.Steps, Period: period}}
	}
}

// amplifiedRows are the rows with estimated noise multipliers.
func amplifiedRows() []amplifiedRow {
	return append(rowsOfFractional(), rowsOfLambda()...)
}

const (
	tableBalls  = "arXiv 2605.18379, Table 6"
	tableMinSep = "arXiv 2605.18379, Table 7"
	tableLambda = "arXiv 2601.22334, Table 4"

	heuristic = "BandMF + Heuristic"

	stepsFractional, epochFractional = 2048, 256
)

func problemFractional() mechanism.Problem {
	return mechanism.Problem{Workload: mechanism.Prefix(stepsFractional), Participation: mechanism.Participation{MinSep: epochFractional}}
}

// withParameter makes the strategy with a value of the parameter of its family.
func withParameter(p mechanism.Params, name string, value float64) (*mechanism.Strategy, error) {
	p.SetParameter(name, value)
	return p.Make(context.Background(), nil)
}

// lambdaCGD makes normalised DP-λCGD.
func lambdaCGD(steps int, lambda float64) (*mechanism.Strategy, error) {
	return withParameter(mechanism.Params{Kind: mechanism.KindLambdaCGD, Steps: steps}, "lambda", lambda)
}

// rowsOfFractional are Tables 6 and 7 of arXiv 2605.18379.
func rowsOfFractional() (rows []amplifiedRow) {
	const n = stepsFractional
	p := problemFractional()
	bands := func(last, start int, kind string) space {
		return space{sizeName: "bands", sizes: powers(last), start: start, make: func(size int, _ float64) (*mechanism.Strategy, error) { return made(p, kind, size) }}
	}
	power := func(last, start int, kind string) space {
		return space{sizeName: "bands", sizes: powers(last), start: start, name: "γ", from: .45, step: .15, high: 1,
			make: func(size int, gamma float64) (*mechanism.Strategy, error) {
				return withParameter(mechanism.Params{Kind: kind, Steps: n, Bands: size}, "gamma", gamma)
			}}
	}
	offset := func(start int) space { // by ln(1 + c·bands)
		c := func(size int, x float64) float64 { return math.Expm1(x) / float64(size) }
		return space{sizeName: "bands", sizes: powers(epochFractional), start: start, name: "c", from: 1.4, step: .7, low: -3, high: 6, shown: c,
			make: func(size int, x float64) (*mechanism.Strategy, error) {
				return withParameter(mechanism.Params{Kind: mechanism.KindOneParameter, Steps: n, Bands: size}, "offset", c(size, x))
			}}
	}
	tree := func(arity int) space {
		return space{sizes: []int{arity}, make: func(size int, _ float64) (*mechanism.Strategy, error) { return made(p, mechanism.KindFenwick, size) }}
	}
	for _, c := range []struct {
		name      string
		published []string
		note      string
		space     space
	}{
		{"BISR", []string{"22.99", "13.23", "7.60", "4.74"}, "", bands(n, 5, mechanism.KindBISR)},
		{"γ-BIFR", []string{"22.41", "12.65", "7.57", "4.74"}, "", power(n, 5, mechanism.KindBIFR)},
		{"BandInvMF", []string{"28.79", "15.43", "8.42", "4.81"}, "optimal without amplification for each number of bands", bands(epochFractional, 3, mechanism.KindBandInv)},
		{"DP-λCGD", []string{"25.15", "16.35", "10.90", "7.24"}, "columns normalised",
			space{sizes: []int{2}, name: "λ", from: 2.5, step: .5, high: 7,
				shown: func(_ int, x float64) float64 { return -math.Expm1(-x) },
				make: func(_ int, x float64) (*mechanism.Strategy, error) {
					return lambdaCGD(n, -math.Expm1(-x))
				}}},
		{"BandMF", []string{"25.35", "14.59", "8.42", "4.83"}, "optimal without amplification for each number of bands", bands(epochFractional, 5, mechanism.KindBandedToeplitz)},
		{heuristic, []string{"24.71", "13.34", "7.57", "4.82"},
			"arXiv 2405.15913, Appendix H with b = 256; b₀, which the paper does not give, is searched",
			space{sizes: []int{epochFractional}, name: "b₀/b", from: .5, step: .25, high: .99,
				make: func(b int, x float64) (*mechanism.Strategy, error) { return tapered(p, b, x) }}},
		{"BSR", []string{"23.24", "13.16", "7.82", "4.55"}, "", bands(n, 6, mechanism.KindBSR)},
		{"γ-BFR", []string{"22.65", "12.62", "7.44", "4.55"}, "", power(n, 6, mechanism.KindBFR)},
		{"1/i + c", []string{"22.54", "12.71", "7.50", "4.62"}, "", offset(6)},
		{"BLT", []string{"29.26", "15.50", "8.48", "4.87"}, "4 buffers, optimal without amplification",
			space{sizes: []int{4}, make: func(size int, _ float64) (*mechanism.Strategy, error) { return made(p, mechanism.KindBLT, size) }}},
		{"DP-FTRL", []string{"22.72", "12.83", "7.61", "4.82"}, "C = (1-(1-ν)x)^(-1/2)",
			space{sizes: []int{n}, name: "ν", from: math.Log(.03), step: 1, low: math.Log(1e-5), high: 0,
				shown: func(_ int, x float64) float64 { return math.Exp(x) },
				make:  func(_ int, x float64) (*mechanism.Strategy, error) { return dampedBy(n, math.Exp(x)) }}},
		{"k-ary tree, k = 3", []string{"48.18", "25.88", "14.16", "8.15"}, "0/1 Fenwick matrix", tree(3)},
		{"k-ary tree, k = 7", []string{"", "", "", ""}, "3 is the paper's k, as its figures show", tree(7)},
	} {
		rows = append(rows, amplifiedRow{table: tableBalls, name: c.name, epsilons: []float64{1, 2, 4, 8}, published: c.published, note: c.note, open: c.name == heuristic, space: c.space, sampler: ballsInBins(epochFractional)})
	}
	for _, c := range []struct {
		name      string
		published []string
		space     space
	}{
		{"BandMF, b-min-sep", []string{"23.59", "13.48", "8.25", "4.71"}, bands(epochFractional, 5, mechanism.KindBandedToeplitz)},
		{"BSR, b-min-sep", []string{"22.65", "12.95", "7.28", "4.25"}, bands(epochFractional, 6, mechanism.KindBSR)},
		{"γ-BFR, b-min-sep", []string{"22.13", "12.21", "6.89", "4.11"}, power(epochFractional, 6, mechanism.KindBFR)},
		{"1/i + c, b-min-sep", []string{"22.19", "12.17", "6.90", "4.20"}, offset(6)},
	} {
		rows = append(rows, amplifiedRow{table: tableMinSep, name: c.name, epsilons: []float64{1, 2, 4, 8}, published: c.published, space: c.space, sampler: minSepOfBands})
	}
	return rows
}

// minSepOfBands is b-min-sep sampling with min-sep equal to the bands, warm start and p₀ = 1/256
// (F3.1).
func minSepOfBands(s *mechanism.Strategy) sampling.Spec {
	sep := len(s.Toeplitz)
	return sampling.Spec{BMinSep: &sampling.BMinSep{Steps: s.Steps, MinSep: sep, Prob: 1 / float64(epochFractional-sep+1), WarmStart: true}}
}

// tapered is the optimal Toeplitz strategy with b bands, its band i lowered to (b-i)/(b-b₀) of
// itself from i = b₀ = part·b on (arXiv 2405.15913, Appendix H, which counts bands from 1).
func tapered(p mechanism.Problem, b int, part float64) (*mechanism.Strategy, error) {
	s, err := made(p, mechanism.KindBandedToeplitz, b)
	if err != nil {
		return nil, err
	}
	theta, least := slices.Clone(s.Toeplitz), part*float64(b)
	for i := range theta {
		if at := float64(i + 1); at >= least {
			theta[i] *= (float64(b) - at) / (float64(b) - least)
		}
	}
	return mechanism.Toeplitz(p.Workload.Steps, theta)
}

// rowsOfLambda are the rows of Table 4 of arXiv 2601.22334, each with fixed parameters.
func rowsOfLambda() (rows []amplifiedRow) {
	const n, b = 3900, 390
	p := mechanism.Problem{Workload: mechanism.Prefix(n), Participation: mechanism.Participation{MinSep: b}}
	add := func(name string, published []string, make func() (*mechanism.Strategy, error)) {
		rows = append(rows, amplifiedRow{table: tableLambda, name: name, epsilons: []float64{8, 4, 2, 1, .5}, published: published,
			space: space{sizes: []int{0}, make: func(int, float64) (*mechanism.Strategy, error) { return make() }}, sampler: ballsInBins(b)})
	}
	for _, f := range []struct {
		name, kind string
		published  [][]string // by ε, for each of sizes
	}{
		{"BandInvMF", mechanism.KindBandInv, [][]string{
			{"9.70", "14.90", "24.41", "43.66", "82.77"}, {"8.07", "12.48", "20.76", "37.37", "70.90"},
			{"6.56", "11.23", "20.17", "37.09", "71.08"}, {"6.39", "11.36", "20.87", "39.13", "74.06"}, {"5.66", "9.86", "17.76", "33.25", "62.84"}}},
		{"BISR", mechanism.KindBISR, [][]string{
			{"30.52", "40.58", "49.44", "58.16", "71.20"}, {"21.00", "27.97", "34.87", "42.50", "58.27"},
			{"11.50", "15.75", "21.10", "20.25", "52.81"}, {"6.81", "9.87", "15.92", "28.80", "53.89"}, {"6.34", "11.30", "20.77", "38.96", "73.70"}}},
		{"BSR", mechanism.KindBSR, [][]string{
			{"39.65", "51.87", "62.97", "74.14", "88.33"}, {"29.29", "39.32", "48.13", "57.03", "70.47"},
			{"16.88", "22.41", "28.59", "36.78", "55.03"}, {"9.62", "13.32", "18.88", "29.34", "52.16"}, {"5.49", "9.31", "17.06", "31.95", "60.43"}}},
		{"BandMF", mechanism.KindBandedToeplitz, [][]string{
			{"37.67", "49.08", "59.95", "71.17", "86.25"}, {"27.00", "36.99", "45.90", "55.35", "68.64"},
			{"15.00", "21.20", "28.13", "37.06", "56.29"}, {"8.77", "13.25", "19.76", "31.40", "56.07"}, {"5.84", "10.42", "19.16", "35.94", "68.02"}}},
	} {
		for i, size := range []int{2, 4, 16, 64, b} {
			add(fmt.Sprintf("%s (p=%d)", f.name, size), f.published[i], func() (*mechanism.Strategy, error) { return made(p, f.kind, size) })
			row := &rows[len(rows)-1]
			if f.kind == mechanism.KindBandInv {
				row.open, row.note = true, "unexplained: no reading of the paper gives these figures with amplification"
			}
			if f.published[i][3] == "20.25" {
				row.misprint = 1
			}
		}
	}
	for _, c := range []struct {
		lambda    float64
		published []string
	}{
		{.975, []string{"9.33", "14.03", "21.45", "36.40", "68.37"}}, {.95, []string{"10.27", "15.28", "21.45", "31.70", "56.75"}},
		{.9, []string{"13.25", "18.42", "24.73", "33.66", "54.33"}},
	} {
		add(fmt.Sprintf("DP-λCGD (λ=%v)", c.lambda), c.published, func() (*mechanism.Strategy, error) { return lambdaCGD(n, c.lambda) })
	}
	add("BLT, 4 buffers", []string{"5.87", "10.67", "19.50", "35.97", "69.41"}, func() (*mechanism.Strategy, error) { return made(p, mechanism.KindBLT, 4) })
	return rows
}

// runAmplified computes the cells that the file does not have yet, the largest ε first: they
// take the least samples.
func runAmplified(ctx context.Context, rows []amplifiedRow, file string, w io.Writer) ([]cell, error) {
	of := map[string]amplifiedRow{}
	var all []cell
	for _, r := range rows {
		for _, epsilon := range r.epsilons {
			c := cell{Table: r.table, Row: r.name, Epsilon: epsilon}
			of[c.key()] = r
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b cell) int { return cmp.Compare(b.Epsilon, a.Epsilon) })
	return resume(ctx, file, all, func(ctx context.Context, c cell) (cell, error) { return of[c.key()].find(ctx, c) }, w)
}

// amplifiedTables are the tables of the figures with amplification by sampling: one of
// estimates for each ε, then the exact ones. Figures that the file does not have yet are
// computed; where that is stopped, they and the exact ones are missing.
func amplifiedTables(ctx context.Context, file string) ([]table, error) {
	rows := amplifiedRows()
	cells, err := runAmplified(ctx, rows, file, os.Stderr)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	var all []table
	for _, t := range []struct {
		name, setting string
	}{
		{tableBalls, "balls-in-bins: RMSE at δ = 1e-5, n = 2048, k = 8, b = 256, least over the parameters that are named"},
		{tableMinSep, "b-min-sep sampling with warm start, separation = bands, p₀ = k/n: as Table 6"},
		{tableLambda, "balls-in-bins: RMSE at δ = 1e-5, n = 3900, k = 10, b = 390"},
	} {
		for _, epsilon := range []float64{8, 4, 2, 1, .5} {
			if found := rowsOf(rows, cells, t.name, epsilon); found != nil {
				all = append(all, table{fmt.Sprintf("%s, ε = %v, %s", t.name, epsilon, t.setting), func() ([]row, error) { return found, nil }})
			}
		}
	}
	if all != nil {
		all[0].heading = aboutEstimates() + all[0].heading
	}
	if ctx.Err() != nil { // the exact ones take minutes
		return all, nil
	}
	return append(all,
		table{"arXiv 2605.18379, Table 7, cyclic Poisson sampling, by privacy loss distributions: RMSE at δ = 1e-5, n = 2048, k = 8, b = 256.", cyclicFractional},
		table{"arXiv 2601.22334, Table 4, DP-SGD with Poisson sampling at k/n, by privacy loss distributions: RMSE at δ = 1e-5, n = 3900.", sgdLambda},
	), nil
}

// aboutEstimates is said before the first table of them.
func aboutEstimates() string {
	return fmt.Sprintf(`Noise multipliers below are estimates by tilted sampling of both directions, no certificates; ± is one standard error.
The published ones are estimates too, by plain sampling, whose errors the papers do not print. For scale: of the noise multiplier of
a Gaussian mechanism at (8, 1e-5), 1e5 plain samples leave a standard error of %.1f %%, 1e6 of %.1f %%. Differences of that size
in a table, of both signs and without order, are its own sampling error as far as we can tell.
Left out: BandMF w/ Opt. of arXiv 2605.18379, optimised through the accountant by an optimiser that is not described; ε = 0.25 of
arXiv 2601.22334, Table 4: M/δ is 9100 in the three rows that were tried, so that a figure takes more samples than the
51,282 that an estimate may draw.

`, 100*plainError(8, deltaOfTables, 1e5), 100*plainError(8, deltaOfTables, 1e6))
}

// plainError is the standard error, as a part of σ, of the noise multiplier of a Gaussian mechanism
// of (epsilon, delta) that is found by plain samples of its privacy loss L: the mean of
// h = (1-e^(ε-L))₊, which is δ, has variance (E[h²]-δ²)/samples, and is carried over to σ by the
// slope of δ. With μ = 1/σ, L is N(μ²/2, μ²) and E[h²] three tails of it.
func plainError(epsilon, delta, samples float64) float64 {
	sigma, err := accounting.GaussianNoiseMultiplier(epsilon, delta, 1)
	if err != nil {
		return math.NaN()
	}
	tail := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	moments := func(mu float64) (first, second float64) {
		p, q := tail(mu/2-epsilon/mu), math.Exp(epsilon)*tail(-mu/2-epsilon/mu)
		return p - q, p - 2*q + math.Exp(2*epsilon+mu*mu)*tail(-1.5*mu-epsilon/mu)
	}
	const h = 1e-4
	first, second := moments(1 / sigma)
	above, _ := moments((1 + h) / sigma)
	below, _ := moments((1 - h) / sigma)
	slope := (above - below) / (2 * h)
	return math.Sqrt((second-first*first)/samples) / slope
}

// rowsOf are the figures of a table at one ε that are known; nil if there is none.
func rowsOf(rows []amplifiedRow, cells []cell, name string, epsilon float64) (list []row) {
	known := map[string]cell{}
	for _, c := range cells {
		known[c.key()] = c
	}
	for _, r := range rows {
		i := slices.Index(r.epsilons, epsilon)
		c, ok := known[cell{Table: name, Row: r.name, Epsilon: epsilon}.key()]
		if r.table != name || i < 0 || !ok {
			continue
		}
		var notes []string
		for _, note := range []string{c.Parameters, c.Refused, r.note} {
			if note != "" {
				notes = append(notes, note)
			}
		}
		if r.misprint == epsilon {
			notes = append(notes, "a misprint of 30.25, as its neighbours show")
		}
		list = append(list, row{name: r.name, published: r.published[i], computed: c.RMSE, stdErr: c.StdErr, note: strings.Join(notes, "; "), open: r.open || r.misprint == epsilon})
	}
	return list
}
