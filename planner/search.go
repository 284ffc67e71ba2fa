package planner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
	"minsep/sampling/stream"
)

const (
	few      = 256 // samples of a first look
	near     = 0.7 // how far below δ a divergence may be for more samples to be drawn there
	maxLooks = 20
	leastSum = 5 // of values over M, that surely say something

	// Values that count from which on a standard error is no matter of luck, see [look.count], and
	// from which on a look tells anything; leastSeen is the sum of values over M that it needs
	// besides.
	leastCount, leastTold, leastSeen = 16, 6, 0.1

	// luck raises the standard error of a few values: they are drawn until they are enough, and
	// the error is known by their own spread only.
	luck = 4

	far = 0.1 // a gap above which a σ is far too small

	mostWork = 2e8 // samples times steps of an estimate

	// Bands from which on a sample takes as many times as long as there are more of them: the noisy
	// outputs are correlated with every column.
	wideBands = 32

	// Standard errors of ln σ: of an estimate that is given where a smaller error takes too
	// many samples, and of one that is enough for a candidate that is clearly behind.
	rough, behindError = 0.1, 0.03

	// Parts of the samples that a rough estimate may take: of a candidate, and of one that may be
	// the first.
	roughShare, refinedShare = 0.125, 0.5

	// Parts of the samples in which balanced min-sep must show enough for a rough estimate,
	// with one example per owner and with several: a candidate that does not takes hours to
	// verify.
	balancedShare, ownersShare = 0.1, 0.3

	// Of the tables of an order, in states times steps, where owners have several examples, where an
	// estimate is coarse and where it is fine: tables pay where many samples are drawn.
	ownersWork, coarseWork, fineWork, finestWork = 5e5, 3e6, 2e7, 1e8
	coarseError                                  = 0.005

	worthTables = 0.5 // of M, that finer tables must leave to be taken

	// Samples of balanced min-sep, or of several examples per owner, that take as long as the next
	// finer table; four times as many of others, and dearer times as many for each finer one.
	dearSamples, dearer = 2048, 6

	// Draws of the likelihood ratio of an owner's examples where an estimate is coarse: they raise σ
	// by about .3 %.
	coarseDraws = 64

	// Where all the samples of a look show too little, those at a noise multiplier so much smaller may
	// show enough, since a divergence falls faster with σ than M does; not where the samples would
	// show so little of a divergence of δ, as a sum of values over M. A search that begins where there
	// are no tables goes on at as much more noise.
	retreat, mostRetreats, mostRaised = 0.18, 2, 2
	leastHope                         = 0.05

	bend      = 0.25 // a gap of g from δ is taken to err by bend·g² besides its samples
	paceDrift = 0.08 // standard deviation of how the pace differs between similar candidates
)

// searcher looks for σ by one divergence.
type searcher struct {
	claim
	direction montecarlo.Direction
	pace      pace // before the first look
	looks     []look
	drawn     uint64
	gaussian  float64 // σ of a Gaussian mechanism of sensitivity 1
	behind    float64 // σ above which it is enough to know it roughly
	part      float64 // of the samples that a rough estimate may take; 0 for roughShare
	retreats  int     // looks where all samples showed too little
	below     bool    // it is enough to know that the divergence is below δ where it is
}

func (c claim) searcher(direction montecarlo.Direction, p pace) (*searcher, error) {
	sigma, err := accounting.GaussianNoiseMultiplier(c.epsilon, c.delta, 1)
	return &searcher{claim: c, direction: direction, pace: p, gaussian: sigma, behind: math.Inf(1)}, err
}

