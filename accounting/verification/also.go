package verification

import (
	"context"
	"fmt"
	"math"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/search"
	"minsep/internal/bisect"
	"minsep/internal/digits"
)

const (
	// MostAlso is how many further ε a protocol may have.
	MostAlso = 16
	// mostDelta is the largest δ of a point.
	mostDelta = 0.5
)

// leastDelta is the smallest δ of a further ε: the claim's δ below the claim's ε, else a negligible
// share of the claim's δ. Every point counts the failure probabilities of all points, so a smaller
// δ would take samples from each of them.
func (p Problem) leastDelta(epsilon float64) float64 {
	if epsilon < p.Epsilon {
		return p.Delta
	}
	return max(1e-300, search.Negligible*p.Delta)
}

// failureOfPoint is the failure probability of each point of a protocol with further ε: the union
// of all of them costs each point a negligible part of its δ at most (F5.11). It is known before
// there are estimates.
func (p Problem) failureOfPoint() float64 {
	least := p.Delta
	for _, epsilon := range p.AlsoEpsilon {
		least = min(least, p.leastDelta(epsilon))
	}
	return search.Negligible * least / float64(1+len(p.AlsoEpsilon))
}

// also adds the further points to a protocol that has none yet, with trials of their own at
// every candidate. An ε with a δ above mostDelta has no point.
func (p Problem) also(ctx context.Context, out *Plan) error {
	if len(p.AlsoEpsilon) == 0 {
		return nil
	}
	protocol := out.Protocol
	drawn := 0.0 // the failure probability of everything fixed before, and of the points added here
	for _, e := range p.Earlier {
		drawn += e.FailureProbability
	}
	drawn += protocol.Points[0].FailureProbability
	each, most := p.failureOfPoint(), p.mostAlso(protocol)
	if search.WithoutSamples(out.Method) {
		each = 0
	}
	drawn += float64(len(p.AlsoEpsilon)) * each
	if first := &protocol.Points[0]; first.FailureProbability == 0 && drawn > 0 { // all of δ went to proofs
		first.Verify = min(first.Verify, (first.Delta-drawn)/(1-drawn)*(1-1e-9))
	}
	for i, epsilon := range p.AlsoEpsilon {
		of := p
		of.Epsilon = epsilon
		of.doing = fmt.Sprintf("estimating δ at ε = %g, %d of %d", epsilon, i+1, len(p.AlsoEpsilon))
		if p.Watch != nil {
			p.Watch(Phase{Text: of.doing})
		}
		point, trials, err := of.point(ctx, protocol, out.Method, p.leastDelta(epsilon), drawn, each, most)
		if err != nil {
			return err
		}
		if point.Delta > mostDelta { // it says next to nothing
			continue
		}
		protocol.Points = append(protocol.Points, point)
		for c := range protocol.Candidates {
			for _, t := range trials[c] {
				t.Point = len(protocol.Points) - 1
				if t.Samples > 0 && protocol.KernelID == "" {
					protocol.KernelID, protocol.Earlier = montecarlo.KernelID(), p.Earlier
				}
				protocol.Candidates[c].Trials = append(protocol.Candidates[c].Trials, t)
			}
		}
	}
	return protocol.Validate()
}

// mostAlso is the largest number of samples of a trial of a further point. All such trials together
// take about as long as the trials of the claim.
func (p Problem) mostAlso(protocol *accounting.Protocol) float64 {
	most, drawn := estimateSamples(p.steps()), 0.0
	for _, c := range protocol.Candidates {
		for _, t := range c.Trials {
			drawn += float64(t.Samples)
		}
	}
	share := drawn / float64(len(protocol.Candidates)*len(p.AlsoEpsilon))
	return math.Floor(min(most, max(share, leastSamples)))
}

