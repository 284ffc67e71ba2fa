package calibration

import (
	"cmp"
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
	Draws   int     // of the likelihood ratio of an owner's examples, if it is drawn; 0 for as many as in a certificate
}

// Guess is the beginning of a search, by a similar claim.
type Guess struct {
	Multiplier float64 // σ, above 0
	Slope      Slope
	Behind     float64 // σ above which it is enough to know it roughly; infinite if there is none
}

// Noise is the noise multiplier that a claim needs.
type Noise struct {
	Multiplier float64 `json:"noise_multiplier"` // σ, above 0
	StdErr     float64 `json:"std_err"`          // of Multiplier, at least 0; 0 if it is proven
	Proven     bool    `json:"proven"`           // without samples: Multiplier is enough, and at most 0.05 % above the least that a grid of losses proves, which adds about 1e-3 to ε, or 2.5e-4 of an ε above 4

	// OneDirection says that only H(P,Q) was looked at: the noise multiplier is at least Multiplier.
	OneDirection bool `json:"one_direction,omitempty"`

	Samples uint64  `json:"samples,omitempty"` // that were drawn; 0 if it is proven
	Effort  float64 `json:"effort,omitempty"`  // M over the divergence at Multiplier, above 0: a verification draws a multiple of it; 0 if it is proven

	floor float64 // the noise multiplier that H(Q,P) needs, if that was looked for
	found *search // the search for H(P,Q); nil if it is proven
	slope Slope   // that it found
	norm  float64 // largest column norm of C, if Find found it
}

// sampleSteps is the work of a sample, in steps of one of few bands.
func (c Claim) sampleSteps() float64 {
	const wideBands = 256 // above which the time of a sample is proportional to the bands
	steps := float64(c.Run.Strategy.Steps) * max(1, float64(c.Run.Strategy.Bands())/wideBands)
	if k := c.Run.MaxExamplesPerOwner; k > 1 {
		steps *= ownersFactor * float64(k)
	}
	return steps
}

// mostSamples is the largest number of samples of an estimate in a plan: a fraction of them if they are
// enough for a rough estimate.
func (c Claim) mostSamples(conclusive bool) float64 {
	most := mostWork / c.sampleSteps()
	if conclusive {
		most *= roughShare
	}
	return max(2*Few, most)
}

// steps is about the work of the samples and tables of a search, in steps of samples. It depends on no
// clock.
func (s *search) steps() float64 {
	return float64(s.drawn)*s.sampleSteps() + s.states*stepsPerSecond/statesPerSecond
}

// Noise is the noise multiplier of the claim: proven if that takes no samples, and else estimated by
// H(P,Q), to a standard error of ln σ of Tolerance. The search begins at a guess. The error is an
// accounting.RefusedError if no analysis is known.
func (c Claim) Noise(ctx context.Context, from Guess) (Noise, error) {
	method, err := c.Run.Method()
	switch {
	case err != nil:
		return Noise{}, err
	case WithoutSamples(method):
		return c.Proven(from.Multiplier, 0, Narrow)
	}
	c.Draws = coarseDraws
	s, err := c.newSearch(montecarlo.P, from.Slope)
	if err != nil {
		return Noise{}, err
	}
	s.behind = from.Behind
	return s.noise(ctx, from.Multiplier, Tolerance)
}

// Find is the noise multiplier at which a run without a maximum batch size is (epsilon,
// delta)-differentially private, see [Claim.Noise]. The search begins near the noise multiplier of a
// similar run, if near is not nil.
func Find(
	ctx context.Context,
	run accounting.Run,
	epsilon, delta float64,
	near *Noise,
	behind float64,
) (Noise, error) {
	norm := slices.Max(run.ColumnNorms())
	from := Guess{norm, UnknownSlope, behind}
	if near != nil {
		from.Multiplier *= near.Multiplier / near.norm
		if !near.Proven {
			from.Slope = near.slope.Similar()
		}
	}
	n, err := Claim{Run: run, Epsilon: epsilon, Delta: delta}.Noise(ctx, from)
	n.norm = norm
	return n, err
}

