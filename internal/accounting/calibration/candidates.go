package calibration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"minsep/internal/accounting"
	"minsep/internal/bisect"
	"minsep/internal/digits"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/tilt"
)

// ErrEstimatedAbove says that δ of a given noise multiplier is estimated to be above the claim's by
// more than chance explains. It wraps accounting.ErrNotVerified.
var ErrEstimatedAbove = fmt.Errorf("%w by the estimate", accounting.ErrNotVerified)

// divergences are both directions of the claim at a noise multiplier, with all that is proven of
// them.
func (c *calibrator) divergences(ctx context.Context, sigma float64) (pair [2]divergence, err error) {
	begun := c.used()
	both, err := compositions(c.run, sigma, c.Epsilon)
	known := err == nil
	if err != nil && !errors.Is(err, accounting.ErrNoProof) {
		return pair, err
	}
	for i, d := range montecarlo.Directions {
		of, err := c.divergence(ctx, sigma, d)
		if err != nil {
			return pair, err
		}
		if known && both[i].bound < of.proof.bound {
			of.proof = both[i]
		}
		if of.cut, err = c.cost(sigma, d); err != nil {
			return pair, err
		}
		pair[i] = of
	}
	if s := c.searches[0]; s != nil {
		s.making = max(s.making, c.used()-begun)
	}
	return pair, nil
}

// divergence is a divergence of the claim at a noise multiplier: that of a look with as fine tables,
// if there is one.
func (c *calibrator) divergence(ctx context.Context, sigma float64, d montecarlo.Direction) (divergence, error) {
	if s := c.searches[direction(d)]; s != nil {
		for _, l := range s.looks {
			if l.Spec.NoiseMultiplier == sigma && (l.tables >= min(mostTables, c.candidateTables()) || d == montecarlo.Q) { // H(Q,P) has no tables
				return l.divergence, nil
			}
		}
	}
	return newDivergence(ctx, tilt.Config{Spec: c.run.Loss(sigma), Epsilon: c.Epsilon, Direction: d}, c.candidateTables())
}

// isProven says whether a divergence needs no samples.
func (c *calibrator) isProven(d divergence) bool { return c.isEnough(d.proof.bound, d.cost()) }

// isEnough says whether a bound without samples is small enough: failure probabilities have the rest
// of δ.
func (c *calibrator) isEnough(bound, cost float64) bool {
	return bound+cost <= mostAccepted*c.room()+min(cost, accounting.SuggestedShare*c.Delta)
}

// goal is the goal of the trial of a divergence, by what the estimates have seen: the accepted mean
// is so many standard errors above the expected one.
func (c *calibrator) goal(d divergence, errors float64) accounting.Goal {
	if c.isProven(d) {
		return d.goal()
	}
	g := c.searches[direction(d.Direction)].goal(math.Log(d.Spec.NoiseMultiplier), d.bound(), errors)
	g.Cost = d.cost()
	return g
}

// goal is the goal of a trial at ln σ = x with a largest value.
func (s *search) goal(x, bound, errors float64) accounting.Goal {
	g := accounting.Goal{Bound: bound, Errors: errors}
	if s.isKnown() {
		ratio, stdErr := s.fit().at(x)
		g.Mean = min(bound, s.Delta*math.Exp(ratio))
		g.Seen = bound / max(1e-300, g.Mean*stdErr*stdErr)
		return g
	}
	for _, l := range s.looks { // nothing was seen: a value of M would have shown a mean that falls with σ as divergences do
		if l.samples == 0 {
			continue
		}
		ratio, _ := s.scale.fit([]point{s.point(l)}, s.before).at(x)
		if seen := bound / (s.Delta * math.Exp(ratio)); seen > g.Seen {
			g.Mean, g.Seen = min(bound, l.mean()), seen
		}
	}
	return g
}

// price is the cost of tests, given in pairs of both directions: in seconds of processors or, of a
// budget in samples, in samples.
func (c *calibrator) price(tests []accounting.Test) (total float64) {
	for i, test := range tests {
		each := 1.0
		if s := c.searches[i%2]; c.seconds > 0 && s != nil {
			each = cmp.Or(s.each(), each)
		}
		total += each * float64(test.Samples)
	}
	return total
}

