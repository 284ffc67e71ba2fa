package calibration

import (
	"context"
	"errors"
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
	each := c.failureOfPoint()
	if WithoutSamples(c.out.Method) {
		each = 0
	}
	failure := protocol.Points[0].FailureProbability + float64(len(c.AlsoEpsilon))*each
	for _, e := range c.Earlier {
		failure += e.FailureProbability
	}
	if first := &protocol.Points[0]; first.FailureProbability == 0 && failure > 0 { // all of δ went to proofs
		first.Verify = min(first.Verify, (first.Delta-failure)/(1-failure)*(1-1e-9))
	}
	for i, epsilon := range c.AlsoEpsilon {
		of := *c
		of.Epsilon, of.searches = epsilon, [2]*search{}
		of.report(fmt.Sprintf("estimating δ at ε = %g, %d of %d", epsilon, i+1, len(c.AlsoEpsilon)), 1)
		find := of.point
		if each == 0 {
			find = of.provenPoint
		}
		point, trials, err := find(ctx, c.leastDelta(epsilon), failure, each)
		if err != nil {
			return err
		}
		if point.Delta > mostDelta { // it says next to nothing
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
func (c *calibrator) point(
	ctx context.Context,
	least, failure, own float64,
) (accounting.Point, [][]accounting.Trial, error) {
	point := accounting.Point{Epsilon: c.Epsilon}
	var pairs [][2]divergence
	drawn := 0.0
	for _, candidate := range c.out.Protocol.Candidates {
		pair, err := c.divergences(ctx, candidate.NoiseMultiplier)
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
	verify, samples := least*(1-Negligible), [2]float64{}
	for i, d := range pairs[0] {
		if d.total() <= verify {
			continue
		}
		if d.checkDrawn() != nil {
			point.Delta = 1
			return point, nil, nil
		}
		mean, err := c.expected(ctx, d, least, most)
		if err != nil {
			return point, nil, err
		}
		samples[i] = math.Ceil(min(most, 4*additionalEstimate*d.bound()/max(mean, least)))
		accept := min(d.bound(), mean+additionalErrors*math.Sqrt(d.bound()*mean/samples[i]))
		_, high := bisect.Between(accept, d.bound(), 0, func(mean float64) bool {
			return accounting.LargestAccept(uint64(samples[i]), d.bound(), mean, own) < accept
		})
		verify = max(verify, high+d.cost())
	}
	point.Delta = digits.Up(accounting.Thresholds{Verify: verify, FailureProbability: failure}.Total(), 3)
	if point.Delta > mostDelta {
		return point, nil, nil
	}
	point.Verify, point.FailureProbability = (point.Delta-failure)/(1-failure)*(1-1e-9), own
	trials := make([][]accounting.Trial, len(pairs))
	for k, pair := range pairs {
		for i, d := range pair {
			count := uint64(0)
			if d.total() > point.Verify {
				count = uint64(math.Ceil(min(most, max(samples[i], 4*additionalEstimate*d.bound()/point.Delta))))
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

// provenPoint is a point of a protocol without samples.
func (c *calibrator) provenPoint(
	context.Context,
	float64,
	float64,
	float64,
) (accounting.Point, [][]accounting.Trial, error) {
	point := accounting.Point{Epsilon: c.Epsilon, Delta: 1e-300}
	var trials [][]accounting.Trial
	for _, candidate := range c.out.Protocol.Candidates {
		proven, most, err := c.provenTrials(candidate.NoiseMultiplier)
		if err != nil {
			return point, nil, err
		}
		point.Delta, trials = max(point.Delta, most), append(trials, proven)
	}
	point.Delta = digits.Up(point.Delta, 3)
	point.Verify = point.Delta
	return point, trials, nil
}

// expected is an upper estimate of a divergence. The number of samples doubles until the sum of their
// values is as large as that of additionalEstimate values of M. An estimate that sees few values makes
// δ larger, and never makes the claim wrong.
func (c *calibrator) expected(ctx context.Context, d divergence, least, most float64) (upper float64, err error) {
	s, l := d.estimateOf(c.Workers, c.Delta)
	for want := uint64(16 * Few); ; want = min(2*want, uint64(most)) {
		if err := s.draw(ctx, l, want); err != nil {
			return 0, err
		}
		n := float64(l.samples)
		upper = min(d.bound(), (l.sum+additionalErrors*math.Sqrt(l.sum)+3)/n*d.bound())
		if l.sum >= additionalEstimate || n >= most || upper <= least/2 {
			return upper, nil
		}
	}
}

// budget is the budget in words.
func (c *calibrator) budget() string {
	switch {
	case c.Samples > 0:
		return fmt.Sprintf("%d samples", c.Samples)
	case c.CPUTime > 0:
		return fmt.Sprintf("%v of one processor", c.CPUTime)
	}
	return fmt.Sprintf("%v of one processor, the default", DefaultCPUTime)
}

// tooFew adds to an error about too few samples the budget, a larger one that is enough, and the
// noise multiplier that needs no samples.
func (c *calibrator) tooFew(ctx context.Context, err error) error {
	var few *TooFewError
	if !errors.As(err, &few) {
		few = &TooFewError{What: "an estimate", Cause: err}
	}
	few.Budget = c.budget()
	if c.NoiseMultiplier == 0 && !c.run.Majorized() {
		var failed error
		if few.Proven, failed = c.unamplified(ctx); failed != nil {
			return errors.Join(few, failed)
		}
	}
	least := 0.0
	for _, s := range c.searches {
		if s == nil || len(s.estimates) == 0 {
			continue
		}
		last := s.estimates[len(s.estimates)-1]
		if few.CPU == 0 && s.each() == 0 && s.draw(ctx, last, fewest) != nil {
			continue // their time is advice
		}
		few.CPU = max(few.CPU, s.each())
		if few.Need == 0 {
			effort := last.bound() / s.Delta
			few.Advised, least = max(few.Advised, samplesFor*effort), max(least, leastSamples*effort)
		}
	}
	if few.Need > 0 {
		few.Advised = 1.2 * few.Need / (1 - estimateShare)
	} else if few.Need = least; least > 0 {
		few.Cause = nil
	}
	few.AdvisedCPU = few.Advised * few.CPU
	if c.inTime() {
		few.AdvisedCPU = max(few.AdvisedCPU+c.used(), 1.5*c.total)
	}
	return few
}
