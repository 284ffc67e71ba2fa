package calibration

import (
	"context"
	"errors"
	"fmt"
	"math"

	"minsep/internal/accounting"
	"minsep/internal/montecarlo"
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
	scale     *Scale
	before    Slope                   // that is known before the first estimate
	behind    float64                 // σ above which it is enough to know it roughly
	below     bool                    // it is enough to know that the divergence is below δ
	samples   func(*estimate) float64 // the largest number of samples of an estimate
	first     float64                 // the least work of its tables
	tables    float64                 // the largest work of its tables
	spent     func() bool             // says that no more time may be used
	workers   int
	watch     func(*estimate) // is told of each step, if not nil

	estimates []*estimate
	drawn     uint64
	states    float64 // of all tables, at most
	seconds   float64 // of processors that the samples took
	making    float64 // seconds of processors of the slowest tables
}

func (c Claim) newSearch(d montecarlo.Direction, before Slope) (*search, error) {
	scale, err := NewScale(c.Epsilon, c.Delta)
	s := &search{
		Claim:     c,
		direction: d,
		scale:     scale,
		before:    before,
		behind:    math.Inf(1),
		first:     leastTables,
		tables:    planTables,
		watch:     func(*estimate) {},
	}
	s.samples = func(l *estimate) float64 { return c.mostSamples(l.isConclusive()) }
	s.spent = func() bool { return s.steps() > 3*mostWork }
	return s, err
}

// nearest is the estimate that is nearest to ln σ = x; nil if there is none.
func (s *search) nearest(x float64) (nearest *estimate) {
	for _, l := range s.estimates {
		if nearest == nil || math.Abs(l.x-x) < math.Abs(nearest.x-x) {
			nearest = l
		}
	}
	return nearest
}

const (
	mostEstimates = 20    // after which a search does not converge
	leastStep     = 0.005 // between two estimates, in ln σ
)

