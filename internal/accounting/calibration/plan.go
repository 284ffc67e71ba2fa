package calibration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"minsep/internal/accounting"
	"minsep/internal/accounting/pld"
	"minsep/internal/montecarlo"
	"minsep/sampling"
)

// Plan holds everything known before the first sample of a verification.
type Plan struct {
	Protocol *accounting.Protocol // nil if no candidate was chosen
	Method   accounting.Method    // of the run
	// Estimate is the estimated smallest noise multiplier, without any slack for the verification; 0 if
	// none was made. For proven methods it is the protocol's.
	Estimate float64
	CPU      float64 // seconds of processors that a sample takes; 0 if not known
}

// Plan chooses candidates and thresholds. Its errors wrap accounting.RefusedError if no analysis is
// known, accounting.ErrTooFewSamples if the budget is too small, and accounting.ErrNotVerified if the
// given noise multiplier is not enough.
//
// A maximum batch size is accounted for by the pair without truncation and a cost in δ (F3.11). If
// that is refused, or is proven without samples, the events of truncated batches themselves may need
// less noise.
func (p Problem) Plan(ctx context.Context) (*Plan, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	cut := p.Run.Sampler.Truncation != nil
	plan, err := p.planBy(ctx, cut)
	if !cut || !p.Run.TruncatedPair() || ctx.Err() != nil || err == nil && !WithoutSamples(plan.Method) {
		return plan, err
	}
	own, ownErr := p.planBy(ctx, false)
	switch {
	case ownErr == nil && (err != nil || own.noiseMultiplier() < plan.noiseMultiplier()):
		return own, nil
	case err != nil:
		err = errors.Join(err, ownErr)
	}
	return plan, err
}

// noiseMultiplier is that of the first candidate.
func (out *Plan) noiseMultiplier() float64 { return out.Protocol.Candidates[0].NoiseMultiplier }

// planBy makes the plan with one of the two ways to account for a maximum batch size.
func (p Problem) planBy(ctx context.Context, byCost bool) (*Plan, error) {
	c, err := p.begin(byCost)
	if err != nil {
		return nil, err
	}
	if c.isProof() {
		err = c.proven(ctx)
	} else {
		err = c.sampled(ctx)
	}
	if errors.Is(err, accounting.ErrTooFewSamples) && c.run.Majorized() { // without samples the claim costs more noise, but it can be made
		c.out.Method, c.Earlier = accounting.PLD, nil
		if c.proven(ctx) == nil {
			err = nil
		}
	}
	c.out.CPU = c.searches[0].seconds()
	if err == nil {
		err = c.additional(ctx)
	}
	return c.out, err
}

// calibrator makes the plan of a problem: it estimates both directions, considers noise multipliers
// with all that is proven of them, and fixes a protocol.
type calibrator struct {
	Problem
	run      accounting.Run           // whose pair is sampled or bounded
	costs    [2]*accounting.Truncated // of a maximum batch size in both directions; nil if run has it
	cost     float64                  // the larger one
	out      *Plan
	searches [2]*search       // of both directions
	known    [][2]*divergence // at noise multipliers that were considered
	gaussian float64          // a noise multiplier that needs neither samples nor amplification; 0 if it is not known

	total float64 // the budget: samples if their number is given, and else seconds of processors
	begun float64 // on the clock
}

