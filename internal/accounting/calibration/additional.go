package calibration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"minsep/internal/accounting"
	"minsep/internal/digits"
)

// mostDelta is the largest δ of an additional ε: a larger one says next to nothing.
const mostDelta = 0.5

// additional adds the points of additional ε to a protocol, with trials of their own at every
// candidate. An ε with a δ above mostDelta has no point.
func (c *calibrator) additional(ctx context.Context) error {
	if len(c.AlsoEpsilon) == 0 {
		return nil
	}
	protocol := c.out.Protocol
	own := c.failureOfPoint()
	if c.isProof() {
		own = 0
	}
	failure := protocol.Points[0].FailureProbability + float64(len(c.AlsoEpsilon))*own
	for _, e := range c.Earlier {
		failure += e.FailureProbability
	}
	if first := &protocol.Points[0]; first.FailureProbability == 0 && failure > 0 { // all of δ went to proofs
		first.Verify = min(first.Verify, (first.Delta-failure)/(1-failure)*(1-1e-9))
	}
	for i, epsilon := range c.AlsoEpsilon {
		of := *c
		of.report(fmt.Sprintf("estimating δ at ε = %g, %d of %d", epsilon, i+1, len(c.AlsoEpsilon)), 1)
		if err := of.aim(epsilon, c.costs[0] != nil); err != nil {
			return err
		}
		point, trials, err := of.point(ctx, failure, own)
		if err != nil {
			return err
		}
		if point.Delta > mostDelta {
			continue
		}
		protocol.Points = append(protocol.Points, point)
		for i := range protocol.Candidates {
			for j := range trials[i] {
				trials[i][j].Point = len(protocol.Points) - 1
			}
			protocol.Candidates[i].Trials = append(protocol.Candidates[i].Trials, trials[i]...)
		}
	}
	c.stamp(protocol)
	return protocol.Validate()
}

// point chooses the δ of the calibrator's ε, and the trials of it at every candidate. failure is the
// part of δ that all points and earlier protocols lose to their failure probabilities, own that of
// this point.
func (c *calibrator) point(ctx context.Context, failure, own float64) (accounting.Point, [][]accounting.Trial, error) {
	const above, step = 1.25, 1.05 // δ over the expected divergence, and as long as that takes too many samples
	point := accounting.Point{Epsilon: c.Epsilon}
	var pairs [][2]*divergence
	drawn := 0.0
	for _, candidate := range c.out.Protocol.Candidates {
		pair, err := c.at(ctx, candidate.NoiseMultiplier)
		if err != nil {
			return point, nil, err
		}
		pairs = append(pairs, pair)
		for _, t := range candidate.Trials {
			if t.Point == 0 {
				drawn += float64(t.Samples)
			}
		}
	}
	// The trials of all points together take about as long as the trials of the claim.
	most := math.Floor(max(drawn/float64(len(pairs)*len(c.AlsoEpsilon)), 16*Few))
	delta, means := c.leastDelta(c.Epsilon), [2]float64{}
	if c.isProof() {
		delta = leastRatio
	}
	for i, d := range pairs[0] {
		switch {
		case c.isProof():
			delta = max(delta, d.total())
		case d.total() <= delta*(1-Negligible):
		case d.checkDrawn() != nil:
			point.Delta = 1
			return point, nil, nil
		default:
			var err error
			if means[i], err = c.expected(ctx, c.searches[i], d, delta, most); err != nil {
				return point, nil, err
			}
			delta = max(delta, above*means[i]+d.cost()+failure)
		}
	}
	for point.Delta = digits.Up(delta, 3); point.Delta <= mostDelta; point.Delta = digits.Up(step*point.Delta, 3) {
		var goals []accounting.Goal
		for _, pair := range pairs {
			for i, d := range pair {
				g := accounting.Goal{Bound: d.bound(), Mean: min(means[i], d.bound()), Errors: 2, Cost: d.cost()}
				if c.isProof() || d.total() <= point.Delta*(1-Negligible) {
					g = accounting.Goal{Bound: d.proof.bound, Proven: true, Cost: d.cost()}
				}
				goals = append(goals, g)
			}
		}
		t, tests, err := accounting.Claim{Delta: point.Delta, Earlier: failure - own, MostFailure: own}.Allocate(goals)
		dear := slices.ContainsFunc(tests, func(t accounting.Test) bool { return float64(t.Samples) > most })
		if dear || errors.Is(err, accounting.ErrTooFewSamples) {
			continue
		}
		if err != nil {
			return point, nil, err
		}
		point.Thresholds = t
		if failure > 0 { // the divergences may all be proven
			point.Verify = min(t.Verify, (point.Delta-failure)/(1-failure)*(1-1e-9))
		}
		trials, err := c.trials(pairs, tests)
		return point, trials, err
	}
	return point, nil, nil
}

// expected is an upper estimate of a divergence, by two standard errors. An estimate that sees few
// values makes δ larger, and never makes the claim wrong.
func (c *calibrator) expected(ctx context.Context, s *search, d *divergence, least, most float64) (upper float64, err error) {
	err = s.drawUntil(ctx, d, most, func() bool {
		upper = min(1, (d.sum+2*math.Sqrt(d.sum)+3)/float64(d.samples)) * d.bound()
		return d.sum >= seenEnough || upper <= least/2
	})
	return upper, err
}
