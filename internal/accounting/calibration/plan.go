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

// Estimate is an estimate of one divergence, never a certificate.
type Estimate struct {
	NoiseMultiplier float64              `json:"noise_multiplier"` // σ, above 0
	Direction       montecarlo.Direction `json:"direction"`        // P or Q
	Samples         uint64               `json:"samples"`          // 0: Mean is a proven bound, too small to matter
	Mean            float64              `json:"mean"`             // of the values, 0 to the largest value
	StdErr          float64              `json:"std_err"`          // standard error of Mean; 0 for a proven bound
	Effort          float64              `json:"effort"`           // M/δ, M the largest value
}

// Plan holds everything known before the first sample of a verification.
type Plan struct {
	Protocol *accounting.Protocol // nil if no candidate was chosen
	Method   accounting.Method    // of the run
	// Estimate is the estimated smallest noise multiplier, without any slack for the verification; 0 if
	// none was made. For proven methods it is the protocol's.
	Estimate  float64
	Estimates []Estimate // in the order in which they were made
	CPU       float64    // seconds of processors that a sample takes; 0 if not known
}

// Plan chooses candidates and thresholds. Its errors wrap accounting.RefusedError if no analysis is
// known, accounting.ErrTooFewSamples if the budget is too small, and accounting.ErrNotVerified if the
// given noise multiplier is not enough.
func (p Problem) Plan(ctx context.Context) (*Plan, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if p.Run.Sampler.Truncation == nil {
		return p.planBy(ctx, false)
	}
	return p.truncated(ctx)
}

// calibrator makes the plan of a problem.
type calibrator struct {
	Problem
	run      accounting.Run // whose pair is sampled or bounded
	byCost   bool           // a maximum batch size is accounted for by its cost in δ
	out      *Plan
	searches [2]*search      // of both directions
	known    [][2]divergence // at candidates that were considered
	gaussian *float64        // what unamplified found; nil before

	total float64 // the budget: samples if their number is given, and else seconds of processors
	begun float64 // on the clock
}

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
	c := &calibrator{Problem: p, run: p.Run, byCost: byCost, out: &Plan{Method: method}, total: float64(p.Samples)}
	if byCost {
		c.run = p.Run.Untruncated()
	}
	if c.inTime() {
		c.total = cmp.Or(p.CPUTime, DefaultCPUTime).Seconds()
	}
	c.begun = clock(p.Workers)
	return c, nil
}

// planBy makes the plan with one of the two ways to account for a maximum batch size.
func (p Problem) planBy(ctx context.Context, byCost bool) (*Plan, error) {
	c, err := p.begin(byCost)
	if err != nil {
		return nil, err
	}
	switch {
	case WithoutSamples(c.out.Method):
		err = c.proven(ctx)
	case p.NoiseMultiplier != 0:
		err = c.given(ctx)
	default:
		err = c.sought(ctx)
	}
	if errors.Is(err, accounting.ErrTooFewSamples) && c.run.Majorized() { // without samples the claim costs more noise, but it can be made
		c.out.Method, c.Earlier = accounting.PLD, nil
		if c.proven(ctx) == nil {
			err = nil
		}
	}
	c.describe()
	if err == nil {
		err = c.additional(ctx)
	}
	return c.out, err
}