// begin refuses a maximum batch size that costs more than MostTruncation of what the failure
// probabilities of earlier protocols leave of δ.
func (p Problem) begin(byCost bool) (*calibrator, error) {
	method, err := p.Run.Method()
	if err != nil {
		return nil, err
	}
	if p.Workers <= 0 {
		p.Workers = runtime.GOMAXPROCS(0)
	}
	if WithoutSamples(method) {
		p.Earlier = nil // a proof holds whatever was seen
	}
	c := &calibrator{Problem: p, run: p.Run, out: &Plan{Method: method}, total: float64(p.Samples), begun: clock(p.Workers)}
	if c.inTime() {
		c.total = cmp.Or(p.CPUTime, DefaultCPUTime).Seconds()
	}
	if byCost {
		c.run = p.Run.Untruncated()
	}
	if err := c.aim(p.Epsilon, byCost); err != nil {
		return nil, err
	}
	if c.cost > MostTruncation*c.room() {
		e := &accounting.TruncationError{MaxBatchSize: p.Run.Sampler.Truncation.MaxBatchSize, Cost: c.cost, Delta: c.room()}
		e.Suggested, err = p.Run.SuggestMaxBatchSize(p.Epsilon, c.room())
		return nil, cmp.Or[error](err, e)
	}
	for _, s := range c.searches {
		if err := c.limit(s); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// aim sets ε, with the costs of truncation and searches that nothing limits.
func (c *calibrator) aim(epsilon float64, byCost bool) error {
	c.Epsilon, c.cost = epsilon, 0
	for i, d := range montecarlo.Directions {
		c.searches[i] = &search{
			Claim:     Claim{Run: c.run, Epsilon: epsilon, Delta: c.Delta},
			direction: d,
			draws:     math.MaxInt,
			workers:   c.Workers,
		}
		if !byCost {
			continue
		}
		cost, err := c.Run.TruncationCost(d, epsilon)
		if err != nil {
			return err
		}
		c.costs[i], c.cost = &cost, max(c.cost, cost.Cost)
	}
	return nil
}

// limit gives a search its part of δ and of the budget, mostly by no clock, so that a busy machine
// makes the same estimates.
func (c *calibrator) limit(s *search) (err error) {
	share := estimateShare
	if s.direction == montecarlo.P { // a quarter is for the other direction
		share *= 0.75
	}
	s.Delta = (1 - spared) * (c.room() - c.cost)
	if s.scale, err = newScale(s.Epsilon, s.Delta); err != nil {
		return err
	}
	s.behind, s.first, s.tables = math.Inf(1), leastTables, c.candidateTables()
	s.limit = func(d *divergence) float64 {
		if !c.inTime() {
			return float64(d.samples) + max(0, math.Ceil(share*c.total)-c.used())
		}
		return share * c.total * stepsPerSecond / s.sampleSteps()
	}
	s.spent = func() bool {
		work := 0.0
		for _, of := range c.searches {
			work += of.steps() / stepsPerSecond
		}
		return c.inTime() && max(work, c.used()) >= (1-estimateShare)*c.total
	}
	s.watch = func() {
		c.report(fmt.Sprintf("estimating σ, candidate %d", len(s.estimates)), estimateShare)
	}
	return nil
}

var started = time.Now()

// clock is the time of processors that this process has taken, in seconds: time on the wall times
// workers if the system does not tell.
func clock(workers int) float64 {
	if used := processorTime(); used > 0 {
		return used.Seconds()
	}
	return time.Since(started).Seconds() * float64(workers)
}

// inTime says whether the budget is one in time.
func (c *calibrator) inTime() bool { return c.Samples == 0 }

// isProof says whether the method takes no samples.
func (c *calibrator) isProof() bool { return WithoutSamples(c.out.Method) }

// used is how much of the budget is gone since the plan began.
func (c *calibrator) used() (used float64) {
	if c.inTime() {
		return clock(c.Workers) - c.begun
	}
	for _, s := range c.searches {
		used += float64(s.drawn)
	}
	return used
}

// report shows a phase that may go on until a part of the budget is used.
func (c *calibrator) report(text string, part float64) {
	if c.Watch != nil {
		p := Phase{Text: text}
		if c.inTime() {
			p.Left = max(1e-3, part*c.total-c.used())
		}
		c.Watch(p)
	}
}

// candidateTables is the largest work of the tables of one noise multiplier.
func (c *calibrator) candidateTables() float64 {
	if !c.inTime() {
		return mostTables
	}
	return min(mostTables, tableShare*c.total*statesPerSecond)
}

// proven makes the plan of a run that needs no samples.
func (c *calibrator) proven(ctx context.Context) (err error) {
	sigma := c.NoiseMultiplier
	if sigma == 0 {
		sigma, err = c.run.Calibrate(ctx, c.Epsilon, c.Delta-c.cost)
		if errors.Is(err, pld.ErrNotReached) {
			err = fmt.Errorf(
				"%w: no noise multiplier up to 1e6 is proven to give (%g, %g)-differential privacy",
				ErrNotPrivate,
				c.Epsilon,
				c.Delta,
			)
		}
		if err != nil {
			return err
		}
	}
	c.out.Estimate = sigma
	pair, err := c.at(ctx, sigma)
	if err != nil {
		return err
	}
	if most := max(pair[0].total(), pair[1].total()); !(most <= c.Delta) { // also if it is not a number
		return fmt.Errorf(
			"%w: at noise multiplier %g the bound of delta at epsilon %g is %.6g, above %g",
			ErrNotPrivate,
			sigma,
			c.Epsilon,
			most,
			c.Delta,
		)
	}
	c.out.Protocol, err = c.fix([][2]*divergence{pair}, 0)
	return err
}

// sampled makes the plan of a run that needs samples: for the given noise multiplier, or for the
// smallest that the budget is likely to verify and a fallback.
func (c *calibrator) sampled(ctx context.Context) (err error) {
	var pairs [][2]*divergence
	least := float64(-Apart)
	if c.NoiseMultiplier != 0 {
		pairs, err = c.given(ctx)
	} else {
		pairs, err = c.sought(ctx)
		least = -mainErrors
	}
	if err == nil {
		c.out.Protocol, err = c.fix(pairs, least)
	}
	switch {
	case errors.Is(err, ErrTooExpensive), errors.Is(err, accounting.ErrTooFewSamples):
		return c.tooFew(ctx, err)
	}
	return err
}

// sought estimates the noise multiplier and chooses candidates near it.
func (c *calibrator) sought(ctx context.Context) ([][2]*divergence, error) {
	start, err := c.start(ctx)
	if err != nil {
		return nil, err
	}
	seen := c.estimate(ctx, start, fine)
	if seen != nil && !errors.Is(seen, ErrTooExpensive) {
		return nil, seen
	}
	pairs, err := c.choose(ctx, math.Log(start), seen == nil)
	if errors.Is(err, accounting.ErrTooFewSamples) {
		err = cmp.Or(seen, err)
	}
	return pairs, err
}

// start is the noise multiplier from which estimates go down. Cyclic Poisson sampling with the same
// expected participations is proven in a tenth of a second, and most schemes need about a seventh
// less. Otherwise it is what one participation needs without amplification or, of an owner of several
// examples, all of them at once if that is less than their largest participation needs.
func (c *calibrator) start(ctx context.Context) (float64, error) {
	start, err := accounting.GaussianNoiseMultiplier(c.Epsilon, c.Delta, slices.Max(c.run.ColumnNorms()))
	if err != nil {
		return 0, err
	}
	if err := c.unamplified(ctx); err != nil {
		return 0, err
	}
	if k := c.run.MaxExamplesPerOwner; k > 1 {
		start *= math.Sqrt(float64(k))
		if c.gaussian > 0 {
			start = min(start, c.gaussian)
		}
		return start, nil
	}
	scheme, ok := c.run.Sampler.Scheme().(sampling.Independent)
	if bands, steps := c.run.Strategy.Bands(), c.run.Strategy.Steps; ok && bands < steps {
		const units = 1 << 20
		prob := float64(bands) * scheme.ExpectedBatchSize(units) / units
		cyclic := c.run
		cyclic.Sampler = sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: min(1, prob), Steps: steps, MinSep: bands}}
		n, err := Claim{Run: cyclic, Epsilon: c.Epsilon, Delta: c.Delta}.Proven(start, Rough/Apart)
		if err == nil {
			start = min(start, n.Multiplier*math.Exp(-1.5*Rough))
		}
	}
	return start, nil
}

