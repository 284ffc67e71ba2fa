package verification

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/search"
)

// A maximum batch size is accounted for in one of two ways: by the pair of truncated batches
// themselves (F3.6), or by the pair without truncation and a cost in δ (F3.11). The problem's
// byCost chooses the second.

// pair returns the run that defines the sampled or bounded pair.
func (p Problem) pair() accounting.Run {
	if p.byCost {
		return p.Run.Untruncated()
	}
	return p.Run
}

// cost is the addition of truncation to a divergence; nil where the run's own pair is used.
func (p Problem) cost(noiseMultiplier float64, d montecarlo.Direction) (*accounting.Truncated, error) {
	if !p.byCost {
		return nil, nil
	}
	cost, err := search.TruncationCost(p.Run, noiseMultiplier, p.Epsilon, d)
	return &cost, err
}

// mostCost is the cost of the dearer direction.
func (p Problem) mostCost(noiseMultiplier float64) (float64, error) {
	if !p.byCost {
		return 0, nil
	}
	return search.MostTruncationCost(p.Run, noiseMultiplier, p.Epsilon)
}

// Suggest returns the smallest maximum batch size that costs at most accounting.SuggestedShare of
// delta at a noise multiplier, or at any for 0; 0 where none is known.
func Suggest(run accounting.Run, noiseMultiplier, epsilon, delta float64) (int, error) {
	m, err := search.Moments(run, noiseMultiplier)
	if err != nil {
		return 0, err
	}
	return run.SuggestMaxBatchSize(epsilon, delta, m)
}

// MostTruncation is the part of δ that truncation may cost at most.
const MostTruncation = 0.5

// truncated plans for a run with a maximum batch size. Where both ways are open, the one with
// less noise is taken: the estimates for the other certify nothing.
func (p Problem) truncated(ctx context.Context) (*Plan, error) {
	byCost, own := p, p
	byCost.byCost, own.byCost = true, false
	plan, err := byCost.costed(ctx)
	if ctx.Err() != nil || !p.Run.TruncatedPair() || err == nil && plan.share(p.Delta) <= cheap {
		return plan, err
	}
	other, otherErr := own.after(plan).plan(ctx)
	var tooDear *accounting.TruncationError
	switch {
	case ctx.Err() != nil:
		return other, otherErr
	case errors.As(err, &tooDear) && otherErr != nil:
		return other, errors.Join(err, otherErr)
	case err != nil && otherErr == nil, err == nil && otherErr == nil && other.noiseMultiplier() < plan.noiseMultiplier():
		return other, nil
	case err == nil && plan.again != nil && other != nil:
		// The second plan took its part of the budget.
		if err = plan.again(other.spent.samples - plan.spent.samples); err != nil && otherErr == nil {
			return other, nil
		}
		plan.spent = other.spent
	}
	return plan, err
}

// costed plans by the cost in δ, if that is not too large.
func (p Problem) costed(ctx context.Context) (*Plan, error) {
	method, err := p.Run.Method()
	if err != nil {
		return nil, err
	}
	most, err := p.mostNoise()
	if err != nil {
		return nil, err
	}
	if err := p.tooDear(ctx, most); err != nil {
		return &Plan{Method: method}, err
	}
	plan, err := p.plan(ctx)
	if err == nil && plan.share(p.Delta) > MostTruncation {
		err = p.tooDear(ctx, plan.noiseMultiplier())
	}
	return plan, err
}

// mostNoise is the noise multiplier that is asked for or, else, the one that needs no
// amplification. More noise is not looked at.
func (p Problem) mostNoise() (float64, error) {
	if p.NoiseMultiplier != 0 {
		return p.NoiseMultiplier, nil
	}
	return accounting.GaussianNoiseMultiplier(p.Epsilon, p.Delta, slices.Max(p.Run.ColumnNorms())*math.Sqrt(float64(p.steps())))
}

// tooDear says that truncation costs too much at a noise multiplier; nil if it does not.
func (p Problem) tooDear(ctx context.Context, noiseMultiplier float64) error {
	e := &accounting.TruncationError{MaxBatchSize: p.Run.Sampler.Truncation.MaxBatchSize, Delta: p.Delta}
	var err error
	if e.Cost, err = search.MostTruncationCost(p.Run, noiseMultiplier, p.Epsilon); err != nil || e.Cost <= MostTruncation*p.Delta {
		return err
	}
	if e.Suggested, err = p.suggest(ctx); err != nil {
		return err
	}
	return e
}

// suggest returns a maximum batch size for the noise multiplier that is asked for or, else, one
// that is a little too large for the run without truncation.
func (p Problem) suggest(ctx context.Context) (int, error) {
	noise := p.NoiseMultiplier
	if noise == 0 {
		untruncated := p
		untruncated.Run = p.Run.Untruncated()
		start, err := accounting.GaussianNoiseMultiplier(p.Epsilon, p.Delta, slices.Max(p.Run.ColumnNorms()))
		if err != nil {
			return 0, err
		}
		if provable, err := untruncated.provable(ctx, start, nil); err == nil {
			noise = provable.NoiseMultiplier
		} else if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
	return Suggest(p.Run, noise, p.Epsilon, p.Delta)
}

// noiseMultiplier is the noise multiplier of the main candidate.
func (out *Plan) noiseMultiplier() float64 { return out.Protocol.Candidates[0].NoiseMultiplier }

// share is the largest part of delta that truncation takes from a trial. A trial without samples
// and with a total of at most MostTruncation times delta, as where the divergence is 0, does not
// count.
func (out *Plan) share(delta float64) (share float64) {
	for _, c := range out.Protocol.Candidates {
		for _, t := range c.Trials {
			if t.Truncation != nil && (t.Samples > 0 || t.Bound+t.Truncation.Cost > MostTruncation*delta) {
				share = max(share, t.Truncation.Cost/delta)
			}
		}
	}
	return share
}

// checkTruncation computes the cost of truncation of a trial again.
func checkTruncation(p *accounting.Protocol, candidate, trial int) error {
	c := p.Candidates[candidate]
	t := c.Trials[trial]
	if t.Truncation == nil {
		return nil
	}
	again, err := search.TruncationCost(p.Run, c.NoiseMultiplier, p.Points[t.Point].Epsilon, t.Direction)
	if err != nil {
		return err
	}
	if !(again.Cost <= t.Truncation.Cost*(1+1e-9)) {
		return fmt.Errorf("%w: trial %d of candidate %d claims a cost of truncation of %g, and %g is proven", accounting.ErrNotVerified, trial, candidate, t.Truncation.Cost, again.Cost)
	}
	if again.Rule != t.Truncation.Rule {
		return fmt.Errorf("%w: trial %d of candidate %d claims a cost of truncation by the rule %q, it is %q", accounting.ErrNotVerified, trial, candidate, t.Truncation.Rule, again.Rule)
	}
	return nil
}
