package calibration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

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
	known := err == nil && c.allows(sigma)
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
		if of.cut, err = c.cost(d); err != nil {
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
			if l.Spec.NoiseMultiplier == sigma &&
				(l.tables >= min(mostTables, c.candidateTables()) || d == montecarlo.Q) { // H(Q,P) has no tables
				return l.divergence, nil
			}
		}
	}
	return newDivergence(
		ctx,
		tilt.Config{Spec: c.run.Loss(sigma), Epsilon: c.Epsilon, Direction: d},
		c.candidateTables(),
	)
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

// price is the cost of tests, given in pairs of both directions: in seconds of processors or, of a
// budget in samples, in samples.
func (c *calibrator) price(tests []accounting.Test) (total float64) {
	for i, test := range tests {
		total += c.each(i%2) * float64(test.Samples)
	}
	return total
}

// each is the price of one sample in a direction, or what one in the other direction took if none was
// drawn yet.
func (c *calibrator) each(d int) float64 {
	if c.seconds == 0 {
		return 1
	}
	for _, s := range []*search{c.searches[d], c.searches[1-d]} {
		if s != nil && s.each() > 0 {
			return s.each()
		}
	}
	return 1
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
	const spare, least = 0.9, 0.02 // of the rest, since samples take longer on a busier machine, and of the whole
	return max(least*c.seconds, spare*(c.seconds-c.used()-float64(tables)*making))
}

// allocate chooses thresholds and tests with at most a price. With the default budget, more than
// mostAccepted of δ is not accepted: more samples would buy little.
func (c *calibrator) allocate(
	goals []accounting.Goal,
	budget float64,
) (accounting.Thresholds, []accounting.Test, error) {
	t, tests, err := c.claim().Allocate(goals)
	if err != nil {
		return t, tests, err
	}
	if price := c.price(tests); price > budget {
		return t, tests, fmt.Errorf(
			"%w: they cost %.3g, and %.3g is left",
			accounting.ErrTooFewSamples,
			price,
			budget,
		)
	}
	if c.Samples == 0 && c.CPUTime == 0 && t.Accept > mostAccepted*c.room()*(1+1e-3) {
		return t, tests, fmt.Errorf("%w: to accept more than %.2g of δ", accounting.ErrTooFewSamples, mostAccepted)
	}
	return t, tests, nil
}

// guess is what is known of a divergence at ln σ = x before its tables are made, by the candidates
// that were considered.
func (c *calibrator) guess(x float64, d int, errors float64) accounting.Goal {
	cost := 0.0
	for _, pair := range c.known {
		cost = max(cost, pair[d].cost())
	}
	proven := c.between(x, func(pair [2]divergence) float64 { return pair[d].proof.bound })
	if c.isEnough(proven, cost) {
		return accounting.Goal{Bound: proven, Proven: true, Cost: cost}
	}
	g := c.searches[d].goal(x, c.between(x, func(pair [2]divergence) float64 { return pair[d].bound() }), errors)
	g.Cost = cost
	return g
}

