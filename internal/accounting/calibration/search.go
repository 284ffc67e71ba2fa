package calibration

import (
	"context"
	"errors"
	"fmt"
	"math"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/tilt"
)

// Errors of runs without an estimate. Neither is a fault of the request: nothing was found, or it
// would take too many samples.
var (
	ErrNoEstimate   = errors.New("no estimate")
	ErrTooExpensive = errors.New("an estimate takes too many samples")
)

// search looks for the noise multiplier at which one divergence is δ.
type search struct {
	Claim
	direction montecarlo.Direction
	scale     scale
	draws     int                                   // of the likelihood ratio of an owner's examples, at most
	behind    float64                               // σ above which it is enough to know it roughly
	first     float64                               // the least work of the tables of an estimate
	tables    float64                               // the largest
	limit     func(d *divergence) (samples float64) // the largest number of samples of an estimate
	spent     func() bool                           // says that no more time may be used
	watch     func()                                // is told of each step
	workers   int

	estimates []*divergence
	drawn     uint64
	states    float64 // of all tables, at most
	making    float64 // seconds of processors of the slowest tables

	fitted   line // the last fit
	known    bool
	fittedOf [2]float64 // samples and states of it
}

// newSearch is a search with the limits of a plan.
func (c Claim) newSearch(d montecarlo.Direction) (*search, error) {
	scale, err := newScale(c.Epsilon, c.Delta)
	s := &search{
		Claim:     c,
		direction: d,
		scale:     scale,
		draws:     math.MaxInt,
		behind:    math.Inf(1),
		first:     leastTables,
		tables:    planWork,
		watch:     func() {},
	}
	s.limit = func(d *divergence) float64 { return s.mostSamples(d.isConclusive()) }
	s.spent = func() bool { return s.steps() > 3*planWork }
	return s, err
}

// mostSamples is the largest number of samples of an estimate in a plan: a part of them if they are
// enough for a rough estimate.
func (s *search) mostSamples(conclusive bool) float64 {
	most := planWork / s.sampleSteps()
	if conclusive {
		most *= smallShare
	}
	return max(2*Few, most)
}

// steps is about the work of the samples and tables of a search, in steps of samples. It depends on no
// clock.
func (s *search) steps() float64 {
	return float64(s.drawn)*s.sampleSteps() + s.states*stepsPerSecond/statesPerSecond
}

// begin makes the tables of an estimate at a noise multiplier, without those that were found to be too
// large at another one.
func (s *search) begin(ctx context.Context, sigma, work float64) (*divergence, error) {
	begun := clock(s.workers)
	defer func() { s.making = max(s.making, clock(s.workers)-begun) }()
	s.states += work
	config := tilt.Config{Spec: s.Run.Loss(sigma), Epsilon: s.Epsilon, Direction: s.direction}
	for _, d := range s.estimates {
		if d.proposal == nil && errors.Is(d.untilted, tilt.ErrStates) && work <= d.tables {
			return &divergence{Config: config, untilted: d.untilted, tables: work, proof: d.proof}, nil
		}
	}
	d, err := newDivergence(ctx, config, work)
	if err == nil && d.proposal != nil {
		d.proposal.Draws = min(d.proposal.Draws, s.draws)
	}
	return d, err
}

// draw draws the samples of an estimate up to a total.
func (s *search) draw(ctx context.Context, d *divergence, total uint64) error {
	before := d.samples
	err := d.draw(ctx, s.Seed, s.workers, total)
	s.drawn += d.samples - before
	return err
}

// drawUntil doubles the samples of an estimate until they are enough, or most.
func (s *search) drawUntil(ctx context.Context, d *divergence, most float64, enough func() bool) error {
	for want := Few * 1.; ; want = 2 * float64(d.samples) {
		if err := s.draw(ctx, d, uint64(max(1, min(want, most)))); err != nil {
			return err
		}
		if enough() || float64(d.samples)+1 > most {
			return nil
		}
	}
}

