package tilt

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/internal/law"
	"minsep/accounting/montecarlo/internal/likelihood"
	"minsep/internal/stattest"
	"minsep/mechanism"
	"minsep/sampling/balanced"
)

// balancedPatterns lists every pattern of balanced min-sep by its hazards, a participation after
// another.
func balancedPatterns(l *balanced.Distribution) (list []pattern) {
	var walk func(step, left int, hits []int, prob float64)
	walk = func(step, left int, hits []int, prob float64) {
		if left == 0 {
			list = append(list, pattern{append([]int(nil), hits...), prob})
			return
		}
		for i := step; i < l.Steps && prob > 0; i++ {
			if h := l.Hazard(left, i); h > 0 {
				walk(i+l.MinSep, left-1, append(hits[:len(hits):len(hits)], i), prob*h)
			}
			prob *= 1 - l.Hazard(left, i)
		}
	}
	most, less := l.Starts()
	walk(0, l.Most, nil, most)
	if less > 0 {
		walk(0, l.Most-1, nil, less)
	}
	return list
}

// balancedCase is a table with its corners: min-sep 1 and beyond the run, κ below 1, 1, and between
// whole numbers.
type balancedCase struct {
	c     *mechanism.Strategy
	sep   int
	times float64
	sigma float64
	theta int
}

func (c balancedCase) String() string {
	return fmt.Sprintf("%s n=%d b=%d κ=%v σ=%v θ=%d", c.c.Kind, c.c.Steps, c.sep, c.times, c.sigma, c.theta)
}

func (c balancedCase) distribution() *balanced.Distribution {
	l, err := balanced.New(c.c.Steps, c.sep, c.times)
	if err != nil {
		panic(fmt.Sprint(c, err))
	}
	return l
}

func (c balancedCase) spec() montecarlo.Spec {
	return montecarlo.Spec{Scheme: montecarlo.BalancedMinSep, Steps: c.c.Steps, MinSep: c.sep, Participations: c.times, Hazards: c.distribution().Digest(),
		NoiseMultiplier: c.sigma, Strategy: c.c}
}

func (c balancedCase) newTable(keep bool, maxBytes int) (*tuples, error) {
	l := law.Balanced{Distribution: c.distribution()}
	return newTuples(l, l.Steps, c.theta, newGram(likelihood.NewColumns(c.c), l.MinSep, 1/(c.sigma*c.sigma)),
		room{keep: keep, maxBytes: maxBytes, state: stateBytes, passing: min(l.MinSep+2, l.Steps+1)})
}

func (c balancedCase) table(t *testing.T, keep bool) *tuples {
	t.Helper()
	table, err := c.newTable(keep, maxTableBytes)
	if err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	return table
}

var balancedCases = []balancedCase{
	{toeplitz(7, 1, .6), 2, 2, .8, 2},
	{toeplitz(8, 1, .6, .4), 3, 2, .7, 3},
	{toeplitz(8, 1, .6, .4), 3, 1.5, .7, 3},
	{toeplitz(9, 1, .6, .4), 3, 2.5, .8, 2},
	{toeplitz(6, 1, .6, .4), 3, 1.25, .9, 4},
	{toeplitz(6, 1), 1, 3, .7, 3},
	{toeplitz(6, 1), 1, 2.5, .9, 3},
	{toeplitz(7, 1, .5), 2, 3, .8, 3},
	{toeplitz(6, 1, .6, .4), 3, 1, .7, 3},
	{toeplitz(5, 1, .6, .4), 9, .4, .7, 3},
	{varying(8, 3), 3, 2, .7, 3},
	{varying(8, 2), 3, 1.75, .8, 2},
	{&mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 8, Toeplitz: []float64{1, .6, .4}, Normalized: true}, 3, 2, .7, 3},
}

func randomBalancedCases(count int) (cases []balancedCase) {
	rng := rand.New(rand.NewPCG(56, 1))
	for len(cases) < count {
		n, b := 1+rng.IntN(7), 1+rng.IntN(4)
		times := []float64{1, 2, 3, .3, 1.5, 1 + 2*rng.Float64()}[rng.IntN(6)]
		if _, err := balanced.New(n, b, times); err != nil {
			continue
		}
		w := 1 + rng.IntN(min(b, n))
		c := varying(n, w)
		if rng.IntN(2) == 0 {
			c = toeplitz(n, []float64{1, .7, .5, .4}[:w]...)
		}
		cases = append(cases, balancedCase{c, b, times, .6 + rng.Float64(), 1 + rng.IntN(3)})
	}
	return cases
}

func TestBalancedNormaliserIsTheSumOverAllTuples(t *testing.T) {
	for _, c := range append(randomBalancedCases(200), balancedCases...) {
		want := 0.0
		eachTuple(c.c, balancedPatterns(c.distribution()), c.sigma, c.theta, func(_ []int, w float64) { want += w })
		for _, keep := range []bool{false, true} {
			if got := math.Exp(c.table(t, keep).lnN); math.Abs(got/want-1) > 1e-12 {
				t.Errorf("%v keep=%v: N = %v, want %v (relative %g)", c, keep, got, want, got/want-1)
			}
		}
		if s, err := familyOf(c.spec()).source(c.spec(), likelihood.NewColumns(c.c), c.theta, true, nil); c.theta > 1 && (err != nil || s.logN() < math.Log(want) || s.logN() > math.Log(want)+1e-8) {
			t.Errorf("%v: ln N = %v, want a little above %v, %v", c, s.logN(), math.Log(want), err)
		}
	}
}

