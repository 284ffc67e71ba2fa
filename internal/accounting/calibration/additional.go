package calibration

import (
	"context"
	"fmt"
	"math"

	"minsep/internal/accounting"
	"minsep/internal/bisect"
	"minsep/internal/digits"
	"minsep/internal/montecarlo"
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
			for _, t := range trials[i] {
				t.Point = len(protocol.Points) - 1
				if t.Samples > 0 && protocol.KernelID == "" {
					protocol.KernelID, protocol.Earlier = montecarlo.KernelID(), c.Earlier
				}
				protocol.Candidates[i].Trials = append(protocol.Candidates[i].Trials, t)
			}
		}
	}
	return protocol.Validate()
}

// point chooses the δ of the calibrator's ε, and the trials of it at every candidate. failure is the
// part of δ that all points and earlier protocols lose to their failure probabilities, own that of
// this point.
func (c *calibrator) point(ctx context.Context, failure, own float64) (accounting.Point, [][]accounting.Trial, error) {
	point := accounting.Point{Epsilon: c.Epsilon, Thresholds: accounting.Thresholds{FailureProbability: own}}
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
	least := c.leastDelta(c.Epsilon)
	verify, samples := least*(1-Negligible), [2]float64{}
	if c.isProof() {
		verify = leastRatio
	}
	for i, d := range pairs[0] {
		switch {
		case d.total() <= verify:
			continue
		case c.isProof():
			verify = d.total()
			continue
		case d.checkDrawn() != nil:
			point.Delta = 1
			return point, nil, nil
		}
		mean, err := c.expected(ctx, c.searches[i], d, least, most)
		if err != nil {
			return point, nil, err
		}
		samples[i] = math.Ceil(min(most, 4*seenEnough*d.bound()/max(mean, least)))
		accept := min(d.bound(), mean+2*math.Sqrt(d.bound()*mean/samples[i]))
		_, high := bisect.Between(accept, d.bound(), 0, func(mean float64) bool {
			return accounting.LargestAccept(uint64(samples[i]), d.bound(), mean, own) < accept
		})
		verify = max(verify, high+d.cost())
	}
	point.Delta = digits.Up(accounting.Thresholds{Verify: verify, FailureProbability: failure}.Total()*(1+2e-9), 3)
	if point.Delta > mostDelta {
		return point, nil, nil
	}
	point.Verify = (point.Delta - failure) / (1 - failure) * (1 - 1e-9)
	trials := make([][]accounting.Trial, len(pairs))
	for k, pair := range pairs {
		for i, d := range pair {
			count := uint64(0)
			if d.total() > point.Verify {
				count = uint64(math.Ceil(min(most, max(samples[i], 4*seenEnough*d.bound()/point.Delta))))
			}
			t, err := d.trial(c.out.Method, count)
			if err != nil {
				return point, nil, err
			}
			if count > 0 {
				t.Accept = accounting.LargestAccept(count, d.bound(), point.Verify-d.cost(), own)
				point.Accept = max(point.Accept, t.Accept)
			}
			trials[k] = append(trials[k], t)
		}
	}
	return point, trials, nil
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