// run estimates at noise multipliers from ln σ = x on, each where the estimates before it have δ, until the
// standard error of ln σ is at most tolerance, or the samples are used up.
func (s *search) run(ctx context.Context, x, tolerance float64) (line, error) {
	short := 0 // estimates that had too few samples to show anything
	for range mostEstimates {
		before := s.drawn
		l, enough, err := s.estimateAt(ctx, x, tolerance)
		if err != nil {
			return line{}, err
		}
		f := s.fit()
		goal, stdErr, _ := f.solve()
		known := s.isKnown()
		switch {
		case known && (stdErr <= tolerance || s.isBehind(f)):
			return f, nil
		case known && stdErr <= Rough && (!enough || s.spent() || before == s.drawn && !s.isExact(l)):
			return f, nil
		case s.spent():
			return f, s.tooExpensive()
		case !enough && !known && s.leastBelow() > x+2*Rough/Apart && !math.IsInf(s.leastBelow(), 1): // M grows steeply with less noise
			goal = (x + s.leastBelow()) / 2
		case !enough && (known || s.hasAbove(x) || short == 3):
			return f, s.tooExpensive()
		case !enough && s.isHopeless(l): // more noise has a smaller M
			short, goal = short+1, x+Farthest
		case !enough: // a divergence falls faster with σ than M does
			short, goal = short+1, x-Farthest
		case known && !l.isConclusive() && l.most() <= 0: // the line is too high there
			goal = (x + s.highest()) / 2
		case !known && (l.sum < 1 || goal > x-leastStep-Rough/Apart): // it is far below δ, and few samples show that a σ is far too small
			goal = x - Farthest
		case !known: // with a little more noise than that, M is much smaller
			goal += Rough / Apart
		}
		if x = s.within(goal); !s.isNear(l, x) {
			continue
		}
		if before == s.drawn {
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

// within is the goal, or the ln σ nearest to it that is at most Farthest from all estimates.
func (s *search) within(goal float64) float64 {
	least, most := math.Inf(1), math.Inf(-1)
	for _, l := range s.estimates {
		least, most = min(least, l.x), max(most, l.x)
	}
	return min(max(goal, least-Farthest), most+Farthest)
}

// isNear says whether ln σ = x is the place of an estimate.
func (s *search) isNear(l *estimate, x float64) bool { return math.Abs(l.x-x) < leastStep }

// hasAbove says whether there is an estimate at more noise.
func (s *search) hasAbove(x float64) bool {
	for _, l := range s.estimates {
		if l.x > x+leastStep {
			return true
		}
	}
	return false
}

// highest is the largest ln σ of an estimate that shows more than a bound, -∞ if there is none.
func (s *search) highest() float64 {
	highest := math.Inf(-1)
	for _, l := range s.estimates {
		if l.isConclusive() {
			highest = max(highest, l.x)
		}
	}
	return highest
}

// leastBelow is the least ln σ of an estimate whose samples show that the divergence is below δ, infinite
// if there is none.
func (s *search) leastBelow() float64 {
	least := math.Inf(1)
	for _, l := range s.estimates {
		if l.samples > 0 && l.most() <= 0 {
			least = min(least, l.x)
		}
	}
	return least
}

// isHopeless says whether all the samples of an estimate would show nothing if the divergence were δ: less
// than a ninth of M or, of plain losses, which are 0 or large, less than nine values.
func (s *search) isHopeless(l *estimate) bool {
	const least = Apart * Apart
	if l.proposal == nil {
		return l.checkDrawn() != nil || s.samples(l) < least*math.Exp(l.logBound)
	}
	return s.samples(l)*least < math.Exp(l.logBound)
}

// isKnown says whether any estimate shows more than a bound.
func (s *search) isKnown() bool {
	for _, l := range s.estimates {
		if l.isConclusive() {
			return true
		}
	}
	return false
}

// isBehind says whether a fit is clearly above s.behind: it need be known only roughly then.
func (s *search) isBehind(f line) bool {
	x, stdErr, _ := f.solve()
	return stdErr <= Rough/Apart && x-Apart*stdErr > math.Log(s.behind)
}

// fit is the line through all estimates that show more than a bound, or else through the last estimate.
func (s *search) fit() line {
	var points []point
	for _, l := range s.estimates {
		if l.isConclusive() {
			points = append(points, s.point(l))
		}
	}
	if points == nil {
		points = []point{s.point(s.estimates[len(s.estimates)-1])}
	}
	return s.scale.fit(points, s.before)
}

// estimateAt draws at ln σ = x: many samples where δ is near, and few where they say in which direction it
// is. It goes on with an estimate that is there already. If more samples are wanted than take as long as
// finer tables, these are made, and taken if they lower M. enough is false if all samples that the
// estimate may have are too few for the tolerance.
func (s *search) estimateAt(ctx context.Context, x, tolerance float64) (l *estimate, enough bool, err error) {
	for _, of := range s.estimates {
		if s.isNear(of, x) {
			l = of
		}
	}
	switch {
	case l == nil:
		if l, err = s.begin(ctx, x, s.first); err != nil {
			return nil, false, err
		}
		s.estimates = append(s.estimates, l)
	case l.tables < s.first && !s.isExact(l):
		if _, err := s.retabled(ctx, l, s.first); err != nil {
			return nil, false, err
		}
	}
	if l.samples == 0 && s.tables > planTables { // tables that take less time than the samples without them
		for finer := true; finer && err == nil; {
			finer, err = s.refined(ctx, l, max(Few, Apart*Apart*math.Exp(l.logBound)))
		}
		if err != nil {
			return nil, false, err
		}
	}
	for want := max(Few, l.samples); ; {
		if s.watch(l); s.isExact(l) || s.below && l.proof.bound <= s.Delta {
			return l, true, nil
		}
		if s.spent() && l.samples > 0 {
			return l, false, nil
		}
		if most := s.samples(l); float64(want) > most || l.samples == 0 && s.isHopeless(l) {
			draws := math.Exp(l.logBound)
			if !s.isHopeless(l) { // what is missing is only found with the finest tables
				draws = math.Inf(1)
			}
			finer, err := s.refined(ctx, l, draws)
			if err != nil {
				return nil, false, err
			}
			if finer {
				want = Few
				continue
			}
			if most < fewest || l.samples > 0 && float64(l.samples+Few) > most || s.isHopeless(l) {
				return l, false, nil
			}
			want = uint64(most)
		}
		finer, err := s.refined(ctx, l, float64(want))
		if err != nil {
			return nil, false, err
		}
		if finer {
			want = Few
			continue
		}
		if err := s.draw(ctx, l, want); err != nil {
			return nil, false, err
		}
		more, done := s.more(l, tolerance)
		if done {
			return l, true, nil
		}
		want = more
	}
}

// refined makes the tables of an estimate anew if it wants more samples than take as long as finer ones,
// and says whether these lower M.
func (s *search) refined(ctx context.Context, l *estimate, want float64) (bool, error) {
	const stepsPerState = 2 // steps of a sample take as long as this number of states
	work := min(s.tables, stepsPerState*want*float64(s.Run.Strategy.Steps))
	if s.direction == montecarlo.Q || work < 3*l.tables { // H(Q,P) has no tables
		return false, nil
	}
	if 3*work > s.tables { // there would be no other step
		work = s.tables
	}
	return s.retabled(ctx, l, work)
}

// retabled makes the tables of an estimate anew, and says whether they lower M to half of it.
func (s *search) retabled(ctx context.Context, l *estimate, work float64) (bool, error) {
	finer, err := s.begin(ctx, l.x, work)
	if err != nil {
		return false, err
	}
	if l.tables, l.untilted = work, finer.untilted; finer.bound() > l.bound()/2 {
		return false, nil
	}
	*l = *finer
	return true, nil
}

// more returns the number of samples that an estimate should have; done says that it has them.
func (s *search) more(l *estimate, tolerance float64) (want uint64, done bool) {
	if s.below {
		expected := float64(l.samples) * math.Exp(-l.logBound) // sum of the values if the mean is δ
		done = l.sum < expected-Apart*math.Sqrt(expected) || l.most() <= -1 || l.isConclusive()
		return l.samples + max(Few, l.samples/2), done
	}
	if !l.isConclusive() { // or far below δ
		return l.samples + max(Few, l.samples/2), l.most() <= -1
	}
	p, f := s.point(l), s.fit()
	if p.u < -Rough && -p.u > Apart*p.stdErr || s.isBehind(f) { // far above δ
		return l.samples, true
	}
	_, stdErr, bySlope := f.solve()
	if stdErr <= tolerance || 2*bySlope*bySlope > tolerance*tolerance {
		return l.samples, true
	}
	grow := (stdErr*stdErr - bySlope*bySlope) / (tolerance*tolerance - bySlope*bySlope)
	return uint64(float64(l.samples)*min(grow, 4)) + Few, false
}

// noise is the noise multiplier at which the divergence of a search is δ.
func (s *search) noise(ctx context.Context, start, tolerance float64) (Noise, error) {
	f, err := s.run(ctx, math.Log(start), tolerance)
	if err != nil {
		return Noise{}, err
	}
	x, stdErr, _ := f.solve()
	n := Noise{
		Multiplier:   math.Exp(x),
		OneDirection: true,
		Samples:      s.drawn,
		found:        s,
		slope:        Slope{f.slope, math.Sqrt(f.slopeVar)},
	}
	n.StdErr = stdErr * n.Multiplier
	nearest := s.nearest(x)
	ratio, _ := f.at(nearest.x)
	n.Effort = math.Exp(nearest.logBound - ratio) // M over the divergence
	return n, nil
}

// both adds the direction of a search to a noise multiplier that was found in the other one.
func (s *search) both(ctx context.Context, n Noise, tolerance float64) (Noise, error) {
	s.below = true
	l, enough, err := s.estimateAt(ctx, math.Log(n.Multiplier), tolerance)
	if err != nil {
		return n, err
	}
	n.Samples, n.OneDirection = n.Samples+s.drawn, false
	if !enough {
		return n, s.tooExpensive()
	}
	s.below = false
	if p := s.point(l); !l.isConclusive() || p.u > Apart*p.stdErr {
		return n, nil
	}
	other, err := s.noise(ctx, n.Multiplier, tolerance)
	if err != nil {
		return n, err
	}
	n.Samples, n.floor, n.Effort = n.Samples+other.Samples, other.Multiplier, max(n.Effort, other.Effort)
	if other.Multiplier > n.Multiplier {
		n.Multiplier, n.StdErr = other.Multiplier, other.StdErr
	}
	return n, nil
}

// goal is the goal of a trial at ln σ = x with a largest value.
func (s *search) goal(x, bound, errors float64) accounting.Goal {
	g := accounting.Goal{Bound: bound, Errors: errors}
	if s == nil { // nothing is known
		g.Mean, g.Errors = bound, 1
		return g
	}
	if s.isKnown() {
		ratio, stdErr := s.fit().at(x)
		g.Mean = min(bound, s.Delta*math.Exp(ratio))
		g.Seen = bound / max(1e-300, g.Mean*stdErr*stdErr)
		return g
	}
	for _, l := range s.estimates { // nothing was seen: a value of M would have shown a mean that falls with σ as divergences do
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