// left is the budget that is left for samples, as price counts them, before the tables of so many
// noise multipliers, here and in the workers that draw them.
func (c *calibrator) left(tables int) float64 {
	if c.seconds == 0 {
		drawn := 0.0
		for _, s := range c.searches {
			if s != nil {
				drawn += float64(s.drawn)
			}
		}
		return max(0, float64(c.Samples)-drawn)
	}
	making := 0.0
	for _, s := range c.searches {
		if s != nil {
			making += s.making
		}
	}
	const spare = 0.9 // of the rest: samples take longer on a busier machine
	return max(0, spare*(c.seconds-c.used()-float64(tables)*making))
}

// allocate chooses thresholds and tests with at most a price. With the default budget, more than
// mostAccepted of δ is not accepted: more samples would buy little.
func (c *calibrator) allocate(goals []accounting.Goal, budget float64) (accounting.Thresholds, []accounting.Test, error) {
	t, tests, err := c.claim().Allocate(goals)
	if err != nil {
		return t, tests, err
	}
	if price := c.price(tests); price > budget {
		return t, tests, fmt.Errorf("%w: they cost %.3g, and %.3g is left", accounting.ErrTooFewSamples, price, budget)
	}
	if c.Samples == 0 && c.CPUTime == 0 && t.Accept > mostAccepted*c.room()*(1+1e-3) {
		return t, tests, fmt.Errorf("%w: to accept more than %.2g of δ", accounting.ErrTooFewSamples, mostAccepted)
	}
	return t, tests, nil
}

// guess is what is known of a divergence at ln σ = x before its tables are made: by bounds on both
// sides of it.
func (c *calibrator) guess(x float64, d int, errors float64) accounting.Goal {
	s := c.searches[d]
	var below, above *divergence
	place := func(of *divergence) float64 { return math.Log(of.Spec.NoiseMultiplier) }
	consider := func(of divergence) {
		switch at := place(&of); {
		case at <= x && (below == nil || at >= place(below)):
			below = &of
		case at > x && (above == nil || at <= place(above)):
			above = &of
		}
	}
	for _, l := range s.looks {
		if s.isExact(l) && l.x <= x+leastStep {
			return accounting.Goal{Bound: l.proof.bound, Proven: true}
		}
		if l.tables >= s.tables || s.direction == montecarlo.Q {
			consider(l.divergence)
		}
	}
	for _, pair := range c.known {
		consider(pair[d])
	}
	between := func(bound func(of *divergence) float64) float64 {
		const slope = 15 // of ln M, about
		switch {
		case below == nil && above == nil:
			return 1
		case above == nil:
			return min(1, bound(below)*math.Exp(-slope*(x-place(below))))
		case below == nil:
			return min(1, bound(above)*math.Exp(slope*(place(above)-x)))
		}
		part := (x - place(below)) / (place(above) - place(below))
		return math.Exp((1-part)*math.Log(max(bound(below), 1e-300)) + part*math.Log(max(bound(above), 1e-300)))
	}
	cost := 0.0
	for _, pair := range c.known {
		cost = max(cost, pair[d].cost())
	}
	proven := between(func(of *divergence) float64 { return of.proof.bound })
	if c.isEnough(proven, cost) {
		return accounting.Goal{Bound: proven, Proven: true, Cost: cost}
	}
	g := s.goal(x, between(func(of *divergence) float64 { return of.bound() }), errors)
	g.Cost = cost
	return g
}

// least is the smallest ln σ from low to high at which trials in both directions are affordable.
func (c *calibrator) least(low, high, errors, budget float64) (x float64, ok bool) {
	affordable := func(x float64) bool {
		_, _, err := c.allocate([]accounting.Goal{c.guess(x, 0, errors), c.guess(x, 1, errors)}, budget)
		return err == nil
	}
	if !affordable(high) {
		return high, false
	}
	_, x = bisect.Between(low, high, 1e-4, func(x float64) bool { return !affordable(x) })
	return x, true
}

// place is the candidate of the least noise multiplier from ln σ = low to high at which trials are
// affordable. M falls steeply and not evenly with σ: it is computed at the place that is guessed, and
// guessed anew by what was computed.
func (c *calibrator) place(ctx context.Context, low, high, errors, budget float64) (pair [2]divergence, found bool, err error) {
	const mostPlaces = 5
	for try := range mostPlaces {
		x, ok := c.least(low, high, errors, budget)
		if !ok || found && x > math.Log(pair[0].Spec.NoiseMultiplier)-leastStep {
			break
		}
		if try > 0 && x < high { // guesses come nearer from below, which serves nothing
			x = min(x+leastStep/2, high)
		}
		of, err := c.divergences(ctx, c.placeAbove(x))
		if err != nil {
			return pair, false, err
		}
		c.known = append(c.known, of)
		_, _, err = c.allocate([]accounting.Goal{c.goal(of[0], errors), c.goal(of[1], errors)}, budget)
		if err == nil && (!found || of[0].Spec.NoiseMultiplier < pair[0].Spec.NoiseMultiplier) {
			pair, found = of, true
		}
	}
	return pair, found, nil
}

