package verification

import (
	"context"
	"errors"
	"fmt"
	"math"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
	"minsep/accounting/pld"
)

// ErrNotPrivate says that a given noise multiplier was proven to be too small, or could not be
// proven to be enough by a method that knows no samples. It wraps accounting.ErrNotVerified.
var ErrNotPrivate = fmt.Errorf("%w by the bound", accounting.ErrNotVerified)

// ErrEstimatedAbove says that δ of a given noise multiplier is estimated to be above the claim's by
// more than chance explains. It wraps accounting.ErrNotVerified.
var ErrEstimatedAbove = fmt.Errorf("%w by the estimate", accounting.ErrNotVerified)

// leastComposed is the least δ for which a noise multiplier is sought by compositions: well above
// the tails that [pld.Options] cut off.
const leastComposed = 1e-18

// leastSampled is the least δ for which a noise multiplier is sought where samples decide: below it
// neither they nor bounds by moments prove anything, and the search for bounds takes minutes.
const leastSampled = 1e-40

// proven finds the smallest noise multiplier at which δ is proven without samples.
func (p Problem) proven(ctx context.Context, out *Plan) error {
	sigma := p.NoiseMultiplier
	if sigma == 0 {
		var err error
		if sigma, err = p.leastProven(ctx); err != nil {
			return err
		}
	}
	out.Estimate = sigma
	trials, err := p.provenTrials(sigma, out.Method)
	if err != nil {
		return err
	}
	most := 0.0
	for _, t := range trials {
		bound := t.Bound
		if t.Truncation != nil {
			bound += t.Truncation.Cost
		}
		most = max(most, bound)
	}
	if most > p.Delta {
		return fmt.Errorf("%w: at noise multiplier %g the bound of delta at epsilon %g is %.6g, above %g", ErrNotPrivate, sigma, p.Epsilon, most, p.Delta)
	}
	out.Protocol = p.protocol(accounting.Thresholds{Verify: p.Delta})
	out.Protocol.Candidates = []accounting.Candidate{{NoiseMultiplier: sigma, Trials: trials}}
	return nil
}

// leastProven is the smallest noise multiplier that is proven for the δ that truncation leaves.
// Truncation costs less at more noise: the δ left at one noise multiplier is left at every
// larger one.
func (p Problem) leastProven(ctx context.Context) (sigma float64, err error) {
	for cost := 0.0; ; {
		least, err := p.pair().Calibrate(ctx, p.Epsilon, p.Delta-cost)
		if errors.Is(err, pld.ErrNotReached) {
			err = fmt.Errorf("%w: no noise multiplier up to 1e6 is proven to give (%g, %g)-differential privacy", ErrNotPrivate, p.Epsilon, p.Delta)
		}
		if err != nil {
			return 0, err
		}
		next, err := p.mostCost(least.Upper)
		switch {
		case err != nil:
			return 0, err
		case next <= cost:
			return least.Upper, nil
		case next > MostTruncation*p.Delta:
			return 0, p.tooDear(ctx, least.Upper)
		}
		cost = next
	}
}

// provenTrials are the trials of a noise multiplier at which nothing is sampled.
func (p Problem) provenTrials(sigma float64, method accounting.Method) (trials []accounting.Trial, err error) {
	pq, qp, err := p.pair().Prove(sigma, p.Epsilon)
	if err != nil {
		return nil, err
	}
	bounds := [2]float64{pq.Upper, qp.Upper}
	for i, d := range montecarlo.Directions {
		cost, err := p.cost(sigma, d)
		if err != nil {
			return nil, err
		}
		trials = append(trials, accounting.Trial{Direction: d, Method: method, Bound: bounds[i], Truncation: cost})
	}
	return trials, nil
}

