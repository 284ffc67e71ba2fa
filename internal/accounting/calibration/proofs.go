package calibration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"minsep/internal/accounting"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/tilt"
)

// ErrNotPrivate says that a given noise multiplier was proven to be too small, or could not be
// proven to be enough by a method that knows no samples. It wraps accounting.ErrNotVerified.
var ErrNotPrivate = fmt.Errorf("%w by the bound", accounting.ErrNotVerified)

// proof is a proven upper bound of a divergence, with its method.
type proof struct {
	method accounting.Method
	bound  float64 // at least 0
}

// provers prove bounds of a divergence without samples, by rising cost. The error is
// accounting.ErrNoProof for a run that a prover knows no bound of.
var provers = []func(ctx context.Context, run accounting.Run, sigma, epsilon float64, d montecarlo.Direction) (proof, error){
	func(_ context.Context, run accounting.Run, sigma, epsilon float64, d montecarlo.Direction) (proof, error) {
		both, err := compositions(run, sigma, epsilon)
		return both[direction(d)], err
	},
	func(ctx context.Context, run accounting.Run, sigma, epsilon float64, d montecarlo.Direction) (proof, error) {
		return moments(ctx, run, sigma, epsilon, d, leastTables)
	},
	func(ctx context.Context, run accounting.Run, sigma, epsilon float64, d montecarlo.Direction) (proof, error) {
		return moments(ctx, run, sigma, epsilon, d, mostTables)
	},
}

// direction is the index of a direction.
func direction(d montecarlo.Direction) int { return slices.Index(montecarlo.Directions[:], d) }

// compositions are bounds in closed form, by privacy loss distributions, or by the Gaussian
// mechanism of the largest participation.
func compositions(run accounting.Run, sigma, epsilon float64) (both [2]proof, err error) {
	method, err := run.Method()
	if err != nil {
		return both, err
	}
	if !WithoutSamples(method) {
		method = accounting.ClosedForm
		if run.Majorized() {
			method = accounting.PLD
		}
	}
	pq, qp, err := run.Prove(sigma, epsilon)
	return [2]proof{{method, pq.Upper}, {method, qp.Upper}}, err
}

// moments is the bound of a tilted proposal with tables of at most work.
func moments(
	ctx context.Context,
	run accounting.Run,
	sigma, epsilon float64,
	d montecarlo.Direction,
	work float64,
) (proof, error) {
	of, err := newDivergence(ctx, tilt.Config{Spec: run.Loss(sigma), Epsilon: epsilon, Direction: d}, work)
	if err == nil && of.proof.bound >= 1 {
		err = accounting.ErrNoProof
	}
	return of.proof, err
}

// WithoutSamples says whether a method proves noise multipliers without samples, in closed form or
// by privacy loss distributions.
func WithoutSamples(method accounting.Method) bool {
	return method == accounting.ClosedForm || method == accounting.PLD
}

// CheckProofs computes every proof of a protocol again: the bounds of its trials without samples,
// and the cost of truncation. The bounds of sampled trials are computed again by NewWorker. Together
// with the sums of a ledger this is all that a certificate rests on. When ctx ends, it ends with
// ctx's error before the next bound.
func CheckProofs(ctx context.Context, p *accounting.Protocol) error {
	for c, candidate := range p.Candidates {
		for i, t := range candidate.Trials {
			err := checkTrial(ctx, p, candidate.NoiseMultiplier, t)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("trial %d of candidate %d: %w", i, c, err)
			}
		}
	}
	return nil
}

// checkTrial computes the proofs of a trial again.
func checkTrial(ctx context.Context, p *accounting.Protocol, sigma float64, t accounting.Trial) error {
	epsilon := p.Points[t.Point].Epsilon
	if t.Truncation != nil {
		again, err := p.Run.TruncationCost(t.Direction, epsilon)
		if err != nil {
			return err
		}
		if !(again.Cost <= t.Truncation.Cost*(1+1e-9)) || again.Rule != t.Truncation.Rule {
			return fmt.Errorf(
				"%w: a cost of truncation of %g by the rule %q is claimed, and %g by %q is proven",
				accounting.ErrNotVerified,
				t.Truncation.Cost,
				t.Truncation.Rule,
				again.Cost,
				again.Rule,
			)
		}
	}
	if t.Samples > 0 {
		return nil
	}
	least := math.Inf(1)
	for _, prove := range provers {
		found, err := prove(ctx, t.Pair(p.Run), sigma, epsilon, t.Direction)
		if err != nil && !errors.Is(err, accounting.ErrNoProof) {
			return err
		}
		if err == nil && found.method == t.Method {
			least = min(least, found.bound)
		}
		if least <= t.Bound*(1+1e-9) {
			return nil
		}
	}
	return fmt.Errorf(
		"%w: a bound of %g by method %q is claimed, and %g is proven",
		accounting.ErrNotVerified,
		t.Bound,
		t.Method,
		least,
	)
}