// placeAbove is the noise multiplier of a look that is hardly above ln σ = x, whose tables are made
// already, or else that of x.
func (c *calibrator) placeAbove(x float64) float64 {
	for _, l := range c.searches[0].looks {
		if l.x >= x && l.x < x+leastStep/2 {
			return l.Spec.NoiseMultiplier
		}
	}
	return roundUp(math.Exp(x))
}

// choose fixes the smallest noise multiplier that the budget is likely to verify, and a fallback. If
// provable is not 0, it is a noise multiplier that needs no samples: the fallback, if no smaller one
// serves.
func (c *calibrator) choose(ctx context.Context, provable float64) error {
	estimate := math.Log(c.out.Estimate)
	if c.out.Estimate == 0 {
		estimate = c.searches[0].leastBelow()
	}
	high := estimate + 2*Farthest
	if provable > 0 {
		high = max(math.Log(provable), estimate)
		pair, err := c.divergences(ctx, provable)
		if err != nil {
			return err
		}
		c.known = append(c.known, pair)
	}
	c.report(PhaseTables, 1)
	budget := c.left(4)
	main, found, err := c.place(ctx, estimate-Rough, high, mainErrors, (1-fallbackShare)*budget)
	if err != nil {
		return err
	}
	if !found {
		return c.unaffordable(high, budget)
	}
	pairs := [][2]divergence{main}
	from := math.Log(main[0].Spec.NoiseMultiplier) + leastStep
	fallback, found, err := c.place(ctx, min(from, high), high, fallbackErrors, fallbackShare*budget)
	if err != nil {
		return err
	}
	if provable > 0 && !(found && fallback[0].Spec.NoiseMultiplier*(1+leastStep) < provable) {
		fallback, found = c.known[0], true
	}
	if found && fallback[0].Spec.NoiseMultiplier > main[0].Spec.NoiseMultiplier {
		pairs = append(pairs, fallback)
	}
	c.out.Protocol, err = c.fix(pairs, -mainErrors)
	return err
}

// unaffordable is the error of a budget in which no candidate fits.
func (c *calibrator) unaffordable(x, budget float64) error {
	_, tests, err := c.claim().Allocate([]accounting.Goal{c.guess(x, 0, mainErrors), c.guess(x, 1, mainErrors)})
	if err != nil {
		return err
	}
	need := 0.0
	for _, test := range tests {
		need += float64(test.Samples)
	}
	return &TooFewError{What: fmt.Sprintf("a verification at noise multiplier %.4g", math.Exp(x)), Need: need, Price: c.price(tests), Left: budget}
}

// fix makes the protocol of candidates by rising noise multiplier, with as large accepted means as
// the budget affords, up to Apart standard errors above the expected ones, and at least so many.
func (c *calibrator) fix(pairs [][2]divergence, least float64) (*accounting.Protocol, error) {
	budget := c.left(len(pairs))
	try := func(errors float64) (accounting.Thresholds, []accounting.Test, error) {
		var goals []accounting.Goal
		for i, pair := range pairs {
			more := float64(i) * (fallbackErrors - mainErrors)
			goals = append(goals, c.goal(pair[0], errors+more), c.goal(pair[1], errors+more))
		}
		return c.allocate(goals, budget)
	}
	t, tests, err := try(Apart)
	if err != nil {
		if _, _, err = try(least); err != nil {
			return nil, err
		}
		errors, _ := bisect.Between(least, Apart, 0.01, func(errors float64) bool {
			_, _, err := try(errors)
			return err == nil
		})
		if t, tests, err = try(errors); err != nil {
			return nil, err
		}
	}
	protocol := c.protocol(t)
	for i, pair := range pairs {
		candidate := accounting.Candidate{NoiseMultiplier: pair[0].Spec.NoiseMultiplier}
		for j, d := range pair {
			trial, err := d.trial(c.out.Method, tests[2*i+j].Samples)
			if err != nil {
				return nil, err
			}
			if trial.Samples > 0 {
				protocol.KernelID, protocol.Earlier = montecarlo.KernelID(), c.Earlier
				if tests[2*i+j].Accept != t.Accept {
					trial.Accept = tests[2*i+j].Accept
				}
			}
			candidate.Trials = append(candidate.Trials, trial)
		}
		protocol.Candidates = append(protocol.Candidates, candidate)
	}
	return protocol, protocol.Validate()
}

