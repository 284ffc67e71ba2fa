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

// at is both directions of the claim at a noise multiplier, with all that is proven of them. Tables that
// an estimate made are taken over.
func (c *calibrator) at(ctx context.Context, sigma float64) (pair [2]*divergence, err error) {
	both, failed := compositions(c.run, sigma, c.Epsilon)
	if failed != nil && (c.isProof() || !errors.Is(failed, accounting.ErrNoProof)) {
		return pair, failed
	}
	for i, s := range c.searches {
		d := &divergence{Config: tilt.Config{Epsilon: c.Epsilon, Direction: s.direction}, proof: both[i]}
		if !c.isProof() {
			d = s.nearest(math.Log(sigma))
			// H(Q,P) has no tables.
			if d == nil || d.Spec.NoiseMultiplier != sigma || d.tables < c.candidateTables() && s.direction == montecarlo.P {
				if d, err = s.begin(ctx, sigma, c.candidateTables()); err != nil {
					return pair, err
				}
			}
		}
		d.Spec.NoiseMultiplier = sigma
		if failed == nil && c.allows(sigma) && both[i].bound < d.proof.bound {
			d.proof = both[i]
		}
		d.cut, pair[i] = c.costs[i], d
	}
	return pair, nil
}

// allows says whether a noise multiplier that needs no amplification may be a candidate: so much
// noise is certified only if it is asked for, or hardly more than was estimated.
func (c *calibrator) allows(sigma float64) bool {
	return c.NoiseMultiplier > 0 || c.run.Majorized() || sigma > 0 && sigma <= Little*c.out.Estimate
}

// isProven says whether a divergence needs no samples.
func (c *calibrator) isProven(d *divergence) bool { return c.isEnough(d.proof.bound, d.cost()) }

// isEnough says whether a bound without samples is small enough: failure probabilities have the rest
// of δ.
func (c *calibrator) isEnough(bound, cost float64) bool {
	return c.isProof() || bound+cost <= mostAccepted*c.room()+min(cost, accounting.SuggestedShare*c.Delta)
}

// goal is the goal of a trial in a direction at ln σ = x, by a proven bound of the divergence, the
// largest value, and what the estimates have seen: the accepted mean is so many standard errors above
// the expected one.
func (c *calibrator) goal(i int, x, proven, bound, errors float64) accounting.Goal {
	g := accounting.Goal{Bound: bound, Errors: errors}
	if c.costs[i] != nil {
		g.Cost = c.costs[i].Cost
	}
	s := c.searches[i]
	f, known := s.fit()
	switch {
	case c.isEnough(proven, g.Cost):
		g.Bound, g.Proven = proven, true
	case len(s.estimates) == 0 || bound == undrawn: // nothing is known, or no budget is enough
		g.Mean, g.Errors = bound, 1
	case known:
		ratio, stdErr := f.at(x)
		g.Mean = min(bound, s.Delta*math.Exp(ratio))
		g.Seen = bound / max(1e-300, g.Mean*stdErr*stdErr)
	default: // nothing was seen: a value of M would have shown a mean that falls with σ as divergences do
		for _, d := range s.estimates {
			if d.samples == 0 {
				continue
			}
			ratio, _ := s.scale.fit([]point{s.point(d)}).at(x)
			if seen := bound / (s.Delta * math.Exp(ratio)); seen > g.Seen {
				g.Mean, g.Seen = min(bound, d.mean()), seen
			}
		}
	}
	return g
}

// goals are the goals of both trials of a noise multiplier that was considered.
func (c *calibrator) goals(pair [2]*divergence, errors float64) (goals []accounting.Goal) {
	for i, d := range pair {
		goals = append(goals, c.goal(i, d.x(), d.proof.bound, d.bound(), errors))
	}
	return goals
}

// guess are the goals of both trials at ln σ = x, before there are tables.
func (c *calibrator) guess(x, errors float64) (goals []accounting.Goal) {
	for i := range c.searches {
		proven := c.between(x, func(pair [2]*divergence) float64 { return pair[i].proof.bound })
		bound := c.between(x, func(pair [2]*divergence) float64 { return pair[i].bound() })
		goals = append(goals, c.goal(i, x, proven, bound, errors))
	}
	return goals
}

// between is a bound at ln σ = x, on a line of its logarithm through the two nearest noise multipliers
// that were considered.
func (c *calibrator) between(x float64, bound func(pair [2]*divergence) float64) float64 {
	distance := func(pair [2]*divergence) float64 { return math.Abs(pair[0].x() - x) }
	known := slices.SortedFunc(
		slices.Values(c.known),
		func(a, b [2]*divergence) int { return cmp.Compare(distance(a), distance(b)) },
	)
	first := known[0][0].x()
	at := math.Log(max(bound(known[0]), 1e-300))
	slope := -15.0                                    // of ln M, about
	if f, isFitted := c.searches[0].fit(); isFitted { // near the noise multiplier, M falls as the divergence does or faster
		slope = min(slope, -f.fall(first))
	}
	for _, other := range known[1:] {
		if run := other[0].x() - first; math.Abs(run) > leastStep/2 {
			slope = min(0, (math.Log(max(bound(other), 1e-300))-at)/run)
			break
		}
	}
	return min(1, math.Exp(at+slope*(x-first)))
}

