package calibration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"minsep/internal/accounting"
	"minsep/internal/accounting/pld"
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
	if errors.Is(err, accounting.ErrTooFewSamples) &&
		c.run.Majorized() { // without samples the claim costs more noise, but it can be made
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
	if seen != nil && !errors.Is(seen, ErrTooDear) {
		return seen
	}
	err = c.choose(ctx, math.Log(start), seen == nil)
	if !errors.Is(err, accounting.ErrTooFewSamples) {
		return err
	}
	err = cmp.Or(seen, err)
	unamplified, failed := c.unamplified(ctx)
	if failed != nil || c.run.Majorized() {
		return errors.Join(c.tooFew(ctx, err, 0), failed)
	}
	return c.tooFew(ctx, err, unamplified)
}

// start is the noise multiplier from which estimates go down: of one participation without
// amplification or, of an owner of several examples, of all of them at once if that is less than
// their largest participation needs.
func (c *calibrator) start(ctx context.Context) (float64, error) {
	start, err := c.independent()
	if k := c.run.MaxExamplesPerOwner; err == nil && k > 1 {
		most, failed := c.unamplified(ctx)
		if start, err = start*math.Sqrt(float64(k)), failed; most > 0 {
			start = min(start, most)
		}
	}
	return start, err
}

// unamplified is the noise multiplier at which the run is private whatever batches are drawn, by the
// Gaussian mechanism of the largest participation; 0 if none is known.
func (c *calibrator) unamplified(ctx context.Context) (float64, error) {
	share := mostAccepted
	if c.byCost {
		share = MostTruncation
	}
	least, err := c.run.Calibrate(ctx, c.Epsilon, share*c.room())
	if errors.Is(err, pld.ErrNotReached) || errors.Is(err, accounting.ErrNoProof) {
		return 0, nil
	}
	return roundUp(least.Upper), err
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
	s.samples = func(l *look) float64 { return c.estimateSamples(l, share) }
	inTime := c.within(estimateShare)
	s.spent = func() bool { return !inTime() }
	s.watch = func(*look) {
		c.report(fmt.Sprintf("estimating σ, candidate %d", len(s.looks)), estimateShare)
	}
	c.searches[direction(d)] = s
	return s, nil
}

// estimateSamples is the largest number of samples that a look may have: of a budget in samples
// those that the part of estimates leaves, and else a number that depends on no clock, so that a
// busy machine looks at the same noise multipliers.
func (c *calibrator) estimateSamples(l *look, share float64) float64 {
	if c.seconds == 0 {
		return float64(l.samples) + max(0, math.Ceil(share*float64(c.Samples))-c.drawn())
	}
	steps := float64(c.run.Strategy.Steps)
	if k := c.run.MaxExamplesPerOwner; k > 1 {
		steps *= OwnersFactor * float64(k)
	}
	return share * c.seconds * stepsPerSecond / steps
}

// drawn is the number of samples of all estimates.
func (c *calibrator) drawn() (total float64) {
	for _, s := range c.searches {
		if s != nil {
			total += float64(s.drawn)
		}
	}
	return total
}

// estimate finds where the divergences are a little below δ, in both directions. What is seen until
// an error wraps ErrTooDear stays.
func (c *calibrator) estimate(ctx context.Context, start, tolerance float64) error {
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
	n, err := s.noise(ctx, start, max(tolerance, Rough/Apart))
	if err == nil && tolerance < Rough/Apart && !s.spent() {
		s.first = s.tables // near the noise multiplier, they serve candidates too
		n, err = s.noise(ctx, n.Multiplier, tolerance)
	}
	least := s.leastBelow()
	if errors.Is(err, ErrTooDear) && !math.IsInf(least, 1) { // what was seen must do
		n, err = Noise{Multiplier: math.Exp(least), OneDirection: true}, nil
	}
	if err == nil {
		if s, err = c.newSearch(montecarlo.Q, cost); err != nil {
			return err
		}
		n.Multiplier *= Little // M of H(Q,P) falls steeply, and candidates that need its samples have 7 to 10 % more noise
		_, err = s.both(ctx, n, tolerance)
		if errors.Is(err, ErrTooDear) && s.drawn > 0 { // what was seen must do
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
