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
	return [2]proof{{method, pq}, {method, qp}}, err
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
	run, least := t.Pair(p.Run), math.Inf(1)
	if t.Method != accounting.RenyiBound {
		both, err := compositions(run, sigma, epsilon)
		if err != nil && !errors.Is(err, accounting.ErrNoProof) {
			return err
		}
		if of := both[slices.Index(montecarlo.Directions[:], t.Direction)]; err == nil && of.method == t.Method {
			least = of.bound
		}
	} else {
		config := tilt.Config{Spec: run.Loss(sigma), Epsilon: epsilon, Direction: t.Direction}
		for _, work := range []float64{leastTables, mostTables} { // most proofs are by small tables
			of, err := newDivergence(ctx, config, work)
			if err != nil {
				return err
			}
			if of.proof.bound < 1 {
				least = min(least, of.proof.bound)
			}
			if least <= t.Bound*(1+1e-9) {
				break
			}
		}
	}
	if least <= t.Bound*(1+1e-9) {
		return nil
	}
	return fmt.Errorf(
		"%w: a bound of %g by method %q is claimed, and %g is proven",
		accounting.ErrNotVerified,
		t.Bound,
		t.Method,
		least,
	)
}