// TestBalancedNormaliserGolden holds ln N_θ against values of another program.
func TestBalancedNormaliserGolden(t *testing.T) {
	compareNormalisers(t, 11, func(c normaliserCase, theta int) float64 {
		return balancedCase{toeplitz(c.Steps, c.C...), c.MinSep, c.Times, c.Sigma, theta}.table(t, false).lnN
	}, "balanced_min_sep")
}

// TestBalancedTuplesFollowTheirDistribution holds drawn tuples against enumeration; those of
// another number or another noise are rejected.
func TestBalancedTuplesFollowTheirDistribution(t *testing.T) {
	for _, c := range balancedCases {
		list := balancedPatterns(c.distribution())
		judge := func(table *tuples) error {
			weights, total := map[string]float64{}, 0.0
			eachTuple(c.c, list, c.sigma, c.theta, func(tuple []int, w float64) {
				weights[tupleKey(list, tuple)] += w
				total += w
			})
			return tuplesFollow(weights, total, c.String(), newWalker(table).walk, 15000)
		}
		if err := judge(c.table(t, true)); err != nil {
			t.Errorf("%v: %v", c, err)
		}
		if !stattest.Long() {
			continue
		}
		for _, twin := range []balancedCase{{c.c, c.sep, .8 * c.times, c.sigma, c.theta}, {c.c, c.sep, c.times, 1.8 * c.sigma, c.theta}} {
			if judge(twin.table(t, true)) == nil {
				t.Errorf("%v: the test accepts the tuples of %v", c, twin)
			}
		}
	}
}

// TestBalancedPosterior holds ln f, the probability of a participation at each step, and of none,
// against enumeration.
func TestBalancedPosterior(t *testing.T) {
	rng := rand.New(rand.NewPCG(59, 1))
	for _, c := range append(randomBalancedCases(150), balancedCases...) {
		checkPosterior(t, c.String(), c.spec(), balancedPatterns(c.distribution()), rng)
	}
}

// TestBalancedTableLimits: a table that does not fit is refused before it is made, and one that is
// not kept holds no more slices than it says.
func TestBalancedTableLimits(t *testing.T) {
	c := balancedCase{toeplitz(400, 1, .5, .3), 10, 3, 1, 3}
	if _, err := c.newTable(true, 1<<20); err == nil {
		t.Error("a table of 1984 states at 400 steps fits in 1 MB")
	}
	kept, passing := c.table(t, true), c.table(t, false)
	if passing.lnN != kept.lnN {
		t.Errorf("ln N = %v, kept %v", passing.lnN, kept.lnN)
	}
	held := 0
	for _, slice := range passing.slice {
		if slice != nil {
			held++
		}
	}
	if held > passing.room.passing {
		t.Errorf("%d slices are held, %d announced", held, passing.room.passing)
	}
}

// TestCounts holds the sizes of tables that are not made yet against those of tables.
func TestCounts(t *testing.T) {
	var cases []*tuples
	for _, c := range []balancedCase{{toeplitz(9, 1), 1, 2, 1, 5}, {toeplitz(9, 1), 2, 2, 1, 4}, {toeplitz(12, 1), 3, 3, 1, 4},
		{toeplitz(9, 1), 2, 1.5, 1, 6}, {toeplitz(9, 1), 3, 2, 1, 2}} {
		cases = append(cases, c.table(t, false))
	}
	for _, c := range []epochCase{{toeplitz(9, 1), 1, 2, 1, 5}, {toeplitz(9, 1), 3, 4, 1, 4}, {toeplitz(9, 1), 2, 2, 1, 2}} {
		cases = append(cases, c.table(t, false))
	}
	for _, table := range cases {
		if got := sliceSize(table.law, table.theta); got != float64(table.size) {
			t.Errorf("%+v, order %d: slices of %v, want %d", table.law, table.theta, got, table.size)
		}
		if got, want := countMoves(table.law, table.theta), float64(len(table.kinds[0].moves)); got != want {
			t.Errorf("%+v, order %d: %v moves, want %v", table.law, table.theta, got, want)
		}
	}
}

// TestSlowOrdersAreLeftOut: where tuples of high orders take long, the members are those up to the
// order with the least M times time of all that are made, and the proof is that of the least M.
func TestSlowOrdersAreLeftOut(t *testing.T) {
	c := balancedCase{toeplitz(30, .8), 1, 2, 1.6, 0}
	for k := 1; k <= 2; k++ {
		spec := c.spec()
		spec.MaxExamplesPerOwner = k
		const epsilon = 1
		proposal, err := NewProposal(t.Context(), Config{spec, epsilon, montecarlo.P})
		if err != nil {
			t.Fatal(err)
		}
		columns := likelihood.NewColumns(spec.Strategy)
		family, _ := newLawFamily(spec)
		rest := 25.0 * 30
		if k > 1 {
			rest += 50*30 + 500*float64(proposal.Draws*k)
		}
		fastest, best, least := math.Inf(1), 0, math.Inf(1)
		last := 1
		for order := 2; order <= maxOrder && family.affordable(spec, order); order++ {
			s, err := family.source(spec, columns, order, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			bound := mixture{[]Member{{Order: order, Weight: 1, LogN: s.logN()}}, epsilon, k}.bound()
			least, last = min(least, bound), order
			if time := bound * (rest + 100*2*float64(order)*math.Exp2(float64(order))); order > k && time < fastest {
				fastest, best = time, order
			}
		}
		top := 0
		for _, m := range proposal.Members {
			top = max(top, m.Order)
		}
		if top > best || best >= last {
			t.Errorf("k=%d: orders up to %d, the least time is at %d, of orders to %d", k, top, best, last)
		}
		if proposal.Divergence > least*(1+1e-6) || proposal.Bound < proposal.Divergence {
			t.Errorf("k=%d: %v is proven, M is %v, the least %v", k, proposal.Divergence, proposal.Bound, least)
		}
	}
}
