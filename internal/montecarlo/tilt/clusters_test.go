package tilt

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

func mustClusters(t *testing.T, s montecarlo.Spec, theta, exact int) *clusters {
	t.Helper()
	once, ok := singleOf(s)
	if !ok {
		t.Fatalf("%+v is not at most once", s)
	}
	c := must.Get(newClusters(once, likelihood.NewColumns(s.Strategy), 1/(s.NoiseMultiplier*s.NoiseMultiplier), theta, exact))(t)
	return c
}

// eachClusterCase goes through onceCases, and those of order 3 in order 4 too, with all the clusters
// listed, and with few of them.
func eachClusterCase(t *testing.T, do func(c tableCase, exact int)) {
	t.Helper()
	for _, c := range onceCases() {
		for more := range 2 {
			if c.theta += more; more > 0 && c.theta != 4 {
				continue
			}
			for exact := 1; exact <= c.theta; exact++ {
				do(c, exact)
			}
		}
	}
}

// TestClustersBoundTheSumOverAllTuples, and are it where each pair of steps weighs as much as the
// heaviest as far apart, and all clusters are listed.
func TestClustersBoundTheSumOverAllTuples(t *testing.T) {
	equal := 0
	eachClusterCase(t, func(c tableCase, exact int) {
		want := 0.0
		eachTuple(c.c, patterns(c.c.Steps, c.sep, c.p, true), c.sigma, c.theta, func(_ []int, w float64) { want += w })
		clusters := mustClusters(t, c.spec(), c.theta, exact)
		got := math.Exp(clusters.logN)
		if !(got >= want*(1-1e-12)) {
			t.Errorf("%v, %d listed: N̂ = %v, N = %v", c, exact, got, want)
		}
		alike := true
		for i := range c.c.Steps {
			for d, x := range clusters.gram.Ahead(i) {
				alike = alike && math.Abs(x-clusters.most[d]) < 1e-13
			}
		}
		if alike && exact == c.theta {
			if equal++; !(got <= want*(1+1e-12)) {
				t.Errorf("%v, %d listed: N̂ = %v, want N = %v", c, exact, got, want)
			}
		}
	})
	if equal < 10 {
		t.Errorf("%d cases are exact, want some", equal)
	}
}

func TestTuplesOfClustersFollowTheirDistribution(t *testing.T) {
	k := 0
	eachClusterCase(t, func(c tableCase, exact int) {
		if k++; c.theta == 1 || c.c.Steps == 1 || k%5 > 0 && !stattest.Long() {
			return
		}
		clusters := mustClusters(t, c.spec(), c.theta, exact)
		if err := weightedDistribution(t, c.String(), c.c, patterns(c.c.Steps, c.sep, c.p, true), c.sigma, c.theta, clusters.logN, clusters.source().walker(), 15000); err != nil {
			t.Errorf("%v, %d listed: %v", c, exact, err)
		}
	})
	c := tableCase{toeplitz(5, 1, .6, .4), 6, .3, 1.5, 4}
	for _, exact := range []int{2, 4} {
		for _, spoil := range []func(c *clusters){
			func(c *clusters) { c.first, c.never = .06, 1-5*.06; c.choose() },
			func(c *clusters) { c.most[1] *= .5 },
			func(c *clusters) { c.lists[2].spans[1] *= 3 },
		} {
			clusters := mustClusters(t, c.spec(), c.theta, exact)
			logN := clusters.logN
			spoil(clusters)
			if weightedDistribution(t, c.String(), c.c, patterns(c.c.Steps, c.sep, c.p, true), c.sigma, c.theta, logN, clusters.source().walker(), 30000) == nil {
				t.Errorf("%v, %d listed: the test accepts tuples of another distribution", c, exact)
			}
		}
	}
}

// TestClustersAreRaised: orders that share their common part are those that are made alone.
func TestClustersAreRaised(t *testing.T) {
	s := specOf(sampling.BMinSep{Prob: .5, Steps: 60, MinSep: 60, WarmStart: true}, toeplitz(60, slices.Repeat([]float64{.2}, 40)...), .8)
	exact := exactClusters(40, 9)
	lower := mustClusters(t, s, exact+1, exact).source()
	before := lower.lnN
	for _, order := range []int{exact + 2, exact + 5, exact + 3} {
		got, err := lower.above(order)
		if err != nil || got == nil {
			t.Fatalf("order %d is not made from order %d: %v", order, exact+1, err)
		}
		if want := mustClusters(t, s, order, exact); got.lnN != want.logN || lower.lnN != before {
			t.Errorf("order %d: ln N̂ = %v, alone %v", order, got.lnN, want.logN)
		}
	}
	for _, order := range []int{exact, maxBlockOrder + 1} {
		if s, err := lower.above(order); s != nil || err != nil {
			t.Errorf("order %d is made from order %d", order, exact+1)
		}
	}
}

// weightedDistribution tests the sums of weights of the tuples that a walk draws against
// enumeration of those of patterns, whose normaliser is at most e^lnN.
func weightedDistribution(t *testing.T, name string, c *mechanism.Strategy, list []pattern, sigma float64, theta int, lnN float64,
	walk func([]kernel.Hit, *kernel.Uniforms) ([]kernel.Hit, float64), draws int) error {
	t.Helper()
	want := map[string]float64{}
	eachTuple(c, list, sigma, theta, func(tuple []int, w float64) { want[tupleKey(list, tuple)] += w })
	got := map[string]float64{}
	u := &kernel.Uniforms{Bulk: stream.NewBulk(stream.PublicKey("test", []byte(name)))}
	var hits []kernel.Hit
	var weight float64
	sum, squares := 0.0, 0.0
	for i := range draws {
		u.Reset(uint64(i), 0)
		hits, weight = walk(hits, u)
		sum, squares = sum+weight, squares+weight*weight
		if !(weight >= 0 && weight <= 1+1e-12) {
			t.Fatalf("%s: a weight of %v", name, weight)
		}
		if weight > 0 {
			got[hitsKey(hits)] += weight
		}
	}
	n := float64(draws)
	for key := range got {
		if want[key] == 0 {
			return fmt.Errorf("drew an impossible tuple %s", key)
		}
	}
	total := 0.0
	for key, w := range want {
		mean := w / math.Exp(lnN)
		total += mean
		if err := stattest.Sum(got[key], n*mean, n*mean, 1); err != nil { // weights are at most 1
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return stattest.Sum(sum, n*total, max(0, squares-n*total*total)+1, 1)
}
