package tilt

import (
	"fmt"
	"math"
	"testing"

	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/internal/kernel"
	"minsep/accounting/montecarlo/internal/law"
	"minsep/accounting/montecarlo/internal/likelihood"
	"minsep/internal/stattest"
	"minsep/mechanism"
)

func toeplitz(steps int, c ...float64) *mechanism.Strategy {
	return &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: c}
}

// varying has columns of different norms and shapes, with the given bands.
func varying(steps, bands int) *mechanism.Strategy {
	s := &mechanism.Strategy{Kind: mechanism.KindBanded, Steps: steps, Columns: make([][]float64, steps)}
	for i := range s.Columns {
		for r := range min(bands, steps-i) {
			s.Columns[i] = append(s.Columns[i], 1/float64(1+r)+0.1*math.Sin(float64(i*(r+1)))*math.Sin(float64(i)))
		}
	}
	return s
}

// process is b-min-sep with a strategy.
type process struct {
	steps, sep int
	prob       float64
	warm       bool
	gram       *gram
}

func newProcess(c *mechanism.Strategy, sep int, p float64, warm bool, sigma float64) process {
	return process{steps: c.Steps, sep: sep, prob: p, warm: warm, gram: newGram(likelihood.NewColumns(c), sep, 1/(sigma*sigma))}
}

// newTable is the table of b-min-sep within a number of bytes.
func newTable(p process, theta int, keep bool, maxBytes int) (*tuples, error) {
	return newTuples(law.NewMinSep(p.sep, p.prob, p.warm), p.steps, theta, p.gram,
		room{keep: keep, maxBytes: maxBytes, passing: p.sep + 2, steady: true})
}

type tableCase struct {
	c     *mechanism.Strategy
	sep   int
	p     float64
	sigma float64
	theta int
}

func (c tableCase) String() string {
	return fmt.Sprintf("%s n=%d b=%d p=%v σ=%v θ=%d", c.c.Kind, c.c.Steps, c.sep, c.p, c.sigma, c.theta)
}

var tableCases = []tableCase{
	{toeplitz(7, 1, .6), 2, .3, .8, 2},
	{toeplitz(8, 1, .6, .4), 3, .3, .7, 2},
	{toeplitz(8, 1, .6, .4), 3, .3, .7, 3},
	{toeplitz(7, 1, .6, .4), 4, .2, .9, 4},
	{toeplitz(5, 1, .5), 2, .4, .9, 5},
	{toeplitz(6, 1, .6, .4), 3, .9, .7, 3},
	{toeplitz(7, 1, .6, .4), 3, 1, .7, 3},
	{toeplitz(3, 1), 1, .3, .7, 3},
	{toeplitz(3, 1, .5, .25), 4, .3, .7, 3}, // fewer steps than the separation
	{varying(8, 3), 3, .3, .7, 3},
	{varying(7, 2), 3, .4, .8, 4},
	{&mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 8, Toeplitz: []float64{1, .6, .4}, Normalized: true}, 3, .3, .7, 3},
}

func TestNormaliserIsTheSumOverAllTuples(t *testing.T) {
	for _, c := range tableCases {
		for _, warm := range []bool{false, true} {
			want := 0.0
			eachTuple(c.c, patterns(c.c.Steps, c.sep, c.p, warm), c.sigma, c.theta, func(_ []int, w float64) { want += w })
			for _, keep := range []bool{false, true} {
				table, err := newTable(newProcess(c.c, c.sep, c.p, warm, c.sigma), c.theta, keep, maxTableBytes)
				if err != nil {
					t.Fatalf("%v: %v", c, err)
				}
				if got := math.Exp(table.lnN); math.Abs(got/want-1) > 1e-12 {
					t.Errorf("%v warm=%v keep=%v: N = %v, want %v (relative %g)", c, warm, keep, got, want, got/want-1)
				}
			}
		}
	}
}

// tupleKey writes a tuple of patterns as the walk reports it: replicas by step.
func tupleKey(list []pattern, tuple []int) string {
	var count [64]int
	for _, k := range tuple {
		for _, i := range list[k].hits {
			count[i]++
		}
	}
	key := ""
	for i, n := range count {
		if n > 0 {
			key += fmt.Sprintf("%d:%d ", i, n)
		}
	}
	return key
}

func hitsKey(hits []kernel.Hit) string {
	key := ""
	for _, h := range hits {
		key += fmt.Sprintf("%d:%d ", h.Step, h.Times)
	}
	return key
}

// testDistribution draws tuples and tests how often each was drawn against enumeration.
func testDistribution(t *testing.T, c tableCase, warm bool, draw func([]kernel.Hit, *uniforms) []kernel.Hit, draws int) error {
	t.Helper()
	list := patterns(c.c.Steps, c.sep, c.p, warm)
	weights, total := map[string]float64{}, 0.0
	eachTuple(c.c, list, c.sigma, c.theta, func(tuple []int, w float64) {
		weights[tupleKey(list, tuple)] += w
		total += w
	})
	return tuplesFollow(weights, total, c.String(), draw, draws)
}