// describe adds the estimates to the plan.
func (c *calibrator) describe() {
	for _, s := range c.searches {
		if s == nil {
			continue
		}
		for _, l := range s.estimates {
			e := Estimate{
				NoiseMultiplier: l.Spec.NoiseMultiplier,
				Direction:       s.direction,
				Samples:         l.samples,
				Mean:            l.mean(),
				Effort:          l.bound() / c.Delta,
			}
			if l.samples > 0 {
				e.StdErr = e.Mean * l.stdErr()
			}
			c.out.Estimates = append(c.out.Estimates, e)
		}
	}
	if s := c.searches[0]; s != nil {
		c.out.CPU = s.each()
	}
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

// used is how much of the budget is gone since the plan began.
func (c *calibrator) used() (used float64) {
	if c.inTime() {
		return clock(c.Workers) - c.begun
	}
	for _, s := range c.searches {
		if s != nil {
			used += float64(s.drawn)
		}
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

// candidateTables is the largest work of the tables of one candidate.
func (c *calibrator) candidateTables() float64 {
	if !c.inTime() {
		return mostTables
	}
	return min(mostTables, tableShare*c.total*statesPerSecond)
}

// proven makes the plan of a run that needs no samples.
func (c *calibrator) proven(ctx context.Context) error {
	sigma := c.NoiseMultiplier
	if sigma == 0 {
		var err error
		if sigma, err = c.leastProven(ctx); err != nil {
			return err
		}
	}
	c.out.Estimate = sigma
	trials, most, err := c.provenTrials(sigma)
	if err != nil {
		return err
	}
	if !(most <= c.Delta) { // also if it is not a number
		return fmt.Errorf(
			"%w: at noise multiplier %g the bound of delta at epsilon %g is %.6g, above %g",
			ErrNotPrivate,
			sigma,
			c.Epsilon,
			most,
			c.Delta,
		)
	}
	c.out.Protocol = c.protocol(accounting.Thresholds{Verify: c.Delta})
	c.out.Protocol.Candidates = []accounting.Candidate{{NoiseMultiplier: sigma, Trials: trials}}
	return nil
}

// provenTrials are the trials of a noise multiplier at which nothing is sampled, and the largest
// bound of the divergence.
func (c *calibrator) provenTrials(sigma float64) (trials []accounting.Trial, most float64, err error) {
	both, err := compositions(c.run, sigma, c.Epsilon)
	if err != nil {
		return nil, 0, err
	}
	for i, d := range montecarlo.Directions {
		of := divergence{proof: both[i]}
		of.Direction = d
		if of.cut, err = c.cost(d); err != nil {
			return nil, 0, err
		}
		t, err := of.trial(of.proof.method, 0)
		if err != nil {
			return nil, 0, err
		}
		trials, most = append(trials, t), max(most, of.total())
	}
	return trials, most, nil
}

// protocol is one without candidates.
func (c *calibrator) protocol(t accounting.Thresholds) *accounting.Protocol {
	unit := c.Unit
	if unit == accounting.UnitOwner {
		unit = ""
	}
	return &accounting.Protocol{
		Format:      1,
		Run:         c.Run,
		Unit:        unit,
		CodeVersion: c.CodeVersion,
		PlanSHA256:  c.PlanSHA256,
		Points:      []accounting.Point{{Epsilon: c.Epsilon, Delta: c.Delta, Thresholds: t}},
	}
}

// sought finds the noise multiplier: by estimates first, then by the bounds of candidates near them.
func (c *calibrator) sought(ctx context.Context) error {
	start, err := c.start(ctx)
	if err != nil {
		return err
	}
	seen := c.estimate(ctx, start, fine)
	if seen != nil && !errors.Is(seen, ErrTooExpensive) {
		return seen
	}
	if err = c.choose(ctx, math.Log(start), seen == nil); errors.Is(err, accounting.ErrTooFewSamples) {
		return c.tooFew(ctx, cmp.Or(seen, err))
	}
	return err
}

// start is the noise multiplier from which estimates go down. Cyclic Poisson sampling with the same
// expected participations is proven in a tenth of a second, and most schemes need about a seventh
// less. Otherwise it is what one participation needs without amplification or, of an owner of several
// examples, all of them at once if that is less than their largest participation needs.
func (c *calibrator) start(ctx context.Context) (float64, error) {
	start, err := c.independent()
	k := c.run.MaxExamplesPerOwner
	if err != nil {
		return 0, err
	}
	if k > 1 {
		start *= math.Sqrt(float64(k))
		if most, err := c.unamplified(ctx); err != nil || most > 0 {
			return min(start, most), err
		}
		return start, nil
	}
	scheme, ok := c.run.Sampler.Scheme().(sampling.Independent)
	if bands, steps := c.run.Strategy.Bands(), c.run.Strategy.Steps; ok && bands < steps {
		const units = 1 << 20
		prob := float64(bands) * scheme.ExpectedBatchSize(units) / units
		cyclic := c.run
		cyclic.Sampler = sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: min(1, prob), Steps: steps, MinSep: bands}}
		n, err := Claim{Run: cyclic, Epsilon: c.Epsilon, Delta: c.Delta}.Proven(start, 0, Rough/Apart)
		if err == nil {
			start = min(start, n.Multiplier*math.Exp(-1.5*Rough))
		}
	}
	return start, nil
}

// unamplified is the noise multiplier at which the run is private whatever batches are drawn, by the
// Gaussian mechanism of the largest participation; 0 if none is known.
func (c *calibrator) unamplified(ctx context.Context) (sigma float64, err error) {
	if c.gaussian != nil {
		return *c.gaussian, nil
	}
	share := mostAccepted
	if c.byCost {
		share = MostTruncation
	}
	least, err := c.run.Calibrate(ctx, c.Epsilon, share*c.room())
	switch {
	case err == nil:
		sigma = roundUp(least)
	case !errors.Is(err, pld.ErrNotReached) && !errors.Is(err, accounting.ErrNoProof):
		return 0, err
	}
	c.gaussian = &sigma
	return sigma, nil
}

// independent is the noise multiplier of one participation without amplification.
func (c *calibrator) independent() (float64, error) {
	return accounting.GaussianNoiseMultiplier(c.Epsilon, c.Delta, slices.Max(c.run.ColumnNorms()))
}

// newSearch is the search of a direction for a δ that is a part of the claim's.
func (c *calibrator) newSearch(d montecarlo.Direction, cost float64) (*search, error) {
	s, err := Claim{
		Run:     c.run,
		Epsilon: c.Epsilon,
		Delta:   nearDelta * (c.room() - cost),
	}.newSearch(
		d,
		UnknownSlope,
	)
	if err != nil {
		return nil, err
	}
	s.tables, s.workers = c.candidateTables(), c.Workers
	share := estimateShare
	if d == montecarlo.P { // a quarter is for the other direction
		share *= 0.75
	}
	s.samples = func(l *estimate) float64 { return c.estimateSamples(l, share) }
	s.spent = func() bool { // mostly by no clock, so that a busy machine makes the same estimates
		work := 0.0
		for _, of := range c.searches {
			if of != nil {
				work += of.steps() / stepsPerSecond
			}
		}
		return c.inTime() && max(work, c.used()) >= placeShare*c.total
	}
	s.watch = func(*estimate) {
		c.report(fmt.Sprintf("estimating σ, candidate %d", len(s.estimates)), estimateShare)
	}
	c.searches[direction(d)] = s
	return s, nil
}

// estimateSamples is the largest number of samples that an estimate may have: of a budget in samples
// those that the part of estimates leaves, and else a number that depends on no clock, so that a
// busy machine looks at the same noise multipliers.
func (c *calibrator) estimateSamples(l *estimate, share float64) float64 {
	if !c.inTime() {
		return float64(l.samples) + max(0, math.Ceil(share*c.total)-c.used())
	}
	steps := float64(c.run.Strategy.Steps)
	if k := c.run.MaxExamplesPerOwner; k > 1 {
		steps *= ownersFactor * float64(k)
	}
	return share * c.total * stepsPerSecond / steps
}

// estimate finds where the divergences are a little below δ, in both directions. What is seen until
// an error wraps ErrTooExpensive stays.
func (c *calibrator) estimate(ctx context.Context, start, tolerance float64) error {
	cost, err := c.checkTruncation()
	if err != nil {
		return err
	}
	s, err := c.newSearch(montecarlo.P, cost)
	if err != nil {
		return err
	}
	n, err := s.noise(ctx, start, max(tolerance, Rough/Apart))
	if err == nil && tolerance < Rough/Apart && !s.spent() {
		s.first = s.tables // near the noise multiplier, they serve candidates too, which have a little more noise
		n, err = s.noise(ctx, n.Multiplier*math.Exp(Tolerance), tolerance)
	}
	least := s.leastBelow()
	if errors.Is(err, ErrTooExpensive) && !math.IsInf(least, 1) { // what was seen must do
		n, err = Noise{Multiplier: math.Exp(least), OneDirection: true}, nil
	}
	if err == nil {
		if s, err = c.newSearch(montecarlo.Q, cost); err != nil {
			return err
		}
		n.Multiplier *= Little // M of H(Q,P) falls steeply, and candidates that need its samples have 7 to 10 % more noise
		_, err = s.both(ctx, n, tolerance)
		if errors.Is(err, ErrTooExpensive) && s.drawn > 0 { // what was seen must do
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
		if s != nil && s.isKnown() {
			sigma = max(sigma, math.Exp(s.fit().where(-math.Log(nearDelta))))
		}
	}
	return sigma
}

// given makes the protocol of the given noise multiplier: by proofs if they suffice, and else by
// trials that are likely to be accepted by estimates at the same noise multiplier.
func (c *calibrator) given(ctx context.Context) error {
	c.report(PhaseTables, 1)
	pair, err := c.divergences(ctx, c.NoiseMultiplier)
	if err != nil {
		return err
	}
	if _, err := c.checkTruncation(); err != nil {
		return err
	}
	if !c.isProven(pair[0]) || !c.isProven(pair[1]) {
		for _, d := range pair {
			if err := c.estimateGiven(ctx, d); errors.Is(err, ErrTooExpensive) {
				return c.tooFew(ctx, err)
			} else if err != nil {
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
	few := &TooFewError{
		What: fmt.Sprintf("a verification of noise multiplier %.4g", c.NoiseMultiplier),
		Need: float64(samples[0] + samples[1]),
	}
	if few.Need <= c.left(1) { // samples are not what is missing
		return fmt.Errorf(
			"%w: at noise multiplier %g, delta at epsilon %g is estimated to be too near %g, or above it, for a verification",
			ErrEstimatedAbove,
			c.NoiseMultiplier,
			c.Epsilon,
			c.Delta,
		)
	}
	return c.tooFew(ctx, few)
}

// givenShare is the part of a budget that estimates may take if the noise multiplier is given.
const givenShare = estimateShare / 3

// estimateGiven doubles the samples of an estimate of one direction at the given noise multiplier
// until it is known well enough, or its part of the budget is used. The error wraps
// ErrEstimatedAbove if the divergence is far above δ: a protocol would accept it by chance only, and
// a user who knows the estimate would take this chance knowingly.
func (c *calibrator) estimateGiven(ctx context.Context, d divergence) error {
	s, err := c.newSearch(d.Direction, d.cost())
	if err != nil {
		return err
	}
	l := newEstimate(d, s.Delta)
	if s.estimates = []*estimate{l}; c.isProven(d) {
		return nil
	}
	c.report("estimating δ", givenShare)
	enough := 1 / (fine * fine * s.scale.steepness(0) * s.scale.steepness(0))
	most := max(1, c.estimateSamples(l, givenShare/2))
	for want := uint64(min(Few, most)); ; want = 2 * l.samples {
		if err := s.draw(ctx, l, want); err != nil {
			return err
		}
		mean, stdErr := l.mean(), l.mean()*l.stdErr()
		if l.isConclusive() && mean+d.cost()-Apart*stdErr > c.Delta {
			return fmt.Errorf(
				"%w: at noise multiplier %g, delta at epsilon %g is estimated to be %.4g in direction %s, with a standard error of %.2g: more than %d of them above %g",
				ErrEstimatedAbove,
				c.NoiseMultiplier,
				c.Epsilon,
				mean+d.cost(),
				d.Direction,
				stdErr,
				Apart,
				c.Delta,
			)
		}
		if float64(2*l.samples) > most || l.sum > 0 && l.hits() >= enough {
			return nil
		}
	}
}