// point chooses the δ of the problem's ε, and the trials of it at every candidate. failure is the
// part of δ that all points and earlier protocols lose to their failure probabilities, own the
// share of this point, and most the largest number of samples of a trial.
func (p Problem) point(ctx context.Context, protocol *accounting.Protocol, method accounting.Method, least, failure, own, most float64) (accounting.Point, [][]accounting.Trial, error) {
	point := accounting.Point{Epsilon: p.Epsilon}
	trials := make([][]accounting.Trial, len(protocol.Candidates))
	if own == 0 {
		return p.provenPoint(protocol, method)
	}
	sigmas := make([]float64, len(protocol.Candidates))
	for c, candidate := range protocol.Candidates {
		sigmas[c] = candidate.NoiseMultiplier
	}
	e := p.newEstimator()
	divergences, err := p.divergences(ctx, e, sigmas)
	if err != nil {
		return point, nil, err
	}
	verify, samples := least*(1-search.Negligible), [2]float64{}
	for i, s := range divergences[0] {
		if s.total() <= verify {
			continue
		}
		needed, drawn, err := p.threshold(ctx, s, least, own, most)
		if err != nil {
			return point, nil, err
		}
		verify, samples[i] = max(verify, needed), drawn
	}
	point.Delta = digits.Up(accounting.Thresholds{Verify: verify, FailureProbability: failure}.Total(), 3)
	if point.Delta > mostDelta {
		return point, nil, nil
	}
	point.Verify, point.FailureProbability = (point.Delta-failure)/(1-failure)*(1-1e-9), own
	for c, pair := range divergences {
		for i, s := range pair {
			count := uint64(0)
			if s.total() > point.Verify {
				count = uint64(math.Ceil(min(most, max(samples[i], alsoVerify*s.bound()/point.Delta))))
			}
			t, err := s.trial(accounting.MonteCarlo, count)
			if err != nil {
				return point, nil, err
			}
			if count > 0 {
				if method == accounting.Unproven {
					t.Method = method
				}
				t.Accept = accounting.LargestAccept(count, s.bound(), point.Verify-s.cost(), own)
				point.Accept = max(point.Accept, t.Accept)
			}
			trials[c] = append(trials[c], t)
		}
	}
	return point, trials, nil
}

// provenPoint is a point of a protocol without samples.
func (p Problem) provenPoint(protocol *accounting.Protocol, method accounting.Method) (point accounting.Point, trials [][]accounting.Trial, err error) {
	worst := 0.0
	for _, candidate := range protocol.Candidates {
		proven, err := p.provenTrials(candidate.NoiseMultiplier, method)
		if err != nil {
			return point, nil, err
		}
		for _, t := range proven {
			cost := 0.0
			if t.Truncation != nil {
				cost = t.Truncation.Cost
			}
			worst = max(worst, t.Bound+cost)
		}
		trials = append(trials, proven)
	}
	point = accounting.Point{Epsilon: p.Epsilon}
	point.Delta = digits.Up(max(1e-300, worst), 3)
	point.Verify = point.Delta
	return point, trials, nil
}

// threshold returns the δ_v at which the trial of a divergence is expected to be accepted, and the
// number of samples of the trial. An estimate that sees few values makes δ_v larger, and never
// makes the claim wrong.
func (p Problem) threshold(ctx context.Context, s hockeyStick, least, own, most float64) (verify, samples float64, err error) {
	mean, err := p.expected(ctx, s, least, most)
	if err != nil {
		return 0, 0, err
	}
	samples = math.Ceil(min(most, alsoVerify*s.bound()/max(mean, least)))
	accept := min(s.bound(), mean+alsoErrors*math.Sqrt(s.bound()*mean/samples))
	_, high := bisect.Between(accept, s.bound(), 0, func(mean float64) bool {
		return accounting.LargestAccept(uint64(samples), s.bound(), mean, own) < accept
	})
	return high + s.cost(), samples, nil
}

// expected returns an upper estimate of a divergence. The number of samples doubles until the sum
// of their values is as large as the sum of alsoEstimate values of M.
func (p Problem) expected(ctx context.Context, s hockeyStick, least, most float64) (float64, error) {
	e := p.newEstimator()
	e.doing = p.doing
	worker, err := e.worker(s)
	if err != nil {
		return 0, err
	}
	upper := 0.0
	_, err = e.drawUntil(ctx, Estimate{Direction: s.direction, Bound: s.bound()}, worker, leastSamples, func(out Estimate) (uint64, bool) {
		n := float64(out.Samples)
		hits := out.Mean / out.Bound * n
		upper = min(out.Bound, (hits+alsoErrors*math.Sqrt(hits)+3)/n*out.Bound)
		return min(2*out.Samples, uint64(most)), hits >= alsoEstimate || n >= most || upper <= least/2
	})
	return upper, err
}