// between is a bound at ln σ = x, on a line of its logarithm through the two nearest candidates that
// were considered.
func (c *calibrator) between(x float64, bound func(pair [2]divergence) float64) float64 {
	distance := func(pair [2]divergence) float64 { return math.Abs(pair[0].x() - x) }
	byDistance := slices.SortedFunc(
		slices.Values(c.known),
		func(a, b [2]divergence) int { return cmp.Compare(distance(a), distance(b)) },
	)
	if len(byDistance) == 0 {
		return 1
	}
	nearest := byDistance[0]
	at := math.Log(max(bound(nearest), 1e-300))
	slope := -15.0                                   // of ln M, about
	if s := c.searches[0]; s != nil && s.isKnown() { // near the noise multiplier, M falls as the divergence does or faster
		slope = min(slope, -s.fit().steepness(nearest[0].x()))
	}
	for _, other := range byDistance[1:] {
		if run := other[0].x() - nearest[0].x(); math.Abs(run) > leastStep/2 {
			slope = min(0, (math.Log(max(bound(other), 1e-300))-at)/run)
			break
		}
	}
	return min(1, math.Exp(at+slope*(x-nearest[0].x())))
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

// consider makes the tables of a candidate at ln σ = x, or takes one that is hardly above it.
func (c *calibrator) consider(ctx context.Context, x float64) (pair [2]divergence, err error) {
	for _, known := range c.known {
		if known[0].x() >= x && known[0].x() < x+leastStep/2 {
			return known, nil
		}
	}
	pair, err = c.divergences(ctx, roundUp(math.Exp(x)))
	if err == nil {
		c.known = append(c.known, pair)
	}
	return pair, err
}

// place is the candidate of the least noise multiplier from ln σ = low to high at which trials are
// affordable with a part of the budget that so many tables leave, which are to be made after it. M
// falls steeply and not evenly with σ: it is computed at the place that is guessed, and guessed anew
// by what was computed.
func (c *calibrator) place(
	ctx context.Context,
	low, high, errors, part float64,
	tables int,
) (pair [2]divergence, found bool, err error) {
	const mostPlaces = 4
	for try := range mostPlaces {
		pair, found = c.placed(low, errors, part*c.left(tables))
		x, ok := c.least(low, high, errors, part*c.left(tables+1))
		if !ok || found && (x > pair[0].x()-leastStep || !c.within(placeShare)()) {
			return pair, found, nil
		}
		if _, err := c.consider(ctx, min(high, x+float64(try)*leastStep/2)); err != nil { // guesses come nearer from below
			return pair, false, err
		}
	}
	pair, found = c.placed(low, errors, part*c.left(tables))
	return pair, found, nil
}

// placed is the candidate of the least noise multiplier above ln σ = low that was considered and is
// affordable, or nearly so.
func (c *calibrator) placed(low, errors, budget float64) (pair [2]divergence, found bool) {
	const nearly = 1.2
	for _, of := range c.known {
		if of[0].x() < low || found && of[0].x() >= pair[0].x() {
			continue
		}
		if _, _, err := c.allocate([]accounting.Goal{c.goal(of[0], errors), c.goal(of[1], errors)}, nearly*budget); err == nil {
			pair, found = of, true
		}
	}
	return pair, found
}

// choose fixes the smallest noise multiplier that the budget is likely to verify, and a fallback.
// Either may be one that is proven without samples. If nothing is known of the divergences, it must
// be, and is looked for from ln σ = x on.
func (c *calibrator) choose(ctx context.Context, x float64, known bool) error {
	c.report(PhaseTables, 1)
	p := c.searches[0]
	if below := p.leastBelow(); !math.IsInf(below, 1) {
		x = below
	}
	if c.out.Estimate > 0 {
		x = math.Log(c.out.Estimate)
	}
	low, high := x-Rough, x+2*Farthest
	for _, l := range p.looks {
		if l.tables >= min(mostTables, p.tables) && l.x > low && l.x < high { // the tables of a candidate
			if err := c.deepen(ctx, l); err != nil {
				return err
			}
			if _, err := c.consider(ctx, l.x); err != nil {
				return err
			}
		}
	}
	if most, err := c.unamplified(ctx); err != nil || c.allows(most) {
		if err == nil {
			high = math.Log(most)
			_, err = c.consider(ctx, high)
		}
		if err != nil {
			return err
		}
	}
	if len(c.known) == 0 {
		if _, err := c.consider(ctx, x); err != nil {
			return err
		}
	}
	distance, part, tables := mainErrors, 1-fallbackShare, 3 // of the fallback, and of the workers
	if c.left(4) < c.left(2)/2 {                             // tables take too much: one candidate that is safe serves
		distance, part, tables = fallbackErrors, 1, 1
	}
	if !known {
		part, tables = 0, 1
	}
	main, found, err := c.place(ctx, low, high, distance, part, tables)
	if err != nil {
		return err
	}
	if !found {
		return c.unaffordable(high)
	}
	pairs := [][2]divergence{main}
	if c.run.Majorized() && c.isProven(main[0]) && c.isProven(main[1]) {
		return fmt.Errorf("%w: less noise than is proven without them takes more", accounting.ErrTooFewSamples)
	}
	if tables > 1 && !(c.isProven(main[0]) && c.isProven(main[1])) {
		fallback, found, err := c.place(
			ctx,
			min(main[0].x()+leastStep, high),
			high,
			fallbackErrors,
			fallbackShare,
			2,
		)
		if err != nil {
			return err
		}
		if found && fallback[0].Spec.NoiseMultiplier > main[0].Spec.NoiseMultiplier {
			pairs = append(pairs, fallback)
		}
	}
	c.out.Protocol, err = c.fix(pairs, -mainErrors)
	return err
}

// deepen draws more samples of a look with the tables of a candidate, which cost more than they do.
func (c *calibrator) deepen(ctx context.Context, l *look) error {
	const enough, share = 100, 0.05 // values of M, and the part of the budget
	s := c.searches[0]
	if l.samples == 0 || l.hits() >= enough {
		return nil
	}
	each := 1.0
	if c.seconds > 0 {
		each = s.each()
	}
	err := s.draw(
		ctx,
		l,
		uint64(float64(l.samples)+min(float64(l.samples)*(enough/l.hits()-1), share*c.left(2)/each)),
	)
	if s.isKnown() {
		c.out.Estimate = c.estimated()
	}
	return err
}

// allows says whether a noise multiplier that needs no amplification may be a candidate: so much
// noise is certified only if it is asked for, or hardly more than was estimated.
func (c *calibrator) allows(sigma float64) bool {
	return c.NoiseMultiplier > 0 || c.run.Majorized() || sigma > 0 && sigma <= Little*c.out.Estimate
}

// unaffordable is the error of a budget in which no candidate fits.
func (c *calibrator) unaffordable(x float64) error {
	_, tests, err := c.claim().Allocate([]accounting.Goal{c.guess(x, 0, mainErrors), c.guess(x, 1, mainErrors)})
	if err != nil {
		return err
	}
	need := 0.0
	for _, test := range tests {
		need += float64(test.Samples)
	}
	return &TooFewError{
		What:  fmt.Sprintf("a verification at noise multiplier %.4g", math.Exp(x)),
		Need:  need,
		Price: c.price(tests),
		Left:  c.left(2),
	}
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
	c.enlarge(pairs, &t, tests, budget)
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

// enlarge gives trials of few samples more of them, as far as these cost next to nothing: the accepted
// mean then comes nearer to δ, and less depends on an expected mean of which little is known.
func (c *calibrator) enlarge(
	pairs [][2]divergence,
	t *accounting.Thresholds,
	tests []accounting.Test,
	budget float64,
) {
	const few, share = 1000, 0.01 // samples of a trial, and the part of the budget
	for i := range tests {
		d := pairs[i/2][i%2]
		samples := uint64(min(few, share*budget/c.each(i%2)))
		if tests[i].Samples == 0 || tests[i].Samples >= samples {
			continue
		}
		tests[i].Samples = samples
		tests[i].Accept = accounting.LargestAccept(samples, d.bound(), t.Verify-d.cost(), t.FailureProbability)
		t.Accept = max(t.Accept, tests[i].Accept)
	}
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
		return c.tooDear()
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
	few := &TooFewError{
		What:  fmt.Sprintf("a verification of noise multiplier %.4g", c.NoiseMultiplier),
		Need:  float64(samples[0] + samples[1]),
		Price: c.price(tests),
		Left:  c.left(1),
	}
	if few.Need <= few.Left { // samples are not what is missing
		return fmt.Errorf(
			"%w: at noise multiplier %g, delta at epsilon %g is estimated to be too near %g, or above it, for a verification",
			ErrEstimatedAbove,
			c.NoiseMultiplier,
			c.Epsilon,
			c.Delta,
		)
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
	l := &look{
		divergence: d,
		x:          math.Log(d.Spec.NoiseMultiplier),
		tables:     mostTables,
		logBound:   math.Log(max(d.bound(), 1e-300) / s.Delta),
	}
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
			return fmt.Errorf(
				"%w: at noise multiplier %g, delta at epsilon %g is estimated to be %.4g in direction %s, with a standard error of %.2g: more than %d of them above %g",
				ErrEstimatedAbove,
				c.NoiseMultiplier,
				c.Epsilon,
				mean+d.cost(),
				of,
				stdErr,
				Apart,
				c.Delta,
			)
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