func TestTuplesFollowTheirDistribution(t *testing.T) {
	for _, c := range tableCases {
		for _, warm := range []bool{false, true} {
			process := newProcess(c.c, c.sep, c.p, warm, c.sigma)
			table, err := newTable(process, c.theta, true, maxTableBytes)
			if err != nil {
				t.Fatal(err)
			}
			if c.p == 1 && !warm {
				continue // one tuple only: the normaliser tests it
			}
			if err := testDistribution(t, c, warm, newWalker(table).walk, 15000); err != nil {
				t.Errorf("%v warm=%v: %v", c, warm, err)
			}
			if c.p == 1 || !stattest.Long() {
				continue
			}
			process.prob *= 0.65 // a wrong twin
			table, _ = newTable(process, c.theta, true, maxTableBytes)
			if testDistribution(t, c, warm, newWalker(table).walk, 15000) == nil {
				t.Errorf("%v warm=%v: the test accepts the tuples of another probability", c, warm)
			}
		}
	}
}

// TestPairsOfAnyMinSep: order 2 has a table that can be walked for every min-sep where n·b is at
// most 8e7, also where there is no steady rate, and other orders keep their bound.
func TestPairsOfAnyMinSep(t *testing.T) {
	const n, b = 6000, 3200
	if _, err := newTable(newProcess(toeplitz(n, 1, .6, .4), b, 1e-4, true, .7), 2, true, maxTableBytes); err == nil {
		t.Fatal("the table is small: it shows nothing")
	}
	s := montecarlo.Spec{Scheme: montecarlo.BMinSep, Steps: n, MinSep: b, Prob: 1e-4, WarmStart: true, NoiseMultiplier: .7}
	source, err := familyOf(s).source(s, likelihood.NewColumns(toeplitz(n, 1, .6, .4)), 2, true, nil)
	if err != nil || source.walker == nil {
		t.Errorf("order 2 at n = %d, b = %d: %v", n, b, err)
	}
	if tableBytes(n, b, 3) != maxTableBytes || tableBytes(5*b, b, 2) != maxTableBytes {
		t.Error("the bound was raised where a table fits without")
	}
}

// TestTriples: the fast recursion of order 3 and the fast sum over the last start have the bits of
// those for every order, at the ends of the run, where a slice has another exponent, with more rows
// than are computed together, and wherever replicas wait and epochs begin.
func TestTriples(t *testing.T) {
	check := func(name string, l law.Law, c *mechanism.Strategy, sep int, sigma float64) (scaled int) {
		g := newGram(likelihood.NewColumns(c), sep, 1/(sigma*sigma))
		r := room{keep: true, maxBytes: maxTableBytes}
		fast, err := newTuples(l, c.Steps, 3, g, r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r.slow = true
		slow, err := newTuples(l, c.Steps, 3, g, r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(fast.kinds[0].list) >= len(slow.kinds[0].list) && sep > 1 {
			t.Fatalf("%s: all states are in the list: it shows nothing", name)
		}
		for i, slice := range slow.slice {
			if fast.exp2[i] != slow.exp2[i] {
				t.Fatalf("%s, step %d: exponent %d, want %d", name, i, fast.exp2[i], slow.exp2[i])
			}
			for s, want := range slice {
				if got := fast.slice[i][s]; got != want {
					t.Fatalf("%s, step %d, state %d: %v, want %v", name, i, s, got, want)
				}
			}
			if i > 0 && fast.exp2[i-1] > fast.exp2[i] {
				scaled++
			}
		}
		for k, sums := range slow.sums {
			for s, want := range sums {
				if got := fast.sums[k][s]; got != want {
					t.Fatalf("%s: %d starts known, %d: %v, want %v", name, k, s, got, want)
				}
			}
		}
		return scaled
	}
	cases := append([]tableCase{
		{toeplitz(60, 1, .7, .5, .4), 5, .25, .2, 3},
		{toeplitz(4, 1, .5), 9, .3, .7, 3}, // fewer steps than the separation
		{toeplitz(90, 1, .7, .5), 2*tile + 3, .05, .3, 3},
		{toeplitz(70, 1, .7, .5), tile + 1, .05, .3, 3},
		{varying(50, 4), 7, .1, .6, 3},
	}, tableCases...)
	for _, c := range cases {
		if scaled := check(c.String(), law.NewMinSep(c.sep, c.p, true), c.c, c.sep, c.sigma); c.sigma == .2 && scaled == 0 {
			t.Errorf("%v: no slice was scaled: it shows nothing", c)
		}
	}
	epochs := append([]epochCase{
		{toeplitz(60, 1, .7, .5, .4), 5, 5, .25, 3},
		{toeplitz(61, 1, .7, .5, .4), 5, 9, .3, 3},
		{toeplitz(62, 1, .7, .5, .4), 5, 10, .3, 3},
		{toeplitz(63, 1, .7, .5, .4), 5, 23, .3, 3},
		{toeplitz(40, 1, .7, .5), 12, 70, .3, 3},
		{toeplitz(140, 1, .7, .5), tile + 3, 2*tile + 1, .3, 3},
	}, randomEpochCases(200)...)
	for _, c := range epochs {
		if scaled := check(c.String(), law.NewEpochs(c.c.Steps, c.sep, c.epoch), c.c, c.sep, c.sigma); c.sigma == .25 && scaled == 0 {
			t.Errorf("%v: no slice was scaled: it shows nothing", c)
		}
	}
}