// unamplified finds the noise multiplier at which the run is private whatever batches are drawn, by
// the Gaussian mechanism of the largest participation.
func (c *calibrator) unamplified(ctx context.Context) error {
	share := mostAccepted
	if c.costs[0] != nil {
		share = MostTruncation
	}
	least, err := c.run.Calibrate(ctx, c.Epsilon, share*c.room())
	switch {
	case err == nil:
		c.gaussian = roundUp(least)
	case !errors.Is(err, pld.ErrNotReached) && !errors.Is(err, accounting.ErrNoProof):
		return err
	}
	return nil
}

// estimate finds where the divergences are a little below δ, in both directions. What is seen until
// an error wraps ErrTooExpensive stays.
func (c *calibrator) estimate(ctx context.Context, start, tolerance float64) error {
	p, q := c.searches[0], c.searches[1]
	n, err := p.noise(ctx, start, max(tolerance, Rough/Apart))
	if err == nil && tolerance < Rough/Apart && !p.spent() {
		p.first = p.tables // near the noise multiplier, they serve candidates too, which have a little more noise
		n, err = p.noise(ctx, n.Multiplier*math.Exp(Tolerance), tolerance)
	}
	if least := p.leastBelow(); errors.Is(err, ErrTooExpensive) && !math.IsInf(least, 1) { // what was seen must do
		n, err = Noise{Multiplier: math.Exp(least)}, nil
	}
	if err == nil {
		n.Multiplier *= Little // M of H(Q,P) falls steeply, and candidates that need its samples have 7 to 10 % more noise
		_, err = q.both(ctx, n, tolerance)
		if errors.Is(err, ErrTooExpensive) && q.drawn > 0 { // what was seen must do
			err = nil
		}
	}
	if errors.Is(err, ErrNoEstimate) {
		return &ParamError{
			Param: "delta",
			Value: c.Delta,
			Rule: fmt.Sprintf(
				"no noise multiplier was found that has it at epsilon %g: no estimate came near it; give another delta or epsilon, or name a noise multiplier",
				c.Epsilon,
			),
		}
	}
	c.out.Estimate = c.estimated()
	return err
}

