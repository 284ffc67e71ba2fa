package calibration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"minsep/internal/accounting"
	"minsep/internal/montecarlo"
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

	seconds float64 // the budget in time of processors; 0 for a budget in samples
	begun   float64 // on the clock
}

func (p Problem) begin(byCost bool) (*calibrator, error) {
	method, err := p.Run.Method()
	if err != nil {
		return nil, err
	}
	if p.Workers <= 0 {
		p.Workers = runtime.GOMAXPROCS(0)
	}
	c := &calibrator{Problem: p, run: p.Run, byCost: byCost, out: &Plan{Method: method}}
	if byCost {
		c.run = p.Run.Untruncated()
	}
	if p.Samples == 0 {
		c.seconds = DefaultCPUTime.Seconds()
		if p.CPUTime > 0 {
			c.seconds = p.CPUTime.Seconds()
		}
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
		c.out.Method = accounting.PLD
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
		for _, l := range s.looks {
			e := Estimate{NoiseMultiplier: l.Spec.NoiseMultiplier, Direction: s.direction, Samples: l.samples, Mean: l.mean(), Effort: l.bound() / c.Delta}
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

// used is how many seconds of processors have gone since the plan began.
func (c *calibrator) used() float64 { return clock(c.Workers) - c.begun }

// within says whether less than a part of a budget in time is used.
func (c *calibrator) within(part float64) func() bool {
	return func() bool { return c.seconds == 0 || c.used() < part*c.seconds }
}

func (c *calibrator) report(text string, part float64) {
	if c.Watch != nil {
		p := Phase{Text: text}
		if c.seconds > 0 {
			p.Left = max(1e-3, part*c.seconds-c.used())
		}
		c.Watch(p)
	}
}

// candidateTables is the largest work of the tables of one candidate.
func (c *calibrator) candidateTables() float64 {
	const statesPerSecond = 2e8
	if c.seconds == 0 {
		return mostTables
	}
	return tableShare * c.seconds * statesPerSecond
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
	if most > c.Delta {
		return fmt.Errorf("%w: at noise multiplier %g the bound of delta at epsilon %g is %.6g, above %g", ErrNotPrivate, sigma, c.Epsilon, most, c.Delta)
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
		if of.cut, err = c.cost(sigma, d); err != nil {
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
	return &accounting.Protocol{Format: 1, Run: c.Run, Unit: unit, CodeVersion: c.CodeVersion, PlanSHA256: c.PlanSHA256,
		Points: []accounting.Point{{Epsilon: c.Epsilon, Delta: c.Delta, Thresholds: t}}}
}

// sought finds the noise multiplier: what is proven without samples first, then estimates from there
// down, then candidates.
func (c *calibrator) sought(ctx context.Context) error {
	c.report("looking for a σ that needs no samples", estimateShare)
	start, err := c.independent()
	if err != nil {
		return err
	}
	provable, amplified, err := c.provable(ctx, start, leastTables, Rough/Apart, c.within(estimateShare/3))
	if err != nil {
		return err
	}
	if amplified || provable > 0 && provable < start {
		start = provable * math.Exp(-Rough)
	}
	if err = c.estimate(ctx, start); err == nil {
		if !amplified && provable > Little*c.out.Estimate { // so much noise is certified only if it is asked for
			err = c.choose(ctx, 0)
		} else {
			err = c.choose(ctx, provable)
		}
	}
	if err == nil || !errors.Is(err, accounting.ErrTooFewSamples) && !errors.Is(err, ErrTooDear) {
		return err
	}
	if c.run.Majorized() {
		return c.tooFew(ctx, err, 0)
	}
	c.report(PhaseTables, 1)
	least, found, failed := c.leastKnown(ctx, provable, amplified)
	switch {
	case failed != nil:
		return failed
	case !found:
		return c.tooFew(ctx, err, provable)
	}
	pair, err := c.divergences(ctx, least)
	if err == nil {
		c.out.Protocol, err = c.fix([][2]divergence{pair}, 0)
	}
	return err
}

// leastKnown is the least noise multiplier that is proven without samples and needs amplification,
// for a budget that affords no samples: by finer tables in the time that is left, begun a little
// above the estimate.
func (c *calibrator) leastKnown(ctx context.Context, provable float64, amplified bool) (least float64, found bool, err error) {
	least, start := provable, provable
	if s := c.searches[0]; s != nil && s.isKnown() {
		start = math.Exp(s.fit().where(0) + Rough)
	} else if s != nil {
		for _, l := range s.looks {
			if sigma := l.Spec.NoiseMultiplier * math.Exp(Rough); l.samples > 0 && l.most() <= 0 && (start == 0 || sigma < start) {
				start = sigma // the divergence is below δ there
			}
		}
	}
	if least == 0 {
		least = math.Inf(1)
	}
	if start == 0 {
		if start, err = c.independent(); err != nil {
			return 0, false, err
		}
	}
	finer, ok, err := c.provable(ctx, start, c.candidateTables(), leastStep, c.within(0.85))
	if err != nil {
		return 0, false, err
	}
	if ok && finer < least {
		least, amplified = finer, true
	}
	for _, s := range c.searches {
		if s == nil {
			continue
		}
		for _, l := range s.looks { // any of them may be proven too
			if sigma := l.Spec.NoiseMultiplier; sigma < least && c.isProven(l.divergence) {
				pair, err := c.divergences(ctx, sigma)
				if err != nil {
					return 0, false, err
				}
				if c.isProven(pair[0]) && c.isProven(pair[1]) {
					least, amplified = sigma, true
				}
			}
		}
	}
	return least, amplified, nil
}

// independent is the noise multiplier of one participation without amplification.
func (c *calibrator) independent() (float64, error) {
	norm := 0.0
	for _, n := range c.run.ColumnNorms() {
		norm = max(norm, n)
	}
	return accounting.GaussianNoiseMultiplier(c.Epsilon, c.Delta, norm)
}

// newSearch is the search of a direction for a δ that is a part of the claim's.
func (c *calibrator) newSearch(d montecarlo.Direction, cost float64) (*search, error) {
	s, err := Claim{Run: c.run, Epsilon: c.Epsilon, Delta: nearDelta * (c.room() - cost)}.newSearch(d, UnknownSlope)
	if err != nil {
		return nil, err
	}
	s.tables, s.workers, s.samples = c.candidateTables(), c.Workers, func(l *look) float64 { return c.estimateSamples(s, l) }
	s.watch = func(*look) {
		c.report(fmt.Sprintf("estimating σ, candidate %d", len(s.looks)), estimateShare)
	}
	c.searches[direction(d)] = s
	return s, nil
}

// estimateSamples is the largest number of samples that a look may have: those that the estimates'
// part of the budget leaves, a quarter of which is for H(Q,P).
func (c *calibrator) estimateSamples(s *search, l *look) float64 {
	drawn := 0.0
	for _, of := range c.searches {
		if of != nil {
			drawn += float64(of.drawn)
		}
	}
	share := estimateShare
	if s.direction == montecarlo.P {
		share *= 0.75
	}
	if c.seconds == 0 {
		return float64(l.samples) + max(0, math.Ceil(share*float64(c.Samples))-drawn)
	}
	each := 2e-8 * float64(c.run.Strategy.Steps) // until it is measured
	if known := s.each(); known > 0 {
		each = known
	}
	return float64(l.samples) + max(0, (share*c.seconds-c.used())/each)
}

// estimate finds where the divergences are a little below δ.
func (c *calibrator) estimate(ctx context.Context, start float64) error {
	cost, err := c.mostCost(start)
	if err != nil {
		return err
	}
	if cost >= MostTruncation*c.room() {
		return c.tooDear(ctx, start)
	}
	s, err := c.newSearch(montecarlo.P, cost)
	if err != nil {
		return err
	}
	s.first = s.tables // they serve candidates too
	n, err := s.noise(ctx, start, fine)
	if least := s.leastBelow(); errors.Is(err, ErrTooDear) && !math.IsInf(least, 1) { // what was seen must do
		n, err = Noise{Multiplier: math.Exp(least), OneDirection: true}, nil
	}
	if err == nil {
		if s, err = c.newSearch(montecarlo.Q, cost); err != nil {
			return err
		}
		n.Multiplier *= Little // M of H(Q,P) falls steeply, and candidates that need its samples have 7 to 10 % more noise
		_, err = s.both(ctx, n, fine)
		if errors.Is(err, ErrTooDear) && s.drawn > 0 { // what was seen must do
			err = nil
		}
	}
	if errors.Is(err, ErrNoEstimate) {
		return &ParamError{Package: "calibration", Param: "delta", Value: c.Delta,
			Rule: fmt.Sprintf("no noise multiplier was found that has it at epsilon %g: no estimate came near it; give another delta or epsilon, or name a noise multiplier", c.Epsilon)}
	}
	if err != nil {
		return err
	}
	for _, s := range c.searches {
		if s.isKnown() {
			c.out.Estimate = max(c.out.Estimate, math.Exp(s.fit().where(-math.Log(nearDelta))))
		}
	}
	return nil
}