// each is the price of one sample in a direction in the unit of the budget, or what one in the other
// direction took if none was drawn yet.
func (c *calibrator) each(i int) float64 {
	if !c.inTime() {
		return 1
	}
	return cmp.Or(c.searches[i].seconds(), c.searches[1-i].seconds(), 1)
}

// left is the budget that is left for samples before the tables of so many noise multipliers, here
// and in the workers that draw them. Of a budget in time a part is spared.
func (c *calibrator) left(tables int) float64 {
	rest := c.total - c.used()
	if !c.inTime() {
		return max(0, rest)
	}
	for _, s := range c.searches {
		rest -= float64(tables) * s.making
	}
	return max(spared/2*c.total, (1-spared)*rest)
}

// allocate chooses thresholds and tests, given in pairs of both directions, with at most a budget. With
// the default budget, more than mostAccepted of δ is not accepted: more samples would buy little.
func (c *calibrator) allocate(
	goals []accounting.Goal,
	budget float64,
) (accounting.Thresholds, []accounting.Test, error) {
	t, tests, err := c.claim().Allocate(goals)
	if err != nil {
		return t, tests, err
	}
	price := 0.0
	for i, test := range tests {
		price += c.each(i%2) * float64(test.Samples)
	}
	if price > budget {
		return t, tests, fmt.Errorf("%w: they cost %.3g, and %.3g is left", accounting.ErrTooFewSamples, price, budget)
	}
	if c.inTime() && c.CPUTime == 0 && t.Accept > mostAccepted*c.room()*(1+1e-3) {
		return t, tests, fmt.Errorf("%w: to accept more than %.2g of δ", accounting.ErrTooFewSamples, mostAccepted)
	}
	return t, tests, nil
}

// affords says whether trials of goals are affordable.
func (c *calibrator) affords(goals []accounting.Goal, budget float64) bool {
	_, _, err := c.allocate(goals, budget)
	return err == nil
}

// consider makes the tables of a noise multiplier at ln σ = x, or takes one that is hardly above it.
func (c *calibrator) consider(ctx context.Context, x float64) error {
	for _, known := range c.known {
		if known[0].x() >= x && known[0].x() < x+leastStep/2 {
			return nil
		}
	}
	pair, err := c.at(ctx, roundUp(math.Exp(x)))
	if err == nil {
		c.known = append(c.known, pair)
	}
	return err
}

// place is the least noise multiplier from ln σ = low to high, to about near, at which trials are
// affordable with a part of the budget that so many tables leave, which are to be made after it. M falls
// steeply and not evenly with σ: it is computed at the place that is guessed, and guessed anew by what was
// computed.
func (c *calibrator) place(
	ctx context.Context,
	low, high, near, errors, part float64,
	tables int,
) (pair [2]*divergence, found bool, err error) {
	const mostPlaces, nearly = 4, 1.2
	for try := 0; ; try++ {
		found = false
		for _, of := range c.known {
			less := !found || of[0].x() < pair[0].x()
			if of[0].x() >= low && less && c.affords(c.goals(of, errors), nearly*part*c.left(tables)) {
				pair, found = of, true
			}
		}
		budget := part * c.left(tables+1)
		affordable := func(x float64) bool { return c.affords(c.guess(x, errors), budget) }
		late := c.inTime() && c.used() > (1-estimateShare)*c.total
		if try == mostPlaces || late && found || !affordable(high) {
			return pair, found, nil
		}
		_, x := bisect.Between(low, high, 1e-4, func(x float64) bool { return !affordable(x) })
		if found && x > pair[0].x()-near {
			return pair, found, nil
		}
		if err := c.consider(ctx, min(high, x+float64(try)*leastStep/2)); err != nil { // guesses come nearer from below
			return pair, false, err
		}
	}
}