// estimated is the noise multiplier at which the larger divergence is estimated to be δ; 0 if nothing
// was seen.
func (c *calibrator) estimated() (sigma float64) {
	for _, s := range c.searches {
		if f, known := s.fit(); known {
			sigma = max(sigma, math.Exp(f.where(-math.Log(1-spared))))
		}
	}
	return sigma
}

// given estimates the divergences at the given noise multiplier that are not proven, until they are
// known well enough, or a third of the part of estimates is used. The error wraps ErrEstimatedAbove if
// one is far above δ: a protocol would accept it by chance only, and a user who knows the estimate
// would take this chance knowingly.
func (c *calibrator) given(ctx context.Context) ([][2]*divergence, error) {
	c.report(PhaseTables, 1)
	pair, err := c.at(ctx, c.NoiseMultiplier)
	if err != nil {
		return nil, err
	}
	pairs := [][2]*divergence{pair}
	c.known = pairs
	for i, s := range c.searches {
		d := pair[i]
		s.estimates = append(s.estimates, d)
		if c.isProven(d) {
			continue
		}
		c.report("estimating δ", estimateShare/3)
		above := func() bool { return d.isConclusive() && d.mean()*(1-Apart*d.stdErr())+d.cost() > c.Delta }
		err := s.drawUntil(ctx, d, s.limit(d)/6, func() bool {
			return above() || d.isConclusive() && s.point(d).stdErr <= fine
		})
		if err != nil {
			return pairs, err
		}
		if above() {
			return pairs, fmt.Errorf(
				"%w: at noise multiplier %g, delta at epsilon %g is estimated to be %.4g in direction %s, with a standard error of %.2g: more than %d of them above %g",
				ErrEstimatedAbove,
				c.NoiseMultiplier,
				c.Epsilon,
				d.mean()+d.cost(),
				d.Direction,
				d.mean()*d.stdErr(),
				Apart,
				c.Delta,
			)
		}
	}
	return pairs, nil
}