// sigma searches from start until the standard error of ln σ is at most tolerance, more would take
// too many samples, or it is at most behindError and σ at least behind: a noise multiplier that no
// more need be known of.
func (s *searcher) sigma(ctx context.Context, start, tolerance, behind float64) (Noise, error) {
	s.behind = behind
	x := math.Log(start)
	low, high, raised := math.Inf(-1), math.Inf(1), 0
	for range maxLooks {
		if err := ctx.Err(); err != nil {
			return Noise{}, err
		}
		short, err := s.look(ctx, x, tolerance)
		if errors.Is(err, ErrNoEstimate) && len(s.looks) == 0 && raised < mostRaised { // there are no tables for so little noise
			raised++
			low, x = x, x+retreat
			continue
		}
		if err != nil {
			return Noise{}, err
		}
		l, f := s.looks[len(s.looks)-1], s.fit()
		enough := tolerance
		switch {
		case short, s.retreats > 0:
			enough = rough
		case s.isBehind(f):
			enough = max(tolerance, behindError)
		}
		told := s.isTold()
		if f.stdErr <= enough && told {
			multiplier := math.Exp(f.x)
			return Noise{Multiplier: multiplier, StdErr: f.stdErr * multiplier, OneDirection: true, Samples: s.drawn, Effort: math.Exp(l.logBound - l.excess), found: s, pace: f.pace}, nil
		}
		if short {
			hopeless := float64(l.samples) < leastHope*math.Exp(l.logBound)
			if s.retreats == mostRetreats || told || hopeless {
				return Noise{}, fmt.Errorf("%w: more than %d", ErrTooDear, s.drawn)
			}
			s.retreats++
			high = min(high, x)
			x -= retreat
			continue
		}
		if l.gap > 3*l.gapErr {
			low = max(low, x)
		} else if l.gap < -3*l.gapErr {
			high = min(high, x)
		}
		next := within(toward(x, f.x), low, high)
		if slices.ContainsFunc(s.looks, func(l look) bool { return math.Abs(l.x-next) < 1e-9 }) {
			next += tolerance * (0.5 + float64(len(s.looks)%3)) // the same samples would say nothing new
		}
		x = next
	}
	return Noise{}, fmt.Errorf("%w: no noise multiplier found near %.4g", ErrNoEstimate, math.Exp(x))
}

// isTold says whether a look tells anything: else nothing is known but a bound.
func (s *searcher) isTold() bool {
	return slices.ContainsFunc(s.looks, func(l look) bool { return l.tells() })
}

// isBehind says whether a fit is clearly above the noise multiplier from which on it need be known
// roughly only.
func (s *searcher) isBehind(f fitted) bool {
	return math.Exp(f.x)*(1-apart*f.stdErr) > s.behind
}

// within is x where it is between low and high, which may be infinite; else between them, near
// the finite one.
func within(x, low, high float64) float64 {
	switch {
	case x > low && x < high:
		return x
	case math.IsInf(low, -1):
		return high - 0.1
	case math.IsInf(high, 1):
		return low + 0.1
	}
	return (low + high) / 2
}

// toward goes from ln σ = x to another, by a third of σ at most.
func toward(x, to float64) float64 { return min(x+0.3, max(x-0.3, to)) }

// drawing is a look that can be gone on with.
type drawing struct {
	*look
	proposal tilt.Proposal
	verifier *tilt.Verifier
}

// look draws at ln σ = x: more samples where δ is near, and few where they say in which direction
// it is. It says whether there were too few samples for the tolerance because more take too long.
// Where more than some samples would be drawn, finer tables are tried first; those that do not pay
// are left, and the drawing goes on.
func (s *searcher) look(ctx context.Context, x, tolerance float64) (short bool, err error) {
	work, dear := s.firstWork(tolerance)
	var d *drawing
	for {
		within := work
		if s.run.Sampler.BalancedMinSep != nil && work == coarseWork { // a state takes some times as long
			within /= 4
		}
		proposal, tables, err := s.propose(x, tolerance, within)
		if err != nil {
			return false, err
		}
		if d == nil || proposal.Bound < worthTables*d.proposal.Bound {
			if d != nil {
				s.looks = s.looks[:len(s.looks)-1]
			}
			var proven bool
			if d, proven, err = s.begin(x, proposal, tables); proven || err != nil {
				return false, err
			}
		}
		last := work == s.lastWork(tolerance) || s.direction == montecarlo.Q // which has no tables
		if last {
			dear = math.Inf(1)
		}
		if s.isHopeless(d.look, min(dear, s.mostSamples(d.look))) {
			if last || s.isFarBehind() {
				return true, nil
			}
			work, dear = finerWork(work), dearer*dear
			continue
		}
		short, err = s.draw(ctx, d, tolerance, dear)
		if !errors.Is(err, errDear) {
			return short, err
		}
		if s.isFarBehind() {
			return true, nil
		}
		work, dear = finerWork(work), dearer*dear
	}
}

