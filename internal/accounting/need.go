package accounting

// Need estimates the number of samples, over both directions, with which a new protocol for the
// same noise multiplier would be accepted. Each direction's accepted mean is then errors standard
// errors above the observed mean, as [Claim.Allocate] shares samples out. The failure probability
// of the rejected protocol is subtracted from δ.
//
// ok is false where a mean is not below the rest of δ, so that no number of samples helps, where
// more samples than any verification may have are needed, and where a trial was not run. Need is
// advice: no claim depends on it.
func (e *NotVerifiedError) Need(errors float64) (samples float64, ok bool) {
	var goals []Goal
	for _, v := range e.Verdicts {
		if v.Samples > 0 && v.Accept == 0 && v.Mean == 0 {
			return 0, false // a trial was not run
		}
		goals = append(
			goals,
			Goal{Bound: v.Bound, Proven: v.Samples == 0, Mean: v.Mean, Errors: errors, Cost: v.Truncation.cost()},
		)
	}
	_, tests, err := e.Next.Allocate(goals)
	for _, t := range tests {
		samples += float64(t.Samples)
	}
	return samples, err == nil
}