// nearest is the estimate that is nearest to ln σ = x; nil if there is none.
func (s *search) nearest(x float64) (nearest *divergence) {
	for _, d := range s.estimates {
		if nearest == nil || math.Abs(d.x()-x) < math.Abs(nearest.x()-x) {
			nearest = d
		}
	}
	return nearest
}

// range of ln σ of the estimates that are chosen; from +∞ to -∞ if there are none.
func (s *search) extent(chosen func(d *divergence) bool) (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for _, d := range s.estimates {
		if chosen(d) {
			least, most = min(least, d.x()), max(most, d.x())
		}
	}
	return least, most
}

// leastBelow is the least ln σ of an estimate whose samples show that the divergence is below δ, infinite
// if there is none.
func (s *search) leastBelow() float64 {
	least, _ := s.extent(func(d *divergence) bool { return d.samples > 0 && d.most() <= s.Delta })
	return least
}

// seconds is about how many seconds of processors a sample takes: as at the last estimate, whose tables
// are the finest; 0 if none was drawn.
func (s *search) seconds() float64 {
	for i := len(s.estimates) - 1; i >= 0; i-- {
		if d := s.estimates[i]; d.samples > 0 {
			return d.seconds / float64(d.samples)
		}
	}
	return 0
}

// isExact says whether the divergence is proven to be so far below δ that it gets no samples.
func (s *search) isExact(d *divergence) bool { return d.proof.bound <= Negligible*s.Delta }

// isHopeless says whether all the samples of an estimate would show nothing if the divergence were δ: less
// than a ninth of M or, of plain losses, which are 0 or large, less than nine values.
func (s *search) isHopeless(d *divergence) bool {
	const least = Apart * Apart
	if d.proposal == nil {
		return s.limit(d)*s.Delta < least*d.bound()
	}
	return s.limit(d)*s.Delta*least < d.bound()
}

// point is an estimate on the scale. Values that show no more than a bound count as one of M at least.
func (s *search) point(d *divergence) point {
	if s.isExact(d) {
		return point{d.x(), s.scale.inverse(math.Log(max(d.proof.bound/s.Delta, 1e-30))), Rough / Apart}
	}
	sum := d.sum
	if !d.isConclusive() {
		sum = max(sum, 1)
	}
	u := s.scale.inverse(math.Log(d.bound() * sum / float64(d.samples) / s.Delta))
	return point{d.x(), u, d.stdErr() / s.scale.steepness(u)}
}

// fit is the line through all estimates that show more than a bound; known says whether there are any.
// Else it is the line through the last estimate. It is kept until there are other samples or tables.
func (s *search) fit() (f line, known bool) {
	if of := [2]float64{float64(s.drawn), s.states}; of != s.fittedOf {
		var points []point
		for _, d := range s.estimates {
			if d.isConclusive() {
				points = append(points, s.point(d))
			}
		}
		if s.known = points != nil; !s.known && len(s.estimates) > 0 {
			points = []point{s.point(s.estimates[len(s.estimates)-1])}
		}
		s.fitted, s.fittedOf = s.scale.fit(points), of
	}
	return s.fitted, s.known
}

// isBehind says whether a fit is clearly above s.behind: it need be known only roughly then.
func (s *search) isBehind(f line) bool {
	x, stdErr, _ := f.solve()
	return stdErr <= Rough/Apart && x-Apart*stdErr > math.Log(s.behind)
}

