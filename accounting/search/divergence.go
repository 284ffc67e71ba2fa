package search

import (
	"context"
	"math"

	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
)

// Divergence estimates the larger of both divergences at a noise multiplier.
func (c Claim) Divergence(ctx context.Context, sigma float64) (most float64, err error) {
	for _, direction := range montecarlo.Directions {
		spec := c.Run.Loss(sigma)
		proposal, tables, err := tilt.NewProposalWithin(ctx, tilt.Config{Spec: spec, Epsilon: c.Epsilon, Direction: direction}, workOf(coarseLevel))
		if err != nil {
			return 0, err
		}
		s := searcher{Claim: c, direction: direction}
		verifier, err := tables.NewVerifier(proposal, s.key(proposal))
		if err != nil {
			return 0, err
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		values := make([]float64, DearSamples)
		verifier.Values(values, 0)
		mean, square := 0.0, 0.0
		for _, y := range values {
			y = max(0, y-proposal.Slack*proposal.Bound)
			mean, square = mean+y/DearSamples, square+y*y/DearSamples
		}
		most = max(most, mean+2*math.Sqrt(max(0, square-mean*mean)/DearSamples))
	}
	return most, nil
}
