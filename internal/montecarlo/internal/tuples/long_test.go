package tuples

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/must"
)

// inFull is a table whose steps are all computed.
func inFull(t *testing.T, l Law, g *likelihood.Gram, theta int, o Options) *Table {
	t.Helper()
	x := lawOf(l, g.Steps)
	x.period = 0
	table := must.Get(newTable(context.Background(), x, g, theta, o))(t)
	return table
}

func mustTable(t *testing.T, l Law, g *likelihood.Gram, theta int, o Options) *Table {
	t.Helper()
	table := must.Get(makeTable(l, g, theta, o))(t)
	return table
}

// TestSteadySteps: steps that are not computed have the sums that they would have, or in blocks a
// little more, and their tuples.
func TestSteadySteps(t *testing.T) {
	columns := likelihood.Toeplitz(250, []float64{1, .6, .4})
	g := likelihood.NewGram(columns, .5)
	for _, l := range []Law{bMinSep(4, .1, true), bMinSep(7, .02, false), epochMinSep(4, 12)} {
		for _, block := range []int{1, 2, 3} {
			for _, keep := range []bool{false, true} {
				o := plenty
				o.Block, o.Keep = block, keep
				theta := 3 + block%2
				steady, full := mustTable(t, l, g, theta, o), inFull(t, l, g, theta, o)
				if steady.Skipped < 50 || full.Skipped > 0 {
					t.Fatalf("%d and %d steps are not computed", steady.Skipped, full.Skipped)
				}
				most := steady.Rounding
				if block > 1 {
					most = blockSpread
				}
				if d := steady.LnN - full.LnN; d < -1e-12 || d > most {
					t.Errorf("blocks of %d, keep=%v: ln N = %v, %g above that of all steps", block, keep, steady.LnN, d)
				}
				if keep {
					compareWalks(t, steady, full)
				}
			}
		}
	}
}

// TestMovesServeOtherSteps: moves are not made for each step of a block or of an epoch, whose labels lead
// on alike.
func TestMovesServeOtherSteps(t *testing.T) {
	g := likelihood.NewGram(likelihood.Toeplitz(500, slices.Repeat([]float64{.1}, 16)), .5)
	for _, l := range []Law{bMinSep(64, .001, true), epochMinSep(16, 250)} {
		o := plenty
		o.Block = 16
		if x := mustTable(t, l, g, 4, o); x.kept > int(x.Work)/10 {
			t.Errorf("%d of %g states of steps have moves of their own", x.kept, x.Work)
		}
	}
}

// TestJoint: a table without the slices far from both ends has the moment and the tuples of the
// whole one.
func TestJoint(t *testing.T) {
	g := likelihood.NewGram(likelihood.Toeplitz(250, []float64{1, .6, .4}), .5)
	for _, l := range []Law{bMinSep(4, .1, true), bMinSep(6, .05, false)} {
		o := plenty
		o.Keep = true
		whole := mustTable(t, l, g, 3, o)
		o.Whole = 1
		joined := mustTable(t, l, g, 3, o)
		if joined.endless.slice == nil || joined.Bytes >= whole.Bytes || joined.LnN != whole.LnN {
			t.Fatalf("ln N = %v and %v, %d and %d bytes", joined.LnN, whole.LnN, joined.Bytes, whole.Bytes)
		}
		compareWalks(t, joined, whole)
		joined.endless.accept++ // rejects more: the same tuples again
		compareWalks(t, joined, whole)
	}
	o := plenty
	o.Keep, o.Whole = true, 1
	if _, err := makeTable(bMinSep(4, .1, true), likelihood.NewGram(likelihood.Toeplitz(20, []float64{1, .6, .4}), .5), 3, o); !errors.Is(err, ErrTable) {
		t.Errorf("a run without steady steps: %v", err)
	}
}

// TestTooManyLabels: participations that all overlap double the labels with every step, and are
// refused at the first step whose labels have no number.
func TestTooManyLabels(t *testing.T) {
	column := make([]float64, 40)
	for i := range column {
		column[i] = 1 / float64(i+1)
	}
	g := likelihood.NewGram(likelihood.Toeplitz(40, column), .5)
	_, err := makeTable(bMinSep(1, .05, true), g, 2, plenty)
	if !errors.Is(err, ErrStates) || !strings.HasSuffix(err.Error(), "65536 labels of a participation before step 16") {
		t.Error(err)
	}
	_, err = makeTable(bMinSep(10, .05, true), g, 2, Options{MaxBytes: plenty.MaxBytes, MostWork: 1000})
	if !errors.Is(err, ErrStates) || !strings.Contains(err.Error(), "a strategy with at most min-sep bands has fewer") {
		t.Error(err)
	}
}

