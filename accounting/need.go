package accounting

import "math"

// next is the claim of the first point for a protocol that comes after p: all failure probabilities
// up to now count as earlier.
func (p *Protocol) next() Claim {
	c := Claim{Delta: p.Points[0].Delta}
	for _, e := range p.Earlier {
		c.Earlier += e.FailureProbability
	}
	for _, point := range p.Points {
		c.Earlier += point.FailureProbability
	}
	return c
}

// Need returns about how many samples a new protocol for the same noise multiplier takes, over both
// directions, such that it is accepted: so many that the accepted mean, the same for all trials as
// [Claim.Spend] chooses it, is the given number of standard errors above each mean that was seen.
// The variance of values in [0, M] is at most M times their mean. The failure probability of the
// protocol that was rejected is taken off δ.
//
// ok is false where no number of samples helps, since a mean is not below what is left of δ, where
// more than any verification may have are needed, and where a trial was not run. Need is advice:
// nothing that is claimed depends on it.
func (e *NotVerifiedError) Need(errors float64) (samples float64, ok bool) {
	cut := 0.0
	for _, v := range e.Verdicts {
		cut = max(cut, v.Truncation.cost())
	}
	next := e.Next
	next.Delta -= cut
	left, worst := next.most(), 0.0
	var bounds []float64
	for _, v := range e.Verdicts {
		if v.Samples > 0 && v.Accept == 0 && v.Mean == 0 {
			return 0, false // not run
		}
		bounds = append(bounds, v.Bound)
		worst = max(worst, v.Mean)
	}
	if len(bounds) == 0 || !(worst < left) {
		return 0, false
	}
	total := func(accept float64) (sum float64, enough bool) {
		t, sum := next.bestThresholds(accept, bounds)
		enough = true
		for _, v := range e.Verdicts {
			s := samplesFor(v.Bound, accept, t.Verify, t.FailureProbability)
			if v.Samples > 0 && s > 0 {
				spread := errors*math.Sqrt(v.Bound*v.Mean/s) + errors*errors*v.Bound/(3*s)
				enough = enough && accept-v.Mean >= spread
			}
		}
		return sum, enough
	}
	// Both the distance from the means and the number of samples rise with the accepted mean.
	low, high := worst, left
	for range 50 {
		mid := low + (high-low)/2
		if _, enough := total(mid); enough {
			high = mid
		} else {
			low = mid
		}
	}
	if high >= left {
		return 0, false
	}
	samples, _ = total(high)
	return samples, samples <= maxSamples
}