// choose is the smallest noise multiplier that the budget is likely to verify, and a fallback. Either
// may be one that is proven without samples. If nothing is known of the divergences, it must be, and
// is looked for from ln σ = x on.
func (c *calibrator) choose(ctx context.Context, x float64, known bool) ([][2]*divergence, error) {
	c.report(PhaseTables, 1)
	p := c.searches[0]
	below := p.leastBelow()
	if c.out.Estimate > 0 {
		x = math.Log(c.out.Estimate)
	} else if !math.IsInf(below, 1) {
		x = below
	}
	low, high, places := x-Rough, x+2*Farthest, []float64{}
	for _, d := range p.estimates {
		if d.tables >= c.candidateTables() && d.x() > low && d.x() < high && d.bound() < undrawn {
			places = append(places, d.x()) // with the tables that are there
		}
	}
	if c.allows(c.gaussian) {
		high = math.Log(c.gaussian)
		places = append(places, high)
	}
	if len(places) == 0 {
		if d := p.nearest(x); d != nil && d.bound() == undrawn && below < high {
			x = below
		}
		places = []float64{x}
	}
	for _, x := range places {
		if err := c.consider(ctx, x); err != nil {
			return nil, err
		}
	}
	distance, part, tables := mainErrors, 1-smallShare, 3 // of the fallback, and of the workers
	if c.left(4) < c.left(2)/2 {                          // tables take too much: one candidate that is safe serves
		distance, part, tables = Apart, 1, 1
	}
	if !known {
		part, tables = 0, 1
	}
	main, found, err := c.place(ctx, low, high, leastStep, distance, part, tables)
	if err == nil && !found {
		err = fmt.Errorf("%w: no noise multiplier up to %.4g is affordable", accounting.ErrTooFewSamples, math.Exp(high))
	}
	if err != nil {
		return nil, err
	}
	pairs := [][2]*divergence{main}
	switch isProven := c.isProven(main[0]) && c.isProven(main[1]); {
	case isProven && c.run.Majorized():
		return nil, fmt.Errorf("%w: less noise than is proven without them takes more", accounting.ErrTooFewSamples)
	case isProven || tables == 1:
		return pairs, nil
	}
	fallback, found, err := c.place(ctx, min(main[0].x()+leastStep, high), high, Rough/2, Apart, smallShare, 2)
	if found && fallback[0].x() > main[0].x() {
		pairs = append(pairs, fallback)
	}
	return pairs, err
}

// fix makes the protocol of candidates by rising noise multiplier, with as large accepted means as
// the budget affords, at least so many standard errors above the expected ones, and up to Apart of the
// last candidate; one with a fallback does with fewer.
func (c *calibrator) fix(pairs [][2]*divergence, least float64) (*accounting.Protocol, error) {
	budget, most := c.left(len(pairs)), float64(Apart)
	if len(pairs) > 1 {
		most = mainMost
	}
	try := func(errors float64) (accounting.Thresholds, []accounting.Test, error) {
		var goals []accounting.Goal
		for i, pair := range pairs {
			goals = append(goals, c.goals(pair, errors+float64(i)*(Apart-mainErrors))...)
		}
		return c.allocate(goals, budget)
	}
	t, tests, err := try(most)
	if err != nil {
		if _, _, err = try(least); err != nil {
			return nil, err
		}
		errors, _ := bisect.Between(least, most, 0.01, func(errors float64) bool {
			_, _, err := try(errors)
			return err == nil
		})
		if t, tests, err = try(errors); err != nil {
			return nil, err
		}
	}
	for i := range tests { // more samples than a few cost nothing: less then depends on an expected mean of which little is known
		d, few := pairs[i/2][i%2], uint64(min(4*Few, budget/100/c.each(i%2)))
		if tests[i].Samples > 0 && tests[i].Samples < few {
			tests[i] = accounting.Test{Samples: few, Accept: accounting.LargestAccept(few, d.bound(), t.Verify-d.cost(), t.FailureProbability)}
			t.Accept = max(t.Accept, tests[i].Accept)
		}
	}
	protocol := &accounting.Protocol{
		Format:      1,
		Run:         c.Run,
		CodeVersion: c.CodeVersion,
		PlanSHA256:  c.PlanSHA256,
		Points:      []accounting.Point{{Epsilon: c.Epsilon, Delta: c.Delta, Thresholds: t}},
	}
	if c.Unit != accounting.UnitOwner {
		protocol.Unit = c.Unit
	}
	trials, err := c.trials(pairs, tests)
	for i, pair := range pairs {
		protocol.Candidates = append(protocol.Candidates, accounting.Candidate{
			NoiseMultiplier: pair[0].Spec.NoiseMultiplier,
			Trials:          trials[i],
		})
	}
	c.stamp(protocol)
	return protocol, cmp.Or(err, protocol.Validate())
}

// trials are the trials of candidates, by tests in pairs of both directions.
func (c *calibrator) trials(pairs [][2]*divergence, tests []accounting.Test) ([][]accounting.Trial, error) {
	trials := make([][]accounting.Trial, len(pairs))
	for i, pair := range pairs {
		for j, d := range pair {
			test := tests[2*i+j]
			trial, err := d.trial(c.out.Method, test.Samples)
			if err != nil {
				return trials, err
			}
			trial.Accept = test.Accept
			trials[i] = append(trials[i], trial)
		}
	}
	return trials, nil
}

// stamp adds what a protocol needs if it has samples.
func (c *calibrator) stamp(protocol *accounting.Protocol) {
	for _, candidate := range protocol.Candidates {
		for _, t := range candidate.Trials {
			if t.Samples > 0 {
				protocol.KernelID, protocol.Earlier = montecarlo.KernelID(), c.Earlier
			}
		}
	}
}

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

// roundUp rounds a noise multiplier to five digits.
func roundUp(noiseMultiplier float64) float64 { return digits.Up(noiseMultiplier, 5) }