// compareWalks compares mean weights times participations in five parts of the run.
func compareWalks(t *testing.T, a, b *Table) {
	t.Helper()
	const draws, parts = 2000, 5
	rng := rand.New(rand.NewPCG(1, 5))
	var sums, squares [2][parts]float64
	for k, table := range []*Table{a, b} {
		w := NewWalker(table)
		var hits []kernel.Hit
		for range draws {
			var weight float64
			if hits, weight = w.Draw(hits, coins{rng}); weight > 1+1e-9 {
				t.Fatalf("a weight of %v", weight)
			}
			var times [parts]float64
			for _, h := range hits {
				times[h.Step*parts/table.gram.Steps] += float64(h.Times)
			}
			for p, x := range times {
				x *= weight * math.Exp(table.LnN-b.LnN)
				sums[k][p] += x / draws
				squares[k][p] += x * x / draws
			}
		}
	}
	for p := range parts {
		sd := 0.0
		for k := range 2 {
			sd += (squares[k][p] - sums[k][p]*sums[k][p]) / draws
		}
		if d := sums[0][p] - sums[1][p]; math.Abs(d) > 5*math.Sqrt(sd) {
			t.Errorf("part %d: %g and %g participations, %.1f standard deviations apart", p, sums[0][p], sums[1][p], d/math.Sqrt(sd))
		}
	}
}

// TestWeightsInLongRuns: in blocks weights have the mean N/N̂.
func TestWeightsInLongRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 5))
	for _, x := range []struct {
		l            Law
		n, bands     int
		theta, block int
		factor       float64
	}{
		{bMinSep(4, .03, true), 200, 3, 3, 2, 1.5},
		{bMinSep(30, .01, false), 400, 4, 3, 7, 1.5},
		{epochMinSep(5, 60), 250, 3, 4, 2, 1},
		{epochMinSep(8, 25), 120, 8, 3, 4, .7},
		{tired(6), 90, 5, 3, 3, .3},
	} {
		g := likelihood.NewGram(likelihood.Toeplitz(x.n, []float64{1, .7, .5, .4, .4, .3, .3, .2}[:x.bands]), x.factor)
		o := plenty
		exact := mustTable(t, x.l, g, x.theta, o)
		o.Block, o.Keep = x.block, true
		table := mustTable(t, x.l, g, x.theta, o)
		const draws = 6000
		w, sum, squares := NewWalker(table), 0.0, 0.0
		for range draws {
			_, weight := w.Draw(nil, coins{rng})
			if !(weight >= 0 && weight <= 1+1e-9) {
				t.Fatalf("a weight of %v", weight)
			}
			sum += weight / draws
			squares += weight * weight / draws
		}
		want, sd := math.Exp(exact.LnN-table.LnN), math.Sqrt((squares-sum*sum)/draws)
		if table.LnN < exact.LnN-1e-12 || math.Abs(sum-want) > 5*sd {
			t.Errorf("n=%d θ=%d blocks of %d: mean weight %g ± %g, want N/N̂ = %g", x.n, x.theta, x.block, sum, sd, want)
		}
	}
}

// TestLawsThatDoNotFit: blocks refuse laws of which it is not clear who is free.
func TestLawsThatDoNotFit(t *testing.T) {
	hasty := bMinSep(5, .1, false) // frees those last who took part first
	hasty.Next = func(at Point) (float64, Point, Point) {
		return .1, Point{Step: at.Step + []int{8, 6, 5, 5}[at.Step%4]}, Point{Step: at.Step + 1}
	}
	for name, x := range map[string]struct {
		l            Law
		bands, block int
	}{
		"blocks above min-sep":   {bMinSep(3, .1, true), 2, 4},
		"more bands":             {bMinSep(3, .1, true), 4, 2},
		"later is free first":    {hasty, 2, 4},
		"free labels that wait":  {circle(), 1, 2},
		"rotation over a period": {rotation(4), 3, 2},
	} {
		o := plenty
		o.Block = x.block
		g := likelihood.NewGram(likelihood.Toeplitz(12, []float64{1, .5, .4, .3}[:x.bands]), 1)
		if _, err := makeTable(x.l, g, 3, o); !errors.Is(err, ErrTable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLimits: tables end where they take too much memory, where their numbers are too large, and
// where the caller has enough.
func TestLimits(t *testing.T) {
	g, l := likelihood.NewGram(likelihood.Toeplitz(400, []float64{1, .5, .3}), 1), epochMinSep(20, 60)
	small := Options{MaxBytes: 1 << 17}
	if _, err := makeTable(l, g, 3, Options{MaxBytes: 1 << 17, Keep: true}); !errors.Is(err, ErrTable) {
		t.Errorf("a table of 200 kB fits in 128 kB: %v", err)
	}
	table := mustTable(t, l, g, 3, small)
	if table.Bytes <= small.MaxBytes || table.held > small.MaxBytes {
		t.Errorf("%d bytes are held of %d", table.held, table.Bytes)
	}
	o := plenty
	o.Keep = true
	if kept := mustTable(t, l, g, 3, o); kept.LnN != table.LnN || kept.Bytes != table.Bytes {
		t.Errorf("ln N = %v and %v with all slices", table.LnN, kept.LnN)
	}
	if _, err := makeTable(l, likelihood.NewGram(likelihood.Toeplitz(400, []float64{1, .5, .3}), 400), 4, plenty); !errors.Is(err, ErrTable) {
		t.Errorf("N of so little noise is a number: %v", err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newTable(done, lawOf(l, g.Steps), g, 3, o); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits for the table: %v", err)
	}
	o = plenty
	o.Block, o.MostLogN = 4, 0
	if _, err := makeTable(l, g, 3, o); !errors.Is(err, ErrTable) {
		t.Errorf("a bound that is of no use: %v", err)
	}
}