// firstWork is the work of the tables that are tried first, and how many samples take as long as
// finer ones.
func (s *searcher) firstWork(tolerance float64) (work, dear float64) {
	dear = dearSamples
	if s.run.MaxExamplesPerOwner == 1 && s.run.Sampler.BalancedMinSep == nil {
		dear *= 4
	}
	dear = max(few, dear/s.width())
	switch {
	case tolerance < coarseError:
		return fineWork, 4 * dear
	case s.run.MaxExamplesPerOwner == 2, s.run.MaxExamplesPerOwner > 2 && s.run.Sampler.EpochMinSep == nil:
		return ownersWork, dear // tables of epochs serve no owner of three and more
	}
	return coarseWork, dear
}

// lastWork is the work of the finest tables that are tried. With several examples per owner,
// the finest of all take longer than the samples that they save.
func (s *searcher) lastWork(tolerance float64) float64 {
	switch {
	case s.run.MaxExamplesPerOwner == 1:
		return finestWork
	case s.run.Sampler.BalancedMinSep != nil && tolerance >= coarseError:
		return coarseWork
	}
	return fineWork
}

// finerWork is the next of the works of tables.
func finerWork(work float64) float64 {
	switch {
	case work < coarseWork:
		return coarseWork
	case work < fineWork:
		return fineWork
	}
	return finestWork
}

// propose makes a proposal with tables of so much work.
func (s *searcher) propose(x, tolerance, work float64) (tilt.Proposal, tilt.Tables, error) {
	spec := s.run.Loss(math.Exp(x))
	proposal, tables, err := tilt.NewProposalWithin(tilt.Config{Spec: spec, Epsilon: s.epsilon, Direction: s.direction}, work)
	if errors.Is(err, tilt.ErrNotTilted) {
		err = fmt.Errorf("%w: %w", ErrNoEstimate, err)
	}
	if tolerance >= coarseError {
		proposal.Draws = min(proposal.Draws, coarseDraws)
	}
	return proposal, tables, err
}

// begin begins a look. No sample is drawn where the divergence is proven to be far below δ, or
// where it is enough to know that it is below.
func (s *searcher) begin(x float64, proposal tilt.Proposal, tables tilt.Tables) (d *drawing, proven bool, err error) {
	s.looks = append(s.looks, look{x: x, logBound: math.Log(max(proposal.Bound, 1e-300) / s.delta)})
	d = &drawing{look: &s.looks[len(s.looks)-1], proposal: proposal}
	if proposal.Divergence < s.delta*math.Exp(-4) || s.below && proposal.Divergence <= s.delta {
		d.excess, d.stdErr = math.Log(max(proposal.Divergence, s.delta*1e-30)/s.delta), 1
		return d, true, s.setGap(d.look)
	}
	d.verifier, err = tables.NewVerifier(proposal, s.key(proposal))
	return d, false, err
}

// errDear says that tables with more orders, and fewer samples, may take less time.
var errDear = errors.New("planner: more than a few samples")