// run estimates at noise multipliers from ln σ = x on, each where the estimates before it have δ, until the
// standard error of ln σ is at most tolerance, or the samples are used up.
func (s *search) run(ctx context.Context, x, tolerance float64) (line, error) {
	const mostEstimates, mostShort = 20, 3
	short := 0 // estimates that had too few samples to show anything
	for range mostEstimates {
		before := s.drawn
		d, enough, err := s.estimateAt(ctx, x, tolerance)
		if err != nil {
			return line{}, err
		}
		f, known := s.fit()
		zero, stdErr, _ := f.solve()
		done := stdErr <= tolerance || s.isBehind(f) ||
			stdErr <= Rough && (!enough || s.spent() || before == s.drawn && !s.isExact(d))
		lowest, highest := s.extent(func(*divergence) bool { return true })
		below := s.leastBelow()
		goal := zero
		switch {
		case known && done:
			return f, nil
		case s.spent():
			return f, s.tooExpensive()
		case !enough && below > x+2*Rough/Apart && !math.IsInf(below, 1): // M grows steeply with less noise
			goal = (x + below) / 2
		case known && !enough:
			return f, s.tooExpensive()
		case known:
		case !enough && (highest > x+leastStep || short == mostShort):
			return f, s.tooExpensive()
		case !enough && s.isHopeless(d): // more noise has a smaller M
			short, goal = short+1, x+Farthest
		case !enough: // a divergence falls faster with σ than M does
			short, goal = short+1, x-Farthest
		case d.sum < 1 || zero > x-leastStep-Rough/Apart: // it is far below δ, and few samples show that a σ is far too small
			goal = x - Farthest
		default: // with a little more noise than that, M is much smaller
			goal += Rough / Apart
		}
		x = min(max(goal, lowest-Farthest), highest+Farthest)
		if before == s.drawn && math.Abs(d.x()-x) < leastStep {
			x += leastStep
		}
	}
	return line{}, fmt.Errorf("%w: no noise multiplier found near %.4g", ErrNoEstimate, math.Exp(x))
}

// tooExpensive says how many samples were not enough, and why there is nothing better than plain losses.
func (s *search) tooExpensive() error {
	err := fmt.Errorf("%w: more than %d for H(%s)", ErrTooExpensive, s.drawn, s.direction)
	if last := s.estimates[len(s.estimates)-1]; last.untilted != nil {
		err = fmt.Errorf("%w: %w", err, last.untilted)
	}
	return err
}

// estimateAt draws at ln σ = x: many samples where δ is near, and few where they say in which direction it
// is. It goes on with an estimate that is there already. enough is false if all samples that the
// estimate may have are too few for the tolerance.
func (s *search) estimateAt(ctx context.Context, x, tolerance float64) (d *divergence, enough bool, err error) {
	if d = s.nearest(x); d == nil || math.Abs(d.x()-x) >= leastStep {
		if d, err = s.begin(ctx, roundUp(math.Exp(x)), s.first); err != nil {
			return nil, false, err
		}
		s.estimates = append(s.estimates, d)
	}
	if d.tables < s.first && !s.isExact(d) {
		if _, err := s.retabled(ctx, d, s.first); err != nil {
			return nil, false, err
		}
	}
	for want := max(Few, d.samples); ; {
		if s.watch(); s.isExact(d) {
			return d, true, nil
		}
		if s.spent() && d.samples > 0 {
			return d, false, nil
		}
		limit, need := s.limit(d), float64(want)
		if need > limit { // what is missing is only found with the finest tables
			need = math.Inf(1)
		} else if d.samples == 0 && (s.tables > planWork || s.isHopeless(d)) { // else a plan draws some samples first
			need = max(need, Apart*Apart*d.bound()/s.Delta)
		}
		finer, err := s.refined(ctx, d, need)
		if err != nil {
			return nil, false, err
		}
		if finer {
			want = Few
			continue
		}
		if d.samples == 0 && s.isHopeless(d) {
			return d, false, nil
		}
		if float64(want) > limit {
			if limit < fewest || d.samples > 0 && float64(d.samples+Few) > limit {
				return d, false, nil
			}
			want = uint64(limit)
		}
		if err := s.draw(ctx, d, want); err != nil {
			return nil, false, err
		}
		if want, enough = s.more(d, tolerance); enough {
			return d, true, nil
		}
	}
}

