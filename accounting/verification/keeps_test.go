package verification

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestBudgetsInTimeAreKept: plain samples of H(Q,P), as with independent noise,
// take another time than tilted ones of H(P,Q). A budget in time is kept nevertheless, and each one
// certifies something, also where no noise multiplier needs no samples.
func TestBudgetsInTimeAreKept(t *testing.T) {
	for _, c := range []struct {
		name   string
		delta  float64
		curves [2]knownCurve
		none   bool
	}{
		{"plain samples, proven later", 1e-5, [2]knownCurve{{1e-5, -45, 50, -60, 20e-6, .5, .6}, {1e-30, -45, 3.7e8, -110, 6e-6, 0, .6}}, false},
		{"dear plain samples", 1e-5, [2]knownCurve{{1e-5, -45, 50, -60, 10e-6, .5, .6}, {1e-30, -45, 3.7e8, -110, 20e-6, 0, .6}}, false},
		{"plain samples, never proven", 1e-4, [2]knownCurve{{1e-4, -28, 47, -10, 50e-6, .3, .6}, {1e-12, -28, 1e4, 0, 20e-6, 0, .6}}, true},
	} {
		for _, budget := range []time.Duration{17 * time.Second, 22 * time.Second, 40 * time.Second, 2 * time.Minute} {
			for seed := range uint64(simulations(t, 8)) {
				s := &simulated{claim: c.delta, curves: c.curves, rng: rand.New(rand.NewPCG(seed, 7)), noisy: 1, proofs: 4, none: c.none}
				p := Problem{Run: smallRun(), Epsilon: 2, Delta: c.delta, CodeVersion: "test", CPUTime: budget, Workers: 1, simulated: s}
				plan, err := p.Plan(t.Context())
				if err != nil {
					t.Fatalf("%s, %v, seed %d: %v", c.name, budget, seed, err)
				}
				switch sigma := s.released(plan); {
				case sigma == 0:
					t.Errorf("%s, %v, seed %d: nothing is certified", c.name, budget, seed)
				case sigma > 1.2*s.truth():
					t.Errorf("%s, %v, seed %d: released %.4g, the truth is %.4g", c.name, budget, seed, sigma, s.truth())
				}
				if s.clock > budget+budget/20+time.Second {
					t.Errorf("%s, seed %d: took %v of %v", c.name, seed, s.clock, budget)
				}
			}
		}
	}
}
