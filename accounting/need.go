package accounting

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
// directions, such that it is accepted: so many that each direction's accepted mean is the given
// number of standard errors above the mean that was seen, as [Claim.Allocate] shares them out. The
// failure probability of the protocol that was rejected is taken off δ.
//
// ok is false where no number of samples helps, since a mean is not below the rest of δ, where
// more than any verification may have are needed, and where a trial was not run. Need is
// advice: no claim depends on it.
func (e *NotVerifiedError) Need(errors float64) (samples float64, ok bool) {
	var goals []Goal
	for _, v := range e.Verdicts {
		if v.Samples > 0 && v.Accept == 0 && v.Mean == 0 {
			return 0, false // not run
		}
		goals = append(goals, Goal{Bound: v.Bound, Proven: v.Samples == 0, Mean: v.Mean, Errors: errors, Cost: v.Truncation.cost()})
	}
	_, tests, err := e.Next.Allocate(goals)
	for _, t := range tests {
		samples += float64(t.Samples)
	}
	return samples, err == nil
}