// refined makes the finest tables of an estimate if its samples would take three times as long as the
// tables that it has, and says whether these lower M.
func (s *search) refined(ctx context.Context, d *divergence, need float64) (bool, error) {
	work := need * float64(s.Run.Strategy.Steps) * statesPerSecond / stepsPerSecond
	if s.direction == montecarlo.Q || min(work, s.tables) < 3*d.tables { // H(Q,P) has no tables
		return false, nil
	}
	return s.retabled(ctx, d, s.tables)
}

// retabled makes the tables of an estimate anew, and says whether they lower M to half of it.
func (s *search) retabled(ctx context.Context, d *divergence, work float64) (bool, error) {
	finer, err := s.begin(ctx, d.Spec.NoiseMultiplier, work)
	if err != nil {
		return false, err
	}
	if d.tables, d.untilted = work, finer.untilted; finer.bound() > d.bound()/2 {
		return false, nil
	}
	*d = *finer
	return true, nil
}

// more returns the number of samples that an estimate should have; done says that it has them.
func (s *search) more(d *divergence, tolerance float64) (want uint64, done bool) {
	grown := d.samples + max(Few, d.samples/2)
	if !d.isConclusive() {
		return grown, d.most() <= s.Delta/math.E
	}
	p := s.point(d)
	f, _ := s.fit()
	if p.u < -Rough && -p.u > Apart*p.stdErr || s.isBehind(f) { // far above δ
		return d.samples, true
	}
	_, stdErr, bySlope := f.solve()
	if stdErr <= tolerance || 2*bySlope*bySlope > tolerance*tolerance {
		return d.samples, true
	}
	grow := (stdErr*stdErr - bySlope*bySlope) / (tolerance*tolerance - bySlope*bySlope)
	return uint64(float64(d.samples)*min(grow, 4)) + Few, false
}

// noise is the noise multiplier at which the divergence of a search is δ.
func (s *search) noise(ctx context.Context, start, tolerance float64) (Noise, error) {
	f, err := s.run(ctx, math.Log(start), tolerance)
	if err != nil {
		return Noise{}, err
	}
	x, stdErr, _ := f.solve()
	return Noise{Multiplier: math.Exp(x), StdErr: stdErr * math.Exp(x), OneDirection: true, found: s}, nil
}

// both adds the direction of a search to a noise multiplier that was found in the other one: it is
// enough to know that the divergence is below δ there, and its own noise multiplier counts if it is not.
func (s *search) both(ctx context.Context, n Noise, tolerance float64) (Noise, error) {
	d, err := s.begin(ctx, roundUp(n.Multiplier), s.tables)
	if err != nil {
		return n, err
	}
	s.estimates = append(s.estimates, d)
	s.watch()
	below := func() bool {
		expected := float64(d.samples) * s.Delta / d.bound() // sum of the values if the mean is δ
		return d.most() <= s.Delta/math.E || d.sum < expected-Apart*math.Sqrt(expected)
	}
	if d.proof.bound > s.Delta {
		limit := s.limit(d)
		if limit < fewest || s.isHopeless(d) {
			return n, s.tooExpensive()
		}
		err := s.drawUntil(ctx, d, limit, func() bool { return below() || d.isConclusive() || s.spent() })
		if err != nil {
			return n, err
		}
		if !below() && !d.isConclusive() {
			return n, s.tooExpensive()
		}
	}
	n.OneDirection = false
	if !d.isConclusive() {
		return n, nil
	}
	if p := s.point(d); p.u > Apart*p.stdErr {
		return n, nil
	}
	other, err := s.noise(ctx, n.Multiplier, tolerance)
	if err != nil {
		return n, err
	}
	if n.floor = other.Multiplier; n.floor > n.Multiplier {
		n.Multiplier, n.StdErr = n.floor, other.StdErr
	}
	return n, nil
}
