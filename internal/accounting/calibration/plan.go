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
	"minsep/internal/bisect"
	"minsep/internal/digits"
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
	cost, err := c.mostCost()
	if err != nil {
		return err
	}
	if cost >= MostTruncation*c.room() {
		return c.tooDear()
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

// forecast is the forecast by the estimates, with the tables of the nearest one.
func (c *calibrator) forecast(ctx context.Context) (f Forecast, err error) {
	x := math.Log(c.out.Estimate)
	if c.out.Estimate == 0 {
		x = c.searches[0].looks[len(c.searches[0].looks)-1].x
	}
	for i, s := range c.searches {
		if s == nil || len(s.looks) == 0 {
			continue
		}
		nearest := slices.MinFunc(
			s.looks,
			func(a, b *look) int { return cmp.Compare(math.Abs(a.x-x), math.Abs(b.x-x)) },
		)
		f.Tables += s.making
		if s.isExact(nearest) {
			continue
		}
		if s.each() == 0 {
			if err := s.draw(ctx, nearest, fewest); err != nil {
				return f, err
			}
		}
		effort := nearest.bound() / c.Delta
		if i > 0 {
			effort *= FarShare
		}
		f.Sample = (f.Sample*f.Effort + effort*s.each()) / (f.Effort + effort)
		f.Effort += effort
	}
	return c.Within(f, c.CPUTime), nil
}

// additional adds the points of additional ε to a protocol, with trials of their own at every
// candidate. An ε with a δ above mostDelta has no point.
func (c *calibrator) additional(ctx context.Context) error {
	if len(c.AlsoEpsilon) == 0 {
		return nil
	}
	protocol := c.out.Protocol
	each := c.failureOfPoint()
	if WithoutSamples(c.out.Method) {
		each = 0
	}
	failure := protocol.Points[0].FailureProbability + float64(len(c.AlsoEpsilon))*each
	for _, e := range c.Earlier {
		failure += e.FailureProbability
	}
	if first := &protocol.Points[0]; first.FailureProbability == 0 && failure > 0 { // all of δ went to proofs
		first.Verify = min(first.Verify, (first.Delta-failure)/(1-failure)*(1-1e-9))
	}
	for i, epsilon := range c.AlsoEpsilon {
		of := *c
		of.Epsilon, of.searches = epsilon, [2]*search{}
		of.report(fmt.Sprintf("estimating δ at ε = %g, %d of %d", epsilon, i+1, len(c.AlsoEpsilon)), 1)
		find := of.point
		if each == 0 {
			find = of.provenPoint
		}
		point, trials, err := find(ctx, c.leastDelta(epsilon), failure, each)
		if err != nil {
			return err
		}
		if point.Delta > mostDelta { // it says next to nothing
			continue
		}
		protocol.Points = append(protocol.Points, point)
		for i := range protocol.Candidates {
			for _, t := range trials[i] {
				t.Point = len(protocol.Points) - 1
				if t.Samples > 0 && protocol.KernelID == "" {
					protocol.KernelID, protocol.Earlier = montecarlo.KernelID(), c.Earlier
				}
				protocol.Candidates[i].Trials = append(protocol.Candidates[i].Trials, t)
			}
		}
	}
	return protocol.Validate()
}

// point chooses the δ of the calibrator's ε, and the trials of it at every candidate. failure is the
// part of δ that all points and earlier protocols lose to their failure probabilities, own that of
// this point.
func (c *calibrator) point(
	ctx context.Context,
	least, failure, own float64,
) (accounting.Point, [][]accounting.Trial, error) {
	point := accounting.Point{Epsilon: c.Epsilon}
	var pairs [][2]divergence
	drawn := 0.0
	for _, candidate := range c.out.Protocol.Candidates {
		pair, err := c.divergences(ctx, candidate.NoiseMultiplier)
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
	verify, samples := least*(1-Negligible), [2]float64{}
	for i, d := range pairs[0] {
		if d.total() <= verify {
			continue
		}
		mean, err := c.expected(ctx, d, least, most)
		if err != nil {
			return point, nil, err
		}
		samples[i] = math.Ceil(min(most, 4*additionalEstimate*d.bound()/max(mean, least)))
		accept := min(d.bound(), mean+additionalErrors*math.Sqrt(d.bound()*mean/samples[i]))
		_, high := bisect.Between(accept, d.bound(), 0, func(mean float64) bool {
			return accounting.LargestAccept(uint64(samples[i]), d.bound(), mean, own) < accept
		})
		verify = max(verify, high+d.cost())
	}
	point.Delta = digits.Up(accounting.Thresholds{Verify: verify, FailureProbability: failure}.Total(), 3)
	if point.Delta > mostDelta {
		return point, nil, nil
	}
	point.Verify, point.FailureProbability = (point.Delta-failure)/(1-failure)*(1-1e-9), own
	trials := make([][]accounting.Trial, len(pairs))
	for k, pair := range pairs {
		for i, d := range pair {
			count := uint64(0)
			if d.total() > point.Verify {
				count = uint64(math.Ceil(min(most, max(samples[i], 4*additionalEstimate*d.bound()/point.Delta))))
			}
			t, err := d.trial(c.out.Method, count)
			if err != nil {
				return point, nil, err
			}
			if count > 0 {
				t.Accept = accounting.LargestAccept(count, d.bound(), point.Verify-d.cost(), own)
				point.Accept = max(point.Accept, t.Accept)
			}
			trials[k] = append(trials[k], t)
		}
	}
	return point, trials, nil
}

// provenPoint is a point of a protocol without samples.
func (c *calibrator) provenPoint(
	context.Context,
	float64,
	float64,
	float64,
) (accounting.Point, [][]accounting.Trial, error) {
	point := accounting.Point{Epsilon: c.Epsilon, Delta: 1e-300}
	var trials [][]accounting.Trial
	for _, candidate := range c.out.Protocol.Candidates {
		proven, most, err := c.provenTrials(candidate.NoiseMultiplier)
		if err != nil {
			return point, nil, err
		}
		point.Delta, trials = max(point.Delta, most), append(trials, proven)
	}
	point.Delta = digits.Up(point.Delta, 3)
	point.Verify = point.Delta
	return point, trials, nil
}

// expected is an upper estimate of a divergence. The number of samples doubles until the sum of their
// values is as large as that of additionalEstimate values of M. An estimate that sees few values makes
// δ larger, and never makes the claim wrong.
func (c *calibrator) expected(ctx context.Context, d divergence, least, most float64) (upper float64, err error) {
	s, l, err := d.lookAt(c.Workers, c.Delta)
	if err != nil {
		return 0, err
	}
	for want := uint64(16 * Few); ; want = min(2*want, uint64(most)) {
		if err := s.draw(ctx, l, want); err != nil {
			return 0, err
		}
		n := float64(l.samples)
		upper = min(d.bound(), (l.sum+additionalErrors*math.Sqrt(l.sum)+3)/n*d.bound())
		if l.sum >= additionalEstimate || n >= most || upper <= least/2 {
			return upper, nil
		}
	}
}

// budget is the budget in words.
func (c *calibrator) budget() string {
	switch {
	case c.Samples > 0:
		return fmt.Sprintf("%d samples", c.Samples)
	case c.CPUTime > 0:
		return fmt.Sprintf("%v of one processor", c.CPUTime)
	}
	return fmt.Sprintf("%v of one processor, the default", DefaultCPUTime)
}

// tooFew adds to an error about too few samples the budget, a larger one that is enough, and the
// noise multiplier that needs no samples.
func (c *calibrator) tooFew(ctx context.Context, err error, provable float64) error {
	var few *TooFewError
	if !errors.As(err, &few) {
		few = &TooFewError{What: "an estimate", Cause: err}
	}
	few.Budget, few.Proven = c.budget(), provable
	least := 0.0
	for _, s := range c.searches {
		if s == nil {
			continue
		}
		if few.CPU == 0 && s.each() == 0 && len(s.looks) > 0 &&
			s.draw(ctx, s.looks[len(s.looks)-1], fewest) != nil {
			continue // their time is advice
		}
		few.CPU = max(few.CPU, s.each())
		if few.Need == 0 && len(s.looks) > 0 {
			effort := s.looks[len(s.looks)-1].bound() / s.Delta
			few.Advised, least = max(few.Advised, samplesFor*effort), max(least, leastSamples*effort)
		}
	}
	if few.Need > 0 {
		few.Advised = 1.2 * few.Need / (1 - estimateShare)
	} else if few.Need = least; least > 0 {
		few.Cause = nil
	}
	few.AdvisedCPU = max(few.Advised*few.CPU+c.used(), 1.5*c.seconds)
	return few
}
