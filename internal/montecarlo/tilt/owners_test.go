package tilt

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/stattest"
	"minsep/internal/stream"
)

// ownerCase is a scheme with the patterns of one example.
type ownerCase struct {
	spec montecarlo.Spec
	list []pattern
}

func (c ownerCase) String() string {
	s := c.spec
	return fmt.Sprintf("n=%d b=%d σ=%.3g k=%d", s.Steps(), s.MinSep(), s.NoiseMultiplier, s.MaxExamplesPerOwner)
}

// ownerCases are of several examples, with the corners of randomEpochCases.
func ownerCases(k int) (cases []ownerCase) {
	for _, e := range append(randomEpochCases(25), epochCases[8:13]...) {
		cases = append(cases, ownerCase{e.spec(), epochPatterns(e.c.Steps, e.sep, e.epoch)})
	}
	for i := range cases {
		cases[i].spec.MaxExamplesPerOwner = k
	}
	return cases
}

// ratios returns f and f_k/f^k at y, by all patterns and all their pairs and triples.
func (c ownerCase) ratios(y []float64) (f, part float64) {
	square := c.spec.NoiseMultiplier * c.spec.NoiseMultiplier
	var images [][]float64
	var posterior []float64
	for _, a := range c.list {
		x := image(c.spec.Strategy, a.hits)
		images = append(images, x)
		posterior = append(posterior, a.prob*math.Exp((dot(x, y)-dot(x, x)/2)/square))
		f += posterior[len(posterior)-1]
	}
	var walk func(left int, sum []float64, weight float64)
	walk = func(left int, sum []float64, weight float64) {
		if left == 0 {
			part += weight
			return
		}
		for a, x := range images {
			next := make([]float64, len(x))
			for i := range x {
				next[i] = sum[i] + x[i]
			}
			walk(left-1, next, weight*posterior[a]/f*math.Exp(-dot(sum, x)/square))
		}
	}
	walk(c.spec.MaxExamplesPerOwner, make([]float64, c.spec.Steps()), 1)
	return f, part
}

// TestPathsOfEpochsAreUnbiased holds f̂ under epoch-min-sep against enumeration.
func TestPathsOfEpochsAreUnbiased(t *testing.T) {
	rng := rand.New(rand.NewPCG(63, 1))
	told, cases := 0, 0
	for k := 2; k <= 3; k++ {
		for _, c := range ownerCases(k) {
			if math.Pow(float64(len(c.list)), float64(k)) > 1e4 {
				continue
			}
			columns, sigma := likelihood.NewColumns(c.spec.Strategy), c.spec.NoiseMultiplier
			y := make([]float64, c.spec.Steps())
			for i := range y {
				y[i] = 1.5*rng.NormFloat64() + .7
			}
			_, want := c.ratios(y)
			p, err := newPaths(c.spec, columns, 1)
			if err != nil {
				t.Fatal(err)
			}
			p.one.Given(func(i int) float64 { return columns.Dot(i, y) / (sigma * sigma) })
			if err := unbiased(p, want, c.String(), 5000); err != nil {
				t.Errorf("%v: %v", c, err)
			}
			wrong := p.fork()
			wrong.one, wrong.examples = p.one, k+1
			if cases++; unbiased(wrong, want, c.String(), 5000) != nil {
				told++
			}
		}
	}
	if told < cases/2 {
		t.Errorf("only %d of %d cases tell the number of examples", told, cases)
	}
}

// TestProposalsOfOwnersBoundTheDivergence: a bound that is proven without samples is not below the
// divergence, and means of values are little above it, for owners of two, three and four examples
// in both directions.
func TestProposalsOfOwnersBoundTheDivergence(t *testing.T) {
	const samples = 8000
	var cases []ownerCase
	for _, e := range []epochCase{{toeplitz(2, 1, .5), 2, 2, 1.3, 0}, {toeplitz(2, 1), 1, 1, 2.1, 0}, {toeplitz(2, 1), 1, 2, 1.4, 0}, {toeplitz(2, 1, .5), 2, 3, 1.3, 0}} {
		cases = append(cases, ownerCase{e.spec(), epochPatterns(2, e.sep, e.epoch)})
	}
	tilted := map[string]int{}
	for i, c := range cases {
		for k := 2; k <= 4; k++ {
			if (i+k)%2 == 1 && !stattest.Long() {
				continue
			}
			c.spec.MaxExamplesPerOwner = k
			sums := map[[2]float64]float64{{}: 1}
			for range k {
				next := map[[2]float64]float64{}
				for x, weight := range sums {
					for _, a := range c.list {
						y := image(c.spec.Strategy, a.hits)
						next[[2]float64{x[0] + y[0], x[1] + y[1]}] += weight * a.prob
					}
				}
				sums = next
			}
			var means [][]float64
			var weights []float64
			for x, weight := range sums {
				means, weights = append(means, x[:]), append(weights, weight)
			}
			for _, d := range montecarlo.Directions {
				spec, epsilon := c.spec, .4
				if d == montecarlo.Q { // else there is no shift
					spec.NoiseMultiplier, epsilon = 1.6*spec.NoiseMultiplier, 1.5
				}
				want, qp := twoSteps(means, weights, spec.NoiseMultiplier, epsilon)
				if d == montecarlo.Q {
					want = qp
				}
				proposal, err := NewProposal(t.Context(), Config{spec, epsilon, d})
				if errors.Is(err, ErrNotTilted) {
					continue
				} else if err != nil {
					t.Fatalf("%v: %v", c, err)
				}
				if proposal.Divergence < want*(1-1e-4) {
					t.Errorf("%v %s: %v is proven, the divergence is %v", c, d, proposal.Divergence, want)
				}
				if proposal.Method == Zero || proposal.Method == Plain {
					continue
				}
				tilted[string(d)]++
				v, err := NewVerifier(proposal, stream.PublicKey("test", []byte(c.String())))
				if err != nil {
					t.Fatalf("%v %s: %v", c, d, err)
				}
				if err := meanError(v, samples, want); err != nil && (proposal.Draws == 0 || !above(v, samples, want)) {
					t.Errorf("%v %s: %v", c, d, err)
				}
			}
		}
	}
	for _, d := range montecarlo.Directions {
		if tilted[string(d)] < 3 {
			t.Errorf("%s: only %d cases had a proposal", d, tilted[string(d)])
		}
	}
}