// provable finds a noise multiplier that needs no samples, as long as more, if not nil, says to go
// on, see tilt.SmallestProvableBelow. When ctx ends, it ends with ctx's error.
func (p Problem) provable(ctx context.Context, start float64, more func(proven, ratio float64) bool) (tilt.Provable, error) {
	least, cost := tilt.Provable{NoiseMultiplier: start}, 0.0
	for range 2 { // the cost of truncation depends on the noise multiplier
		next, err := p.mostCost(least.NoiseMultiplier)
		if err != nil {
			return least, err
		}
		if cost > 0 && next <= cost+accounting.SuggestedShare*p.Delta { // little more than before
			break
		}
		cost = next
		if left := mostAccepted*p.Delta - cost; left <= 0 {
			return least, tilt.ErrNotProvable
		} else if least, err = p.provableAt(ctx, start, left, more); err != nil || cost == 0 {
			return least, err
		}
	}
	return least, nil
}

// provableAt takes the least of the noise multipliers that are proven by proposals, and by the
// closed form or the composition of the pair.
func (p Problem) provableAt(ctx context.Context, start, delta float64, more func(proven, ratio float64) bool) (tilt.Provable, error) {
	if p.simulated != nil {
		return p.simulated.provable(delta, more)
	}
	least, err := p.pair().Calibrate(ctx, p.Epsilon, delta)
	unreached := errors.Is(err, pld.ErrNotReached) || errors.Is(err, accounting.ErrNoProof)
	if err != nil && !unreached {
		return tilt.Provable{}, err
	}
	if p.pair().Majorized() { // and nothing is looked for by proposals
		if unreached {
			return tilt.Provable{}, fmt.Errorf("%w: %w", tilt.ErrNotProvable, err)
		}
		return tilt.Provable{NoiseMultiplier: roundUp(least.Upper)}, nil
	}
	most := least.Upper
	if unreached {
		most = math.Inf(1)
	}
	found, err := tilt.SmallestProvableBelow(ctx, p.pair().Loss(min(start, most)), most, p.Epsilon, delta, func(proven, ratio float64) bool {
		return ctx.Err() == nil && (more == nil || more(proven, ratio))
	})
	switch none := errors.Is(err, tilt.ErrNotTilted) || errors.Is(err, tilt.ErrNotProvable); {
	case ctx.Err() != nil:
		return tilt.Provable{}, ctx.Err()
	case none && !math.IsInf(most, 1), err == nil && most < found.NoiseMultiplier:
		return tilt.Provable{NoiseMultiplier: roundUp(most), Tried: found.Tried}, nil
	}
	return found, err
}

// bounds returns the bounds of a noise multiplier that needs no samples, where they were
// computed.
func (p Problem) bounds(provable tilt.Provable) (known NoiseEstimate, err error) {
	known.NoiseMultiplier = provable.NoiseMultiplier
	for i, d := range montecarlo.Directions {
		known.Estimates[i] = Estimate{Direction: d, Bound: provable.Proposals[i].Bound}
		if known.NoiseMultiplier == 0 {
			continue
		}
		cost, err := p.cost(known.NoiseMultiplier, d)
		if err != nil {
			return known, err
		}
		if cost != nil {
			known.Estimates[i].Truncation = cost.Cost
		}
	}
	return known, nil
}

// provenOnly makes the protocol of a budget that is not enough for estimates: of the noise
// multiplier that needs no samples, or of a smaller one where the budget has time to look for it.
func (p Problem) provenOnly(ctx context.Context, e *estimator, out *Plan, provable tilt.Provable) error {
	e.report(Phase{Text: PhaseTables})
	if finer, err := p.provable(ctx, provable.NoiseMultiplier, e.timeForFineProofs); err == nil && finer.NoiseMultiplier < provable.NoiseMultiplier {
		provable = finer
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	divergences, err := p.divergences(ctx, e, []float64{provable.NoiseMultiplier}, provable)
	if err == nil {
		out.Protocol, err = p.fix(divergences, out.Method, nil)
	}
	return err
}
