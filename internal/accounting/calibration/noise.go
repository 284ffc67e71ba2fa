package calibration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"minsep/internal/accounting"
	"minsep/internal/accounting/pld"
	"minsep/internal/montecarlo"
)

// Claim is (Epsilon, Delta)-differential privacy of a run without a maximum batch size.
type Claim struct {
	Run     accounting.Run
	Epsilon float64 // at least 0
	Delta   float64 // above 0 and below 1
	Seed    uint64  // of the samples of estimates
}

// Noise is the noise multiplier that a claim needs.
type Noise struct {
	Multiplier float64 `json:"noise_multiplier"` // σ, above 0
	StdErr     float64 `json:"std_err"`          // of Multiplier, at least 0; 0 if it is proven
	Proven     bool    `json:"proven"`           // without samples: Multiplier is enough, and at most 0.05 % above the least that a grid of losses proves, which adds about 1e-3 to ε, or 2.5e-4 of an ε above 4

	// OneDirection says that only H(P,Q) was looked at: the noise multiplier is at least Multiplier.
	OneDirection bool `json:"one_direction,omitempty"`

	floor float64 // the noise multiplier that H(Q,P) needs, if that was looked for
	found *search // the search for H(P,Q); nil if it is proven
}

// sampleSteps is the work of a sample, in steps of one of one example; an owner of k examples takes
// about three times as long as k of them.
func (c Claim) sampleSteps() float64 {
	steps := float64(c.Run.Strategy.Steps)
	if k := c.Run.MaxExamplesPerOwner; k > 1 {
		steps *= 3 * float64(k)
	}
	return steps
}

// Noise is the noise multiplier of the claim: proven if that takes no samples, and else estimated by
// H(P,Q), to a standard error of ln σ of Tolerance. The search begins at start, or without
// amplification for 0. Above the noise multiplier behind, which may be infinite, it is enough to
// know it roughly. The error is an accounting.RefusedError if no analysis is known.
func (c Claim) Noise(ctx context.Context, start, behind float64) (Noise, error) {
	method, err := c.Run.Method()
	if err != nil {
		return Noise{}, err
	}
	if start == 0 {
		start = slices.Max(c.Run.ColumnNorms())
	}
	if WithoutSamples(method) {
		return c.Proven(start, Narrow)
	}
	s, err := c.newSearch(montecarlo.P)
	if err != nil {
		return Noise{}, err
	}
	s.behind, s.draws = behind, fewest
	return s.noise(ctx, start, Tolerance)
}

// Both looks at H(Q,P) at the noise multiplier, to the standard error Tolerance: if H(Q,P) may be
// above δ, the noise multiplier becomes the larger of both directions.
func (n Noise) Both(ctx context.Context) (Noise, error) {
	if !n.OneDirection {
		return n, nil
	}
	s, err := n.found.newSearch(montecarlo.Q)
	if err != nil {
		return n, err
	}
	s.draws = n.found.draws
	s.limit = func(*divergence) float64 { return s.mostSamples(false) }
	return s.both(ctx, n, Tolerance)
}

// Refine estimates n to the standard error Tolerance of ln σ if its own is larger, and leaves it as it
// is if that takes more samples than times as many as an estimate in a plan may have.
func (n Noise) Refine(ctx context.Context, times float64) (Noise, error) {
	if n.Proven || n.StdErr <= Tolerance*n.Multiplier {
		return n, nil
	}
	s := n.found
	s.behind, s.spent = math.Inf(1), func() bool { return false }
	s.limit = func(*divergence) float64 { return times * s.mostSamples(false) }
	finer, err := s.noise(ctx, n.Multiplier, Tolerance)
	if errors.Is(err, ErrTooExpensive) {
		return n, nil
	}
	if err != nil {
		return n, err
	}
	// The other direction was below δ at nearly the same noise multiplier.
	finer.OneDirection, finer.floor = n.OneDirection, n.floor
	finer.Multiplier = max(finer.Multiplier, n.floor)
	return finer, nil
}

// Narrow is the width of ln σ to which the noise multiplier of a composition is looked for. The grid
// of its losses may add half of that to ε, over all steps, or to coarseFrom if ε is smaller: far more
// than in a certificate, but an upper bound too.
const Narrow, coarseFrom = 5e-4, 4

// Proven is the noise multiplier of a run of independent events without samples: in closed form or
// by privacy loss distributions on a coarse grid. ln σ is at most width above the least. The search
// begins at start.
func (c Claim) Proven(start, width float64) (Noise, error) {
	if c.Run.Sampler.Fixed != nil {
		sigma, err := c.Run.Calibrate(context.Background(), c.Epsilon, c.Delta)
		return Noise{Multiplier: sigma, Proven: true}, err
	}
	search := pld.Search{
		Least: pld.LeastNoiseMultiplier(slices.Max(c.Run.ColumnNorms()), c.Run.MaxExamplesPerOwner),
		Start: start,
		Step:  Farthest / 2,
		Width: width,
	}
	sigma, err := search.Calibrate(c.Delta, func(sigma float64) (float64, error) {
		composition, err := c.compose(sigma)
		if err != nil {
			return 0, err
		}
		return composition.Delta(c.Epsilon)
	})
	if errors.Is(err, pld.ErrNotReached) {
		err = fmt.Errorf("%w: no noise multiplier found", ErrNoEstimate)
	}
	return Noise{Multiplier: sigma, Proven: true}, err
}

// compose composes the events of a run of independent events. Losses are rounded so that the errors of
// all steps add up to about Narrow/2. A step's loss spreads over about p/σ, or ln 1/p of the tail that
// matters; the grid is a small part of it.
func (c Claim) compose(sigma float64) (*pld.Composition, error) {
	events, err := c.Run.Events(sigma)
	if err != nil {
		return nil, err
	}
	options := pld.Options{}
	if each, ok := events[0].Event.(pld.Release); ok {
		steps := 0
		for _, e := range events {
			steps += e.Count
		}
		grid := math.Sqrt(Narrow / 2 * max(c.Epsilon, coarseFrom) / float64(steps))
		spread := 0.1*max(each.Prob, 0.02)*each.Sensitivity/sigma + 1e-4
		options = pld.Options{Grid: min(grid, 1, spread), Tail: 1e-15}
	}
	return pld.Compose(events, options)
}