// draw draws samples until the standard error of ln σ is at most tolerance, or it is clear that
// another σ tells more.
func (s *searcher) draw(ctx context.Context, l *drawing, tolerance, dear float64) (short bool, err error) {
	var buffer [few]float64
	for want := max(few, l.samples); ; {
		if float64(want) > dear {
			return false, errDear
		}
		if most := s.mostSamples(l.look); float64(want) > most {
			if l.samples > 0 && float64(l.samples) > 0.8*most {
				return true, nil
			}
			want = max(few, uint64(most))
		}
		for l.samples < want {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			dst := buffer[:min(few, want-l.samples)]
			l.verifier.Values(dst, l.samples)
			for _, y := range dst {
				y = max(0, y/l.proposal.Bound-l.proposal.Slack)
				l.seen, l.squares, l.largest = l.seen+y, l.squares+y*y, max(l.largest, y)
			}
			l.samples, s.drawn = l.samples+uint64(len(dst)), s.drawn+uint64(len(dst))
		}
		n := float64(l.samples)
		mean, square := l.seen/n, (l.squares+l.largest*l.largest)/n
		if s.below || !l.tells() {
			mean, square = max(l.seen, 1)/n, max(l.squares, 1)/n // of no value at all, as much as one would be
		}
		l.excess = l.logBound + math.Log(mean)
		l.stdErr = math.Sqrt(max(0, square-mean*mean)) / mean / math.Sqrt(n)
		if l.tells() {
			l.stdErr *= math.Sqrt(1 + luck/l.count())
		}
		if err := s.setGap(l.look); err != nil {
			return false, err
		}
		// Of a mean of δ, as much would be seen as this, and three standard errors less at most.
		if most := n * math.Exp(-l.logBound); s.below && most >= 7 && l.seen < max(0.3, most-3*math.Sqrt(most)) {
			return false, nil
		}
		if s.isFar(l.look) {
			return false, nil
		}
		if !s.isEnough(l.look) {
			if l.logBound+math.Log(leastSum/n) < -near {
				return false, nil
			}
			want = l.samples + max(few, l.samples/2)
			continue
		}
		f := s.fit()
		if s.isBehind(f) && f.stdErr <= behindError || f.stdErr <= tolerance || f.byPace > 0.7*tolerance {
			return false, nil
		}
		goal := tolerance * tolerance
		want = uint64(math.Ceil(n * min(16, max(1.1, 1.05*(f.stdErr*f.stdErr-f.byPace*f.byPace)/(goal-f.byPace*f.byPace)))))
	}
}

// isEnough says whether a look's standard error is no matter of luck. Where it is to be shown that
// a divergence is below δ, the sum itself says so.
func (s *searcher) isEnough(l *look) bool {
	if s.below {
		return l.seen >= leastSum
	}
	return l.isEnough()
}

// isFar says whether the few samples of a look say all that is needed of it: that its σ is far too
// small, or that the noise multiplier is behind.
func (s *searcher) isFar(l *look) bool {
	if s.below || !l.tells() {
		return false
	}
	if s.retreats == 0 && l.gap > far && l.gap > apart*l.gapErr {
		return true
	}
	f := s.fit()
	return s.isBehind(f) && f.stdErr <= behindError
}

// isFarBehind says whether the looks so far are a rough estimate by which a candidate is behind.
func (s *searcher) isFarBehind() bool {
	if s.below || !s.isTold() {
		return false
	}
	f := s.fit()
	return f.stdErr <= rough && s.isBehind(f)
}

// isHopeless says whether so many samples of a look are sure to tell nothing, by the other looks.
func (s *searcher) isHopeless(l *look, samples float64) bool {
	if s.below || l.samples > 0 || !s.isTold() {
		return false
	}
	f := s.fit()
	gap := f.pace.value*(f.x-l.x) + f.stdErr
	delta, err := accounting.Gaussian{NoiseMultiplier: s.gaussian * math.Exp(-gap), Sensitivity: 1}.Delta(s.epsilon)
	return err == nil && samples*delta/s.delta < leastSeen*math.Exp(l.logBound)
}

// mostSamples is how many samples a look may take; samples of several examples an owner take
// longer each. Where enough is seen for a rough estimate, it is a part of that number.
func (s *searcher) mostSamples(l *look) float64 {
	most := mostWork / float64(s.run.Strategy.Steps) / s.width()
	switch {
	case s.isEnough(l):
		most *= cmp.Or(s.part, roughShare)
	case s.run.Sampler.BalancedMinSep != nil && s.run.MaxExamplesPerOwner > 1:
		most *= ownersShare
	case s.run.Sampler.BalancedMinSep != nil:
		most *= balancedShare
	}
	if s.share > 0 {
		most *= s.share
	}
	if s.run.MaxExamplesPerOwner > 1 {
		most /= ownersFactor * float64(s.run.MaxExamplesPerOwner)
	}
	return most
}

// width is how many times as long a sample takes as one of a narrow strategy.
func (s *searcher) width() float64 {
	return max(1, float64(s.run.Strategy.Bands())/wideBands)
}

// key is public, and of no other purpose.
func (s *searcher) key(proposal tilt.Proposal) stream.Key {
	config, err := json.Marshal(struct {
		Seed   uint64      `json:"seed"`
		Config tilt.Config `json:"config"`
	}{s.seed, proposal.Config})
	if err != nil { // numbers and names
		panic(err)
	}
	return stream.PublicKey("plan", config)
}
