package tilt

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

// epochPatterns lists every pattern of epoch min-sep by its places: in each epoch from the first
// free place on with the constant hazard 1/(T-b+1) up to place b-2, and uniformly beyond; the place
// before the run is uniform.
func epochPatterns(steps, sep, epoch int) (list []pattern) {
	var walk func(begins, last int, hits []int, prob float64)
	walk = func(begins, last int, hits []int, prob float64) {
		if begins >= steps {
			for k := range list {
				if equal(list[k].hits, hits) {
					list[k].prob += prob
					return
				}
			}
			list = append(list, pattern{append([]int(nil), hits...), prob})
			return
		}
		tail, left := float64(epoch-sep+1), 1.0
		for v := max(0, last+sep-epoch); v < epoch; v++ {
			p := left / tail
			if v < sep-1 {
				left -= p
			}
			if p <= 0 {
				continue
			}
			next := hits
			if begins+v < steps {
				next = append(append([]int(nil), hits...), begins+v)
			}
			walk(begins+epoch, v, next, prob*p)
		}
	}
	for last := range epoch {
		walk(0, last, nil, 1/float64(epoch))
	}
	return list
}

// epochCase is a table with its corners: min-sep 1, epochs of min-sep, of one step, longer than the
// run, cut ones.
type epochCase struct {
	c          *mechanism.Strategy
	sep, epoch int
	sigma      float64
	theta      int
}

func (c epochCase) String() string {
	return fmt.Sprintf("%s n=%d b=%d T=%d σ=%v θ=%d", c.c.Kind, c.c.Steps, c.sep, c.epoch, c.sigma, c.theta)
}

func (c epochCase) spec() montecarlo.Spec {
	return specOf(sampling.EpochMinSep{Steps: c.c.Steps, MinSep: c.sep, EpochSteps: c.epoch}, c.c, c.sigma)
}

func (c epochCase) table(t testing.TB) *source {
	t.Helper()
	return tableOf(t, sampling.EpochMinSep{Steps: c.c.Steps, MinSep: c.sep, EpochSteps: c.epoch}, c.c, c.sigma, c.theta)
}

var epochCases = []epochCase{
	{toeplitz(7, 1, .6), 2, 3, .8, 2},
	{toeplitz(8, 1, .6, .4), 3, 4, .7, 2},
	{toeplitz(8, 1, .6, .4), 3, 4, .7, 3},
	{toeplitz(9, 1, .6, .4), 3, 5, .8, 3},
	{toeplitz(6, 1, .6, .4), 3, 5, .9, 4},
	{toeplitz(5, 1, .5), 2, 3, .9, 5},
	{toeplitz(6, 1), 1, 3, .7, 3},
	{toeplitz(6, 1), 1, 1, .9, 3},
	{toeplitz(7, 1, .5), 2, 2, .8, 3},
	{toeplitz(8, 1, .6, .4, .3), 4, 4, .8, 3},
	{toeplitz(6, 1, .6, .4), 3, 6, .7, 3},
	{toeplitz(5, 1, .6, .4), 3, 9, .7, 3},
	{toeplitz(7, 1, .6, .4), 3, 7, .7, 4},
	{varying(8, 3), 3, 5, .7, 3},
	{varying(8, 2), 3, 3, .8, 3},
	{&mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 8, Toeplitz: []float64{1, .6, .4}, Normalized: true}, 3, 4, .7, 3},
}

// randomEpochCases draws sizes on purpose around where epochs, min-sep and the run meet.
func randomEpochCases(count int) (cases []epochCase) {
	rng := rand.New(rand.NewPCG(55, 1))
	for len(cases) < count {
		n, b := 1+rng.IntN(7), 1+rng.IntN(4)
		epoch := b + []int{0, 1, rng.IntN(4), max(0, n-b), n}[rng.IntN(5)]
		w := 1 + rng.IntN(min(b, n))
		c := varying(n, w)
		if rng.IntN(2) == 0 {
			c = toeplitz(n, []float64{1, .7, .5, .4}[:w]...)
		}
		cases = append(cases, epochCase{c, b, epoch, .6 + rng.Float64(), 1 + rng.IntN(3)})
	}
	return cases
}

func TestEpochNormaliserIsTheSumOverAllTuples(t *testing.T) {
	for _, c := range append(randomEpochCases(300), epochCases...) {
		want := 0.0
		eachTuple(c.c, epochPatterns(c.c.Steps, c.sep, c.epoch), c.sigma, c.theta, func(_ []int, w float64) { want += w })
		if got := math.Exp(c.table(t).lnN); math.Abs(got/want-1) > 1e-12 {
			t.Errorf("%v: N = %v, want %v (relative %g)", c, got, want, got/want-1)
		}
		if s, err := newLawFamily(c.spec()).source(t.Context(), c.spec(), likelihood.NewColumns(c.c), c.theta, true); c.theta > 1 && (err != nil || s.logN() < math.Log(want) || s.logN() > math.Log(want)+1e-8) {
			t.Errorf("%v: ln N = %v, want a little above %v, %v", c, s.logN(), math.Log(want), err)
		}
	}
}

// TestEpochTuplesFollowTheirDistribution holds drawn tuples against enumeration; those of another
// epoch or another min-sep are rejected.
func TestEpochTuplesFollowTheirDistribution(t *testing.T) {
	for _, c := range epochCases {
		list := epochPatterns(c.c.Steps, c.sep, c.epoch)
		judge := func(table *source) error {
			weights, total := map[string]float64{}, 0.0
			eachTuple(c.c, list, c.sigma, c.theta, func(tuple []int, w float64) {
				weights[tupleKey(list, tuple)] += w
				total += w
			})
			return tuplesFollow(weights, total, c.String(), exactWalk(table), 15000)
		}
		if c.epoch > 1 {
			if err := judge(c.table(t)); err != nil {
				t.Errorf("%v: %v", c, err)
			}
		}
		for _, twin := range []epochCase{{c.c, c.sep, c.epoch + 1 + c.epoch/3, c.sigma, c.theta}, {c.c, c.sep, c.epoch, 1.6 * c.sigma, c.theta}} {
			if c.epoch == 1 && twin.epoch == 1 {
				continue // one tuple only
			}
			if judge(twin.table(t)) == nil {
				t.Errorf("%v: the test accepts the tuples of %v", c, twin)
			}
		}
	}
}

// tuplesFollow tests how often each tuple is drawn against the weights of all.
func tuplesFollow(weights map[string]float64, total float64, name string, draw func([]kernel.Hit, *uniforms) []kernel.Hit, draws int) error {
	seen := map[string]int{}
	u := &uniforms{bulk: stream.NewBulk(stream.PublicKey("test", []byte(name)))}
	var hits []kernel.Hit
	for i := range draws {
		u.reset(uint64(i))
		hits = draw(hits, u)
		key := hitsKey(hits)
		if weights[key] == 0 {
			return fmt.Errorf("drew an impossible tuple %s", key)
		}
		seen[key]++
	}
	observed, prob := []int{0}, []float64{0}
	for key, weight := range weights {
		if q := weight / total; q > 0.004 {
			observed, prob = append(observed, seen[key]), append(prob, q)
		} else { // the rare tuples together
			observed[0] += seen[key]
			prob[0] += q
		}
	}
	return stattest.Distribution(observed, prob)
}
