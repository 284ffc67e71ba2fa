package tilt

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"minsep/internal/bisect"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/stattest"
	"minsep/mechanism"
	"minsep/sampling"
)

// onceCase is a run of one to three steps in which everybody takes part at most once, at each step
// with probability q/n, written as it is in the notation of the formulas.
type onceCase struct {
	config Config
	n      int
	q      float64
	gram   [3][3]float64 // ⟨c_i,c_j⟩/σ²
}

func randomOnce(rng *rand.Rand) (c onceCase) {
	pick := func(x ...float64) float64 { return x[rng.IntN(len(x))] }
	c.n = 1 + rng.IntN(3)
	column := []float64{pick(1, 0.5+rng.Float64())}
	for range rng.IntN(c.n) {
		column = append(column, column[0]*pick(rng.Float64(), 1))
	}
	s := &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: c.n, Toeplitz: column}
	sigma := pick(0.3, 1, 4, math.Exp(-1.5+3*rng.Float64()))
	rate := pick(1e-9, 1e-4, 0.01, 0.98*rng.Float64(), 0.5, 0.9, 0.985) / float64(c.n)
	spec := specOf(sampling.BMinSep{Prob: rate / (1 - rate*float64(c.n-1)), Steps: c.n, MinSep: c.n, WarmStart: true}, s, sigma)
	c.q = float64(c.n) * rate
	c.config = Config{spec, pick(0, 1e-3, rng.Float64(), 1, 4*rng.Float64(), 20), montecarlo.P}
	for i := range c.n {
		for j := range c.n {
			for t := max(i, j); t < c.n; t++ {
				if t-i < len(column) && t-j < len(column) {
					c.gram[i][j] += column[t-i] * column[t-j] / (sigma * sigma)
				}
			}
		}
	}
	return c
}

// logMoment is ln E_Q g^θ, by the numbers of replicas at each step.
func (c onceCase) logMoment(order int) float64 {
	factorial := func(k int) float64 { log, _ := math.Lgamma(float64(k + 1)); return log }
	var logs []float64
	for i := 0; i <= order; i++ {
		for j := 0; i+j <= order; j++ {
			k := [3]int{i, j, order - i - j}
			if c.n < 3 && k[2] > 0 || c.n < 2 && k[1] > 0 {
				continue
			}
			log := factorial(order)
			for a := range 3 {
				log += float64(k[a]*(k[a]-1))/2*c.gram[a][a] - factorial(k[a])
				for b := range a {
					log += float64(k[a]*k[b]) * c.gram[a][b]
				}
			}
			logs = append(logs, log)
		}
	}
	top, sum := slices.Max(logs), 0.0
	for _, log := range logs {
		sum += math.Exp(log - top)
	}
	return top + math.Log(sum) - float64(order)*math.Log(float64(c.n))
}

// logMost is ln of the least number that u-t is at most, as a part of u^order, for every u: it is
// reached where the slope of its logarithm is 0.
func logMost(t float64, order int) float64 {
	u, _ := bisect.Between(t, 1e6*t, 0, func(u float64) bool { return 1/(u-t) > float64(order)/u })
	return math.Log(u-t) - float64(order)*math.Log(u)
}

// TestTakingBound: the bound by those who take part is that of the best order of qg against γ-1+q,
// with moments that are enumerated: no smaller, and where that order is one of the first, no
// larger.
func TestTakingBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(2026, 14))
	few, gains := 0, 0
	for range 60 {
		c := randomOnce(rng)
		got := math.Log(takingBound(c.config, likelihood.NewColumns(c.config.Spec.Strategy), nil))
		first, least := math.Inf(1), math.Inf(1)
		for order := 2; order <= maxBlockOrder; order++ {
			bound := float64(order)*math.Log(c.q) + c.logMoment(order) + logMost(math.Expm1(c.config.Epsilon)+c.q, order)
			if order <= 3 {
				first = min(first, bound)
			}
			least = min(least, bound)
		}
		if least < -300 || first > 300 {
			continue
		}
		if got < least-1e-7 || got > first+1e-6 {
			t.Errorf("%d steps, q = %g, ε = %g, σ = %g: e^%g, by the best order e^%g, by the first ones e^%g", c.n, c.q, c.config.Epsilon, c.config.Spec.NoiseMultiplier, got, least, first)
		}
		if first == least {
			few++
			p, err := NewProposal(t.Context(), c.config)
			if err != nil || p.Divergence > math.Exp(got)*(1+1e-12) && p.Divergence > leastBound {
				t.Errorf("%+v, %v: the divergence is above the bound e^%g", p, err, got)
			}
			if p.Divergence < 0.5*p.Bound {
				gains++
			}
		}
	}
	if few < 15 || gains < 5 {
		t.Errorf("only %d cases have the best bound by one of the first orders, and %d of them half of M", few, gains)
	}
}

// TestTakingOthers: other distributions have no such bound.
func TestTakingOthers(t *testing.T) {
	s := mechanism.Identity(4)
	for name, spec := range map[string]montecarlo.Spec{
		"cold":                  specOf(sampling.BMinSep{Prob: 0.1, Steps: 4, MinSep: 4}, s, 1),
		"twice":                 specOf(sampling.BMinSep{Prob: 0.1, Steps: 4, MinSep: 2, WarmStart: true}, s, 1),
		"two examples":          ownersOf(specOf(sampling.BMinSep{Prob: 0.1, Steps: 4, MinSep: 4, WarmStart: true}, s, 1), 2),
		"next to all take part": specOf(sampling.EpochMinSep{Steps: 4, MinSep: 4, EpochSteps: 4}, s, 1),
	} {
		if got := takingBound(Config{spec, 1, montecarlo.P}, likelihood.NewColumns(s), nil); !math.IsInf(got, 1) {
			t.Errorf("%s: %g", name, got)
		}
	}
}

// TestTakingOfARun: the bounds by f and by g of a run of 1000 steps at ε = 1, those of F5.17.
func TestTakingOfARun(t *testing.T) {
	strategy, _, err := mechanism.Problem{Workload: mechanism.Prefix(1000)}.OptimalToeplitz(16)
	if err != nil {
		t.Fatal(err)
	}
	columns := likelihood.NewColumns(strategy)
	for _, c := range []struct{ q, sigma, ratio float64 }{{0.9, 1, 1.2}, {0.5, 0.6, 2.5}, {0.5, 1, 12}, {0.1, 0.6, 100}, {0.1, 1, 1e5}} {
		if c.sigma == 1 && !stattest.Long() {
			continue // a second each
		}
		spec := specOf(sampling.BMinSep{Prob: c.q / (1000 - 999*c.q), Steps: 1000, MinSep: 1000, WarmStart: true}, strategy, c.sigma)
		config := Config{spec, 1, montecarlo.P}
		f := newForward(config, columns, math.Inf(1), Tables{}, nil)
		f.orders(true)
		g := takingBound(config, columns, nil)
		t.Logf("q = %g, σ = %g: %.3g by f, %.3g by g", c.q, c.sigma, f.bound, g)
		if f.bound < c.ratio*g {
			t.Errorf("q = %g, σ = %g: %g by f is not %g times %g by g", c.q, c.sigma, f.bound, c.ratio, g)
		}
	}
}
