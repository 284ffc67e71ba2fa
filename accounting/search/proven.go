package search

import (
	"context"
	"fmt"
	"math"
	"slices"

	"minsep/accounting"
	"minsep/accounting/pld"
	"minsep/sampling"
)

// coarse bounds the amount that the grid of losses may add over all steps, as a share of ε, or of
// coarseFrom where ε is smaller. It is far more than in a certificate, but the result is an upper
// bound too. It is half of the error of ln σ that the search leaves.
const coarse, coarseFrom = Narrow / 2, 4

// Narrow is how far the upper end of ln σ is above the lower one when a search ends.
const Narrow = 5e-4

// Provable is the method of a run, and whether it proves a noise multiplier without samples, in
// closed form or by privacy loss distributions. The error is an accounting.RefusedError where no
// analysis is known.
func Provable(run accounting.Run) (method accounting.Method, ok bool, err error) {
	method, err = run.Method()
	return method, WithoutSamples(method), err
}

// WithoutSamples says whether a method proves noise multipliers without samples.
func WithoutSamples(method accounting.Method) bool {
	return method == accounting.ClosedForm || method == accounting.PLD
}

// Proven is the noise multiplier of a run without samples: in closed form or by privacy loss
// distributions on a coarse grid. ln σ is at most width above the least. The search begins at
// start, with a first step in ln σ of step, or of half of Farthest for 0.
func (c Claim) Proven(start, step, width float64) (Noise, error) {
	if step == 0 {
		step = Farthest / 2
	}
	if c.Run.Sampler.Fixed != nil {
		b, err := c.Run.Calibrate(context.Background(), c.Epsilon, c.Delta)
		return Noise{Multiplier: b.Upper, Proven: true}, err
	}
	least := math.Log(pld.LeastNoiseMultiplier(slices.Max(c.Run.ColumnNorms()), c.Run.MaxExamplesPerOwner)) + 1e-9
	excess := func(x float64) (float64, error) {
		if x < least { // losses are not composed: δ is at most 1
			return -math.Log(c.Delta), nil
		}
		composition, err := c.Compose(math.Exp(x))
		if err != nil {
			return 0, err
		}
		upper, err := composition.UpperDelta(c.Epsilon)
		return math.Log(max(upper, 1e-300) / c.Delta), err
	}
	x, err := root(excess, math.Log(start), step, width)
	return Noise{Multiplier: math.Exp(x), Proven: true}, err
}

// Compose composes the events of a run of independent events.
func (c Claim) Compose(sigma float64) (*pld.Composition, error) {
	if periods, ok := c.Run.Allocations(sigma); ok {
		return pld.ComposeAllocations(periods)
	}
	norms := c.Run.ColumnNorms()
	switch s := c.Run.Sampler.Scheme().(type) {
	case sampling.Poisson:
		e := pld.Event{Prob: s.Prob, NoiseMultiplier: sigma, Sensitivity: norms[0], Examples: c.Run.MaxExamplesPerOwner}
		return pld.Compose([]pld.Step{{Event: e, Count: s.Steps}}, c.gridOf(s.Prob, sigma/norms[0], s.Steps))
	case sampling.CyclicPoisson:
		turns := (s.Steps + s.MinSep - 1) / s.MinSep
		e := pld.CyclicPoisson{Prob: s.Prob, Steps: s.Steps, MinSep: s.MinSep, NoiseMultiplier: sigma, ColumnNorms: norms}
		return e.Compose(c.gridOf(s.Prob, sigma/norms[0], turns))
	}
	return nil, fmt.Errorf("%w: %s is no composition of events", accounting.ErrNoProof, c.Run.Sampler.Kind().Name)
}

// gridOf rounds losses so that the errors of all steps add up to about coarse. A step's loss
// spreads over about p/σ, or ln 1/p of the tail that matters; the grid is a small part of it.
func (c Claim) gridOf(prob, sigma float64, steps int) pld.Options {
	grid := math.Sqrt(coarse * max(c.Epsilon, coarseFrom) / float64(steps))
	return pld.Options{Grid: min(grid, 1, 0.1*max(prob, 0.02)/sigma+1e-4), Tail: 1e-15}
}

// root returns an upper end of the zero of a falling function of ln σ, at most width above the
// lower one. It looks at x first, and then step away.
func root(excess func(x float64) (float64, error), x, step, width float64) (float64, error) {
	low, high := math.Inf(-1), math.Inf(1)
	var atLow, atHigh float64
	for range 60 {
		y, err := excess(x)
		if err != nil {
			return 0, err
		}
		if y > 0 {
			low, atLow = x, y
		} else {
			high, atHigh = x, min(y, -1e-12)
		}
		switch {
		case math.IsInf(high, 1):
			x, step = x+step, 2*step
		case math.IsInf(low, -1):
			x, step = x-step, 2*step
		case high-low <= width:
			return high, nil
		default:
			x = (low*atHigh - high*atLow) / (atHigh - atLow)
			x = min(max(x+width/3, low+width/2), high-width/2)
			if high-low <= width {
				return high, nil
			}
		}
	}
	return high, nil
}
