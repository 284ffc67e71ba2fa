package accounting_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/stattest"
	"minsep/mechanism"
	"minsep/sampling"
)

// ownerMechanism is a mechanism of two steps in which an owner takes part by the distribution of x
// and brings two of its three examples each time, any pair with probability 1/3. The gradients of
// the examples are numbers of any size, and at the second step they depend on the first release.
type ownerMechanism struct {
	c       [3]float64 // C11, C21, C22, over σ
	x       [][2]float64
	weights []float64
	first   [3]float64    // of each example, at step 1
	second  [2][3]float64 // at step 2: for a first release below edge, and above
	edge    float64
}

// brought are the pairs that the owner may bring.
var brought = [][2]int{{0, 1}, {0, 2}, {1, 2}}

func clipped(g float64) float64 { return max(-1, min(1, g)) }

// ofMean does as the trainer is told: clip the mean.
func ofMean(a, b float64) float64 { return clipped((a + b) / 2) }

// ofEach does the forbidden: clip each example and add.
func ofEach(a, b float64) float64 { return clipped(a) + clipped(b) }

// ratio is P/Q by enumeration of what is drawn.
func (m ownerMechanism) ratio(contribution func(a, b float64) float64) func(y1, y2 float64) float64 {
	return func(y1, y2 float64) (sum float64) {
		later := m.second[0]
		if y1 >= m.edge {
			later = m.second[1]
		}
		for i, x := range m.x {
			for _, s := range brought {
				g1 := contribution(m.first[s[0]], m.first[s[1]])
				for _, r := range brought {
					g2 := contribution(later[r[0]], later[r[1]])
					m1 := m.c[0] * x[0] * g1
					m2 := m.c[1]*x[0]*g1 + m.c[2]*x[1]*g2
					sum += m.weights[i] / 9 * math.Exp(m1*y1+m2*y2-(m1*m1+m2*m2)/2)
				}
			}
		}
		return sum
	}
}

// scalar is the pair of one example: Cx + z against z.
func (m ownerMechanism) scalar() mixture {
	pair := mixture{weights: m.weights}
	for _, x := range m.x {
		pair.means = append(pair.means, [2]float64{m.c[0] * x[0], m.c[1]*x[0] + m.c[2]*x[1]})
	}
	return pair
}

// TestOwnersAreDominatedByOneExample is F4.9: whatever an owner of several examples brings, and
// whatever their gradients are, the pair of one example that takes part as the owner does
// dominates, as long as the mean is clipped. That pair is what the accounting of the run computes,
// which for independent steps is held against it.
func TestOwnersAreDominatedByOneExample(t *testing.T) {
	rng := rand.New(rand.NewPCG(49, 0))
	p := newPlane()
	equal, strict, broken := 0, 0, 0
	cases := 20
	if stattest.Long() {
		cases = 60
	}
	for i := range cases {
		prob := 0.1 + 0.8*rng.Float64()
		sigma := 0.7 + rng.Float64()
		m := ownerMechanism{edge: 0.1 * float64(rng.IntN(41)-20)}
		strategy := &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 2, Toeplitz: []float64{1, rng.Float64()}}
		run := accounting.Run{Strategy: strategy, MaxExamplesPerOwner: 1}
		run.Sampler.Owners = &sampling.OwnerSampling{ExamplesPerOwner: 2}
		switch i % 4 {
		case 0:
			strategy.Toeplitz = strategy.Toeplitz[:1]
			run.Sampler.Poisson = &sampling.Poisson{Prob: prob, Steps: 2}
		case 1: // the steps overlap
			run.Sampler.Poisson = &sampling.Poisson{Prob: prob, Steps: 2}
		case 2:
			run.Sampler.BMinSep = &sampling.BMinSep{Prob: prob, Steps: 2, MinSep: 2}
		case 3:
			run.Sampler.EpochMinSep = &sampling.EpochMinSep{Steps: 2, MinSep: 1, EpochSteps: 2}
		}
		m.x = [][2]float64{{0, 0}, {1, 0}, {0, 1}, {1, 1}}
		switch {
		case run.Sampler.Poisson != nil:
			m.weights = []float64{(1 - prob) * (1 - prob), prob * (1 - prob), prob * (1 - prob), prob * prob}
		case run.Sampler.BMinSep != nil:
			m.weights = []float64{(1 - prob) * (1 - prob), prob, prob * (1 - prob), 0}
		default:
			m.weights = []float64{0, 0.5, 0.5, 0}
		}
		m.c = [3]float64{1 / sigma, 0, 1 / sigma}
		if len(strategy.Toeplitz) > 1 {
			m.c[1] = strategy.Toeplitz[1] / sigma
		}
		size := []float64{0.5, 1, 3}[rng.IntN(3)]
		gradient := func() float64 { return size * []float64{-1, 1, 1, 2*rng.Float64() - 1}[rng.IntN(4)] }
		if i%5 == 0 { // as large as can be
			size = 3
			gradient = func() float64 { return size }
		}
		for e := range 3 {
			m.first[e], m.second[0][e], m.second[1][e] = gradient(), gradient(), gradient()
		}
		epsilon := 1.5 * rng.Float64()
		pq, qp := p.divergences(math.Exp(epsilon), m.ratio(ofMean))
		mostPQ, mostQP := p.divergences(math.Exp(epsilon), m.scalar().ratio)
		if exceeds(pq, mostPQ) || exceeds(qp, mostQP) {
			t.Errorf("ε %g: %+v has (%g, %g), one example only (%g, %g)", epsilon, m, pq, qp, mostPQ, mostQP)
		}
		switch {
		case !exceeds(mostPQ, pq):
			equal++
		default:
			strict++
		}
		if wrongPQ, wrongQP := p.divergences(math.Exp(epsilon), m.ratio(ofEach)); exceeds(wrongPQ, mostPQ) || exceeds(wrongQP, mostQP) {
			broken++
		}
		if method, err := run.Method(); err != nil || method != accounting.PLD {
			continue
		}
		provenPQ, provenQP, err := run.Prove(sigma, epsilon)
		if err != nil {
			t.Fatal(err)
		}
		if exceeds(mostPQ, provenPQ) || exceeds(mostQP, provenQP) {
			t.Errorf("ε %g, σ %g, p %g: the pair has (%g, %g), the run %v and %v", epsilon, sigma, prob, mostPQ, mostQP, provenPQ, provenQP)
		}
	}
	if 12*equal < cases || 3*strict < cases || 12*broken < cases {
		t.Errorf("%d cases reach the bound, %d stay below it, %d are above it where each example is clipped: the cases show too little", equal, strict, broken)
	}
}
