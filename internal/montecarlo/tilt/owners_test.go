package tilt

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"minsep/internal/montecarlo"
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

// TestProposalsOfOwnersBoundTheDivergence: a bound that is proven without samples is not below the
// divergence, and means of values are little above it, for owners of two, three and four examples
// in both directions.
func TestProposalsOfOwnersBoundTheDivergence(t *testing.T) {
	const samples = 3000
	var cases []ownerCase
	for _, e := range []epochCase{{toeplitz(2, 1, .5), 2, 2, 1.3}, {toeplitz(2, 1), 1, 1, 2.1}, {toeplitz(2, 1), 1, 2, 1.4}, {toeplitz(2, 1, .5), 2, 3, 1.3}} {
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
			for _, at := range []struct {
				d              montecarlo.Direction
				noise, epsilon float64
			}{{montecarlo.P, 1, .4}, {montecarlo.Q, 1.6, 1.5}, {montecarlo.Q, 1, .4}} { // the last has no tangent
				spec, d, epsilon := c.spec, at.d, at.epsilon
				spec.NoiseMultiplier *= at.noise
				want, qp := twoSteps(means, weights, spec.NoiseMultiplier, epsilon)
				if d == montecarlo.Q {
					want = qp
				}
				proposal, err := NewProposal(t.Context(), Config{spec, epsilon, d}, math.Inf(1))
				if errors.Is(err, ErrNotTilted) {
					continue
				} else if err != nil {
					t.Fatalf("%v: %v", c, err)
				}
				if proposal.Divergence < want*(1-1e-4) {
					t.Errorf("%v %s: %v is proven, the divergence is %v", c, d, proposal.Divergence, want)
				}
				if proposal.Method == Zero {
					continue
				}
				tilted[string(d)+proposal.Method]++
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
	for _, method := range []string{"P" + Tilted, "Q" + Tangent, "Q" + Plain} {
		if tilted[method] < 3 {
			t.Errorf("only %d cases had a proposal %s", tilted[method], method)
		}
	}
}
