package verification

import (
	"context"
	"fmt"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
)

// CheckProofs computes every proof of a protocol again: the bounds of its trials without
// samples, and the cost of truncation. The bounds of sampled trials are computed again by
// NewWorker. Together with the sums of a ledger this is all that a certificate rests on. When
// ctx ends, it ends with ctx's error before the next bound.
func CheckProofs(ctx context.Context, p *accounting.Protocol) error {
	for c, candidate := range p.Candidates {
		for i, t := range candidate.Trials {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := checkTruncation(p, c, i); err != nil {
				return err
			}
			if t.Samples > 0 {
				continue
			}
			proven, err := prove(ctx, t.Pair(p.Run), candidate.NoiseMultiplier, p.Points[t.Point].Epsilon, t)
			if err != nil {
				return err
			}
			if !(proven <= t.Bound*(1+1e-9)) { // NaN proves nothing
				return fmt.Errorf("%w: trial %d of candidate %d claims a bound of %g, and %g is proven", accounting.ErrNotVerified, i, c, t.Bound, proven)
			}
		}
	}
	return nil
}

// prove returns an upper bound of the divergence of a trial.
func prove(ctx context.Context, run accounting.Run, noiseMultiplier, epsilon float64, t accounting.Trial) (float64, error) {
	switch t.Method {
	case accounting.ClosedForm, accounting.PLD:
		pq, qp, err := run.Prove(noiseMultiplier, epsilon)
		if t.Direction == montecarlo.Q {
			return qp.Upper, err
		}
		return pq.Upper, err
	case accounting.RenyiBound:
		plan, err := tilt.NewProposal(ctx, tilt.Config{Spec: run.Loss(noiseMultiplier), Epsilon: epsilon, Direction: t.Direction})
		return plan.Divergence, err
	}
	return 0, fmt.Errorf("%w: method %q is no proof", accounting.ErrNotVerified, t.Method)
}