// given makes the protocol of the given noise multiplier: by proofs if they suffice, and else by
// trials that are likely to be accepted by estimates at the same noise multiplier.
func (c *calibrator) given(ctx context.Context) error {
	c.report(PhaseTables, 1)
	pair, err := c.divergences(ctx, c.NoiseMultiplier)
	if err != nil {
		return err
	}
	if worst := max(pair[0].cost(), pair[1].cost()); worst > MostTruncation*c.Delta {
		return c.tooDear(ctx, c.NoiseMultiplier)
	}
	if !c.isProven(pair[0]) || !c.isProven(pair[1]) {
		for i, d := range montecarlo.Directions {
			if err := c.estimateGiven(ctx, pair[i], d); err != nil {
				return err
			}
		}
	}
	c.out.Protocol, err = c.fix([][2]divergence{pair}, -Apart)
	if !errors.Is(err, accounting.ErrTooFewSamples) {
		return err
	}
	_, samples, failed := c.claim().Samples(c.Delta/2, []float64{pair[0].bound(), pair[1].bound()})
	if failed != nil {
		return err
	}
	tests := []accounting.Test{{Samples: samples[0]}, {Samples: samples[1]}}
	few := &TooFewError{What: fmt.Sprintf("a verification of noise multiplier %.4g", c.NoiseMultiplier), Need: float64(samples[0] + samples[1]), Price: c.price(tests), Left: c.left(1)}
	if few.Need <= few.Left { // samples are not what is missing
		return fmt.Errorf("%w: at noise multiplier %g, delta at epsilon %g is estimated to be too near %g, or above it, for a verification", ErrEstimatedAbove, c.NoiseMultiplier, c.Epsilon, c.Delta)
	}
	return c.tooFew(ctx, few, 0)
}

// givenShare is the part of a budget that estimates may take if the noise multiplier is given.
const givenShare = estimateShare / 3

// estimateGiven doubles the samples of an estimate of one direction at the given noise multiplier
// until it is known well enough, or its part of the budget is used. The error wraps
// ErrEstimatedAbove if the divergence is far above δ: a protocol would accept it by chance only, and
// a user who knows the estimate would take this chance knowingly.
func (c *calibrator) estimateGiven(ctx context.Context, d divergence, of montecarlo.Direction) error {
	s, err := c.newSearch(of, d.cost())
	if err != nil {
		return err
	}
	l := &look{divergence: d, x: math.Log(d.Spec.NoiseMultiplier), tables: mostTables, logBound: math.Log(max(d.bound(), 1e-300) / s.Delta)}
	if s.looks = []*look{l}; c.isProven(d) {
		return nil
	}
	c.report("estimating δ", givenShare)
	enough := 1 / (fine * fine * s.scale.steepness(0) * s.scale.steepness(0))
	share := func() bool {
		if c.seconds == 0 {
			return float64(2*l.samples) < givenShare/2*float64(c.Samples)
		}
		return 2*s.seconds < givenShare/2*c.seconds
	}
	first := uint64(Few)
	if c.seconds == 0 {
		first = min(Few, max(1, uint64(givenShare/2*float64(c.Samples))))
	}
	if err := s.draw(ctx, l, first); err != nil {
		return err
	}
	for {
		mean, stdErr := l.mean(), l.mean()*l.stdErr()
		if l.isConclusive() && mean+d.cost()-Apart*stdErr > c.Delta {
			return fmt.Errorf("%w: at noise multiplier %g, delta at epsilon %g is estimated to be %.4g in direction %s, with a standard error of %.2g: more than %d of them above %g",
				ErrEstimatedAbove, c.NoiseMultiplier, c.Epsilon, mean+d.cost(), of, stdErr, Apart, c.Delta)
		}
		if !share() || l.sum > 0 && l.hits() >= enough {
			return nil
		}
		if err := s.draw(ctx, l, 2*l.samples); err != nil {
			return err
		}
	}
}

// roundUp rounds a noise multiplier to five digits.
func roundUp(noiseMultiplier float64) float64 { return digits.Up(noiseMultiplier, 5) }
