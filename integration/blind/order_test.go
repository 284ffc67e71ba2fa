package main

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minsep/accounting"
	"minsep/accounting/search"
	"minsep/mechanism"
	"minsep/planner"
	"minsep/sampling"
)

// alternative is a row with a certificate.
func alternative(scheme string, relative, stdErr, above float64) certified {
	row := &planner.Row{Scheme: sampling.Params{Scheme: scheme, MinSep: 2}, Relative: relative, StdErr: stdErr, Noise: search.Noise{Multiplier: 2}, CPU: 2}
	return certified{row: row, sigma: 2 * above, samples: 50000, cpu: 3, needed: 1.9 * above, neededErr: .1}
}

// TestCompare: only pairs that the plan tells apart count, and of them those whose certificates
// have the other order are named. Where the lesser is a lower bound, they count apart.
func TestCompare(t *testing.T) {
	all := []certified{alternative("a", 1, .01, 1.05), alternative("b", 1.02, .01, 1), alternative("c", 1.1, .01, 1), alternative("d", 1.2, .01, .9), alternative("e", 9, .01, 0)}
	all[4].needed = 0
	p := compare(all, certified.error)
	if p.told != 5 || len(p.wrong) != 1 || !strings.Contains(p.wrong[0], "c 2") || !strings.Contains(p.wrong[0], "d 2") || p.bounded != 0 || p.wrongBounded != nil {
		t.Errorf("%+v", p)
	}
	all[2].row.Noise.OneDirection = true
	if p = compare(all, certified.error); p.told != 4 || p.wrong != nil || p.bounded != 1 || len(p.wrongBounded) != 1 {
		t.Errorf("%+v", p)
	}
	all[3].sigma = 2.4
	if p = compare(all, certified.error); p.told != 4 || p.wrong != nil || p.bounded != 1 || p.wrongBounded != nil {
		t.Errorf("%+v", p)
	}
	all[3].needed = 1
	all[0].row.Rank, all[0].row.Tied = 1, true
	var b bytes.Buffer
	report(&b, []judged{{set: set{name: "some"}, cpu: 7, all: all}})
	for _, want := range []string{"| some | =1 | a 2,  | 2 ± 0.0 % | 1.995 ± 5.01 % | 2.1 (+5.0 %) | 1.05 | 50000 | 2 | 3 |",
		"certified: 0 of 4 pairs told apart have the other order, and 0 of 1 in which the lesser has ≥",
		"by the samples: 2 of 4 pairs", "3 estimates known in both directions are off by +10.0", "1 estimates with ≥ are off by +1.0",
		"the first has 2.9 % more", "median 1.5"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestCompareOracle: the counts are those of a definition written down once more, whatever the
// order of the alternatives. Certificates without errors contradict a plan as seldom as three
// standard errors say.
func TestCompareOracle(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	told, wrong := 0, 0
	for range 3000 {
		var all []certified
		for range 2 + random.IntN(6) {
			truth, part := 1+random.Float64()/5, .02*random.Float64()
			relative := truth * (1 + part*random.NormFloat64())
			c := alternative("a", relative, truth*part, truth/relative)
			c.row.Noise.OneDirection = random.IntN(3) == 0
			if random.IntN(4) == 0 {
				c.sigma, c.needed = 0, 0
			}
			all = append(all, c)
		}
		var want [2][2]int // by whether the lesser is a bound, and whether certificates agree
		for _, a := range all {
			for _, b := range all {
				d, v := b.row.Relative-a.row.Relative, a.row.StdErr*a.row.StdErr+b.row.StdErr*b.row.StdErr
				if a.sigma*b.sigma == 0 || d <= 0 || d*d <= 9*v {
					continue
				}
				bound, agree := 0, 0
				if a.row.Noise.OneDirection {
					bound = 1
				}
				if a.sigma*a.row.Relative < b.sigma*b.row.Relative { // all have the noise multiplier 2 in the plan
					agree = 1
				}
				want[bound][agree]++
			}
		}
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		p := compare(all, certified.error)
		if got := [2][2]int{{len(p.wrong), p.told - len(p.wrong)}, {len(p.wrongBounded), p.bounded - len(p.wrongBounded)}}; got != want {
			t.Fatalf("%v, not %v", got, want)
		}
		told, wrong = told+p.told, wrong+len(p.wrong)
	}
	if told < 5000 || float64(wrong) > .0027*float64(told) {
		t.Errorf("%d of %d pairs in the other order", wrong, told)
	}
}

// TestNeeded: where the divergence is that of a Gaussian mechanism, its noise multiplier comes out,
// in the worse direction, and the standard error is what repeated verifications have.
func TestNeeded(t *testing.T) {
	const epsilon, delta, samples, factor = 1.5, 1e-4, 20000, 1.03
	want, err := accounting.GaussianNoiseMultiplier(epsilon, delta, 1)
	if err != nil {
		t.Fatal(err)
	}
	mean, err := accounting.Gaussian{NoiseMultiplier: want * factor, Sensitivity: 1}.Delta(epsilon)
	if err != nil {
		t.Fatal(err)
	}
	c := &accounting.Certificate{NoiseMultiplier: want * factor, Epsilon: epsilon, Delta: delta}
	q := accounting.Verdict{Samples: samples, Mean: mean / 2, Bound: 30 * delta}
	p := q
	p.Mean = mean
	c.Points = []accounting.Claimed{{Directions: []accounting.Verdict{p, q, {}}}}
	sigma, stdErr, err := needed(c)
	if err != nil || math.Abs(sigma/want-1) > 1e-6 {
		t.Error(sigma, want, err)
	}
	random, squares := rand.New(rand.NewPCG(5, 6)), 0.
	for range 200 {
		hits := 0
		for range samples {
			if random.Float64() < mean/p.Bound {
				hits++
			}
		}
		c.Points[0].Directions[0].Mean = p.Bound * float64(hits) / samples
		s, _, err := needed(c)
		if err != nil {
			t.Fatal(err)
		}
		squares += (s - want) * (s - want)
	}
	if got := math.Sqrt(squares / 200); math.Abs(got/stdErr-1) > .15 {
		t.Errorf("standard error %.4g, not %.4g", stdErr, got)
	}
	c.Points[0].Directions = []accounting.Verdict{{}, {}}
	if sigma, _, err = needed(c); sigma != 0 || err != nil {
		t.Error("without samples:", sigma, err)
	}
}

// TestTooHigh: certificates with less noise than an estimate or a proof says is needed.
func TestTooHigh(t *testing.T) {
	for _, c := range []struct {
		stdErr, above float64
		proven, want  bool
	}{{.02, .98, false, false}, {.02, .96, false, true}, {.02, 1.5, false, false}, {0, .999, true, false}, {0, .99, true, true}, {.02, 0, false, false}} {
		a := alternative("a", 1, .01, c.above)
		a.row.Noise.StdErr, a.row.Noise.Proven = c.stdErr, c.proven
		if got := tooHigh([]certified{a}); len(got) > 0 != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestFirst: five by rank, two of a scheme at most, then the best of every scheme that is left.
func TestFirst(t *testing.T) {
	var rows []*planner.Row
	for i, scheme := range []string{"a", "a", "a", "b", "b", "c", "c", "d", "d", "e"} {
		rows = append(rows, &planner.Row{Rank: i + 1, Scheme: sampling.Params{Scheme: scheme}})
	}
	rows[3].Refused = "no"
	var ranks []int
	for _, row := range first(rows) {
		ranks = append(ranks, row.Rank)
	}
	if !slices.Equal(ranks, []int{1, 2, 5, 6, 7, 8, 10}) {
		t.Error(ranks)
	}
}

// TestBudget: enough samples by a row's own M/δ, or by the largest of all where a direction is not
// known, and at most what account has by default.
func TestBudget(t *testing.T) {
	var rows []*planner.Row
	for _, n := range []search.Noise{{Effort: 40}, {Effort: 100}, {Effort: 3, OneDirection: true}, {Effort: 300, OneDirection: true}} {
		rows = append(rows, &planner.Row{Scheme: sampling.Params{Steps: 1000}, MaxPerOwner: 1, Noise: n})
	}
	check := func(want ...uint64) {
		for i := range want {
			if got := budget(rows[i], rows); got != want[i] {
				t.Errorf("%d: %d, not %d", i, got, want[i])
			}
		}
	}
	check(90000, 225000, 500000, 500000)
	rows[1].Noise.Effort = 1000
	check(90000, 500000, 500000, 500000)
	rows[1].MaxPerOwner, rows[2].MaxPerOwner, rows[2].Scheme.Sample = 2, 2, sampling.SampleOwners
	check(90000, 83333, 500000, 500000)
}

// TestOtherFlags: what was run with other flags is not taken for what is asked now, and a command
// that is not there is named.
func TestOtherFlags(t *testing.T) {
	w := work{command: filepath.Join(t.TempDir(), "none"), out: t.TempDir()}
	if err := os.WriteFile(filepath.Join(w.out, "some.json"), []byte(`{"arguments": ["account", "--samples", "7"], "output": {}, "cpu_seconds": 2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := w.minsep("some", "account", "--samples", "7"); err != nil || got.CPU != 2 {
		t.Error(got, err)
	}
	if _, err := w.minsep("some", "account", "--samples", "8"); err == nil || !strings.Contains(err.Error(), "other flags") {
		t.Error(err)
	}
	if _, err := w.minsep("another", "account"); err == nil || !strings.Contains(err.Error(), w.command) {
		t.Error(err)
	}
}

// TestFlags: parameters as the commands take them.
func TestFlags(t *testing.T) {
	normalized := true
	list, err := flags(mechanism.Params{Kind: "bsr", Steps: 40, Bands: 4, Normalized: &normalized, Training: mechanism.Training{Schedule: "constant"}})
	if err != nil || !slices.Equal(list, []string{"--bands=4", "--kind=bsr", "--normalized=true", "--schedule=constant", "--steps=40"}) {
		t.Error(list, err)
	}
	if list, err = flags(sampling.Params{Scheme: "b-min-sep", Steps: 40, MinSep: 4, BatchSize: 2.5}); err != nil || !slices.Equal(list, []string{"--batch-size=2.5", "--min-sep=4", "--scheme=b-min-sep", "--steps=40"}) {
		t.Error(list, err)
	}
}

// TestSets: every set says what a plan needs, and the graph that is made is the same each time.
func TestSets(t *testing.T) {
	for _, s := range sets() {
		has := func(flag string) bool { return slices.Contains(s.flags, flag) }
		if has("--examples") == (s.graph != "") || has("--steps") == has("--epochs") || !has("--batch-size") || !has("--epsilon") || !has("--delta") || s.name == "" || s.about == "" {
			t.Errorf("%+v", s)
		}
	}
	var a, b bytes.Buffer
	if phones(&a) != nil || phones(&b) != nil || !bytes.Equal(a.Bytes(), b.Bytes()) || strings.Count(a.String(), "\n") != 16922 {
		t.Error(strings.Count(a.String(), "\n"))
	}
}
