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
// them. Tables that an estimate made are taken over.
func (c *calibrator) divergences(ctx context.Context, sigma float64) (pair [2]divergence, err error) {
	begun := clock(c.Workers)
	both, failed := compositions(c.run, sigma, c.Epsilon)
	if failed != nil && !errors.Is(failed, accounting.ErrNoProof) {
		return pair, failed
	}
	for i, d := range montecarlo.Directions {
		found := false
		if s := c.searches[i]; s != nil {
			for _, l := range s.estimates {
				if l.Spec.NoiseMultiplier == sigma && (l.tables >= c.candidateTables() || d == montecarlo.Q) { // H(Q,P) has no tables
					pair[i], found = l.divergence, true
				}
			}
		}
		if !found {
			config := tilt.Config{Spec: c.run.Loss(sigma), Epsilon: c.Epsilon, Direction: d}
			if pair[i], err = newDivergence(ctx, config, c.candidateTables()); err != nil {
				return pair, err
			}
		}
		if failed == nil && c.allows(sigma) && both[i].bound < pair[i].proof.bound {
			pair[i].proof = both[i]
		}
		if pair[i].cut, err = c.cost(d); err != nil {
			return pair, err
		}
	}
	if s := c.searches[0]; s != nil {
		s.making = max(s.making, clock(c.Workers)-begun)
	}
	return pair, nil
}

// allows says whether a noise multiplier that needs no amplification may be a candidate: so much
// noise is certified only if it is asked for, or hardly more than was estimated.
func (c *calibrator) allows(sigma float64) bool {
	return c.NoiseMultiplier > 0 || c.run.Majorized() || sigma > 0 && sigma <= Little*c.out.Estimate
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

// price is the cost of tests, given in pairs of both directions, in the unit of the budget.
func (c *calibrator) price(tests []accounting.Test) (total float64) {
	for i, test := range tests {
		total += c.each(i%2) * float64(test.Samples)
	}
	return total
}

// each is the price of one sample in a direction, or what one in the other direction took if none was
// drawn yet.
func (c *calibrator) each(d int) float64 {
	if !c.inTime() {
		return 1
	}
	for _, s := range []*search{c.searches[d], c.searches[1-d]} {
		if s != nil && s.each() > 0 {
			return s.each()
		}
	}
	return 1
}

// left is the budget that is left for samples before the tables of so many noise multipliers, here
// and in the workers that draw them. Of a budget in time a part is spared, since samples take longer
// on a busier machine.
func (c *calibrator) left(tables int) float64 {
	rest := c.total - c.used()
	if !c.inTime() {
		return max(0, rest)
	}
	for _, s := range c.searches {
		if s != nil {
			rest -= float64(tables) * s.making
		}
	}
	return max(leastLeft*c.total, unspared*rest)
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
	if c.inTime() && c.CPUTime == 0 && t.Accept > mostAccepted*c.room()*(1+1e-3) {
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
func (c *calibrator) consider(ctx context.Context, x float64) error {
	for _, known := range c.known {
		if known[0].x() >= x && known[0].x() < x+leastStep/2 {
			return nil
		}
	}
	pair, err := c.divergences(ctx, roundUp(math.Exp(x)))
	if err == nil {
		c.known = append(c.known, pair)
	}
	return err
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
		enough := c.inTime() && c.used() > placeShare*c.total
		if !ok || found && (enough || x > pair[0].x()-leastStep) {
			return pair, found, nil
		}
		if err := c.consider(ctx, min(high, x+float64(try)*leastStep/2)); err != nil { // guesses come nearer from below
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
	for _, l := range p.estimates {
		if l.tables >= c.candidateTables() && l.x > low && l.x < high {
			if err := c.deepen(ctx, l); err != nil {
				return err
			}
			if err := c.consider(ctx, l.x); err != nil { // with the tables that are there
				return err
			}
		}
	}
	if most, err := c.unamplified(ctx); err != nil || c.allows(most) {
		if err == nil {
			high = math.Log(most)
			err = c.consider(ctx, high)
		}
		if err != nil {
			return err
		}
	}
	if len(c.known) == 0 {
		if err := c.consider(ctx, x); err != nil {
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
	isProven := c.isProven(main[0]) && c.isProven(main[1])
	if c.run.Majorized() && isProven {
		return fmt.Errorf("%w: less noise than is proven without them takes more", accounting.ErrTooFewSamples)
	}
	if tables > 1 && !isProven {
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

// deepen draws more samples of an estimate with the tables of a candidate, which cost more than they do:
// 64 bands of 4000 steps took 1.45 times as long without it.
func (c *calibrator) deepen(ctx context.Context, l *estimate) error {
	const enough, share = 100, 0.05 // values of M, and the part of the budget
	if !l.isConclusive() || l.hits() >= enough {
		return nil
	}
	most := share * c.total
	if !c.inTime() {
		most = share * c.left(2)
	}
	err := c.searches[0].draw(ctx, l, uint64(float64(l.samples)+min(float64(l.samples)*(enough/l.hits()-1), most/c.each(0))))
	c.out.Estimate = c.estimated()
	return err
}

// unaffordable is the error of a budget in which no candidate fits.
func (c *calibrator) unaffordable(x float64) error {
	_, tests, err := c.claim().Allocate([]accounting.Goal{c.guess(x, 0, mainErrors), c.guess(x, 1, mainErrors)})
	if err != nil {
		return err
	}
	few := &TooFewError{What: fmt.Sprintf("a verification at noise multiplier %.4g", math.Exp(x))}
	for _, test := range tests {
		few.Need += float64(test.Samples)
	}
	return few
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

// roundUp rounds a noise multiplier to five digits.
func roundUp(noiseMultiplier float64) float64 { return digits.Up(noiseMultiplier, 5) }