// Both looks at H(Q,P) at the noise multiplier of n, to the standard error Tolerance: if H(Q,P) may
// be above δ, the noise multiplier becomes the larger of both directions.
func (c Claim) Both(ctx context.Context, n Noise) (Noise, error) {
	if !n.OneDirection {
		return n, nil
	}
	s, err := c.newSearch(montecarlo.Q, UnknownSlope)
	if err != nil {
		return n, err
	}
	s.samples = func(*estimate) float64 { return c.mostSamples(false) }
	return s.both(ctx, n, Tolerance)
}

// Refine estimates n to a smaller standard error of ln σ, and leaves it as it is if that takes more
// samples than times as many as an estimate in a plan may have.
func (n Noise) Refine(ctx context.Context, tolerance, times float64) (Noise, error) {
	if n.Proven || n.StdErr <= tolerance*n.Multiplier {
		return n, nil
	}
	s := n.found
	s.behind, s.spent = math.Inf(1), func() bool { return false }
	s.samples = func(*estimate) float64 { return times * s.mostSamples(false) }
	finer, err := s.noise(ctx, n.Multiplier, tolerance)
	if errors.Is(err, ErrTooExpensive) {
		return n, nil
	}
	if err != nil {
		return n, err
	}
	// The other direction was below δ at nearly the same noise multiplier.
	finer.OneDirection, finer.floor, finer.norm = n.OneDirection, n.floor, n.norm
	finer.Multiplier = max(finer.Multiplier, n.floor)
	return finer, nil
}

// Slope is the slope that the search for n found.
func (n Noise) Slope() Slope { return n.slope }

// Narrow is the width of ln σ to which the noise multiplier of a composition is looked for. The grid
// of its losses may add half of that to ε, over all steps, or to coarseFrom if ε is smaller: far more
// than in a certificate, but an upper bound too.
const Narrow, coarseFrom = 5e-4, 4

// Proven is the noise multiplier of a run of independent events without samples: in closed form or
// by privacy loss distributions on a coarse grid. ln σ is at most width above the least. The search
// begins at start, with a first step in ln σ of step, or of half of Farthest for 0.
func (c Claim) Proven(start, step, width float64) (Noise, error) {
	if c.Run.Sampler.Fixed != nil {
		sigma, err := c.Run.Calibrate(context.Background(), c.Epsilon, c.Delta)
		return Noise{Multiplier: sigma, Proven: true}, err
	}
	search := pld.Search{
		Least: pld.LeastNoiseMultiplier(slices.Max(c.Run.ColumnNorms()), c.Run.MaxExamplesPerOwner),
		Start: start,
		Step:  cmp.Or(step, Farthest/2),
		Width: width,
	}
	sigma, err := search.Calibrate(c.Delta, func(sigma float64) (float64, error) {
		composition, err := c.Compose(sigma)
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

// Compose composes the events of a run of independent events.
func (c Claim) Compose(sigma float64) (*pld.Composition, error) {
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
		options = c.gridOf(each.Prob, sigma/each.Sensitivity, steps)
	}
	return pld.Compose(events, options)
}

// gridOf rounds losses so that the errors of all steps add up to about Narrow/2. A step's loss
// spreads over about p/σ, or ln 1/p of the tail that matters; the grid is a small part of it.
func (c Claim) gridOf(prob, sigma float64, steps int) pld.Options {
	grid := math.Sqrt(Narrow / 2 * max(c.Epsilon, coarseFrom) / float64(steps))
	return pld.Options{Grid: min(grid, 1, 0.1*max(prob, 0.02)/sigma+1e-4), Tail: 1e-15}
}

// Both is [Claim.Both] for the claim that Find found n for.
func (n Noise) Both(ctx context.Context) (Noise, error) {
	if !n.OneDirection {
		return n, nil
	}
	return n.found.Claim.Both(ctx, n)
}
