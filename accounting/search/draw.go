package search

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"

	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
	"minsep/sampling/stream"
)

// drawing is a look that can be gone on with.
type drawing struct {
	*look
	proposal tilt.Proposal
	verifier *tilt.Verifier
}

// look draws at ln σ = x: more samples where δ is near, and few where they say in which direction
// it is. short says that the samples are too few for the tolerance, because more take too long.
// Where more samples would be drawn than take as long as finer tables, these are tried first.
// Tables that do not lower M are left, and the drawing goes on.
func (s *searcher) look(ctx context.Context, x, tolerance float64) (short bool, err error) {
	level, dear := s.firstLevel(tolerance)
	var d *drawing
	for {
		proposal, tables, err := s.propose(ctx, x, tolerance, workOf(level))
		if err != nil {
			return false, err
		}
		if d == nil || proposal.Bound < d.proposal.Bound {
			if d != nil {
				s.looks = s.looks[:len(s.looks)-1]
			}
			var proven bool
			if d, proven, err = s.begin(x, proposal, tables); proven || err != nil {
				return false, err
			}
		}
		last := level == s.lastLevel() || s.direction == montecarlo.Q // which has no tables
		if last {
			dear = math.Inf(1)
		}
		if s.isHopeless(d.look, min(dear, s.mostSamples(d.look))) {
			if last || s.isFarBehind() {
				return true, nil
			}
			level, dear = level+1, dearer*dear
			continue
		}
		short, err = s.draw(ctx, d, tolerance, dear)
		if !errors.Is(err, errDear) {
			return short, err
		}
		if s.isFarBehind() {
			return true, nil
		}
		level, dear = level+1, dearer*dear
	}
}

// begin begins a look. No sample is drawn where the divergence is proven to be far below δ, or
// where it is enough to know that it is below.
func (s *searcher) begin(x float64, proposal tilt.Proposal, tables tilt.Tables) (d *drawing, proven bool, err error) {
	s.looks = append(s.looks, look{x: x, logBound: math.Log(max(proposal.Bound, 1e-300) / s.Delta)})
	d = &drawing{look: &s.looks[len(s.looks)-1], proposal: proposal}
	if proposal.Divergence < Negligible*s.Delta || s.below && proposal.Divergence <= s.Delta {
		s.scale.set(d.look, math.Log(max(proposal.Divergence, s.Delta*1e-30)/s.Delta), leastCount)
		return d, true, nil
	}
	d.verifier, err = tables.NewVerifier(proposal, s.key(proposal))
	return d, false, err
}

// errDear says that tables with more orders, and fewer samples, may take less time.
var errDear = errors.New("search: more than a few samples")

// draw draws samples until the standard error of ln σ is at most tolerance, or it is clear that
// another σ tells more.
func (s *searcher) draw(ctx context.Context, l *drawing, tolerance, dear float64) (short bool, err error) {
	var buffer [Few]float64
	for want := max(Few, l.samples); ; {
		if float64(want) > dear {
			return false, errDear
		}
		if most := s.mostSamples(l.look); float64(want) > most {
			if l.samples > 0 && float64(l.samples+Few) > most {
				return true, nil
			}
			want = max(Few, uint64(most))
		}
		for l.samples < want {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			dst := buffer[:min(Few, want-l.samples)]
			l.verifier.Values(dst, l.samples)
			sum, squares, largest := 0.0, 0.0, 0.0
			for _, y := range dst {
				y = max(0, y/l.proposal.Bound-l.proposal.Slack)
				sum, squares, largest = sum+y, squares+y*y, max(largest, y)
			}
			l.add(uint64(len(dst)), sum, squares, largest)
			s.drawn += uint64(len(dst))
		}
		s.scale.settle(l.look, s.below)
		if s.isBelow(l.look) || s.isFar(l.look) {
			return false, nil
		}
		done := false
		if !s.isEnough(l.look) {
			want, done = l.more()
		} else if f := s.fit(); s.isBehind(f) && f.StdErr <= behindError {
			done = true
		} else {
			want, done = l.upTo(f, tolerance)
		}
		if done {
			return false, nil
		}
	}
}

// isBelow says whether it is enough to know that a divergence is below δ, and a look says so. With
// a mean of δ, the sum of its values over M would be about its samples over M/δ, and at most Apart
// standard errors less.
func (s *searcher) isBelow(l *look) bool {
	most := float64(l.samples) * math.Exp(-l.logBound)
	return s.below && l.seen < most-Apart*math.Sqrt(most)
}

// isEnough says whether a look tells enough. Where it is to be shown that a divergence is below δ,
// the sum itself says so.
func (s *searcher) isEnough(l *look) bool {
	if s.below {
		return l.seen >= leastCount
	}
	return l.tells()
}

// isFar says whether the few samples of a look say all that is needed of it: that its σ is far too
// small, or that the noise multiplier is behind.
func (s *searcher) isFar(l *look) bool {
	if s.below || !l.tells() {
		return false
	}
	if s.retreats == 0 && l.isFar() {
		return true
	}
	f := s.fit()
	return s.isBehind(f) && f.StdErr <= behindError
}

// isFarBehind says whether the looks so far are a rough estimate by which a candidate is behind.
func (s *searcher) isFarBehind() bool {
	if s.below || !s.isTold() {
		return false
	}
	f := s.fit()
	return f.StdErr <= rough && s.isBehind(f)
}

// isHopeless says whether, by the other looks, this number of samples is sure to tell nothing.
func (s *searcher) isHopeless(l *look, samples float64) bool {
	if s.below || l.samples > 0 || !s.isTold() {
		return false
	}
	f := s.fit()
	gap := f.Pace.Value*(f.X-l.x) + f.StdErr
	return samples*math.Exp(s.scale.Ratio(-gap)) < leastSeen*math.Exp(l.logBound)
}

// Figures of the time of samples, as measured: above wideBands bands the time of a sample is
// proportional to the bands, since the noisy outputs are correlated with every column. With several
// examples per owner a sample takes OwnersFactor times their number as long, since the ratio is
// drawn for each of them.
const (
	wideBands    = 32
	OwnersFactor = 2.7
)

// mostSamples is the largest number of samples of a look. It is smaller with several examples per
// owner, since each sample takes longer. Where enough is seen for a rough estimate, only a share of
// it is allowed.
func (s *searcher) mostSamples(l *look) float64 {
	most := mostWork / float64(s.Run.Strategy.Steps) / s.width()
	if !s.below && s.isEnough(l) { // nothing is known of a candidate while the side is not
		most *= cmp.Or(s.part, RoughShare)
	}
	if s.Share > 0 {
		most *= s.Share
	}
	if s.Run.MaxExamplesPerOwner > 1 {
		most /= OwnersFactor * float64(s.Run.MaxExamplesPerOwner)
	}
	return most
}

// width is the time of a sample over the time of one with a narrow strategy.
func (s *searcher) width() float64 {
	return max(1, float64(s.Run.Strategy.Bands())/wideBands)
}

// key is public, and of no other purpose.
func (s *searcher) key(proposal tilt.Proposal) stream.Key {
	config, err := json.Marshal(struct {
		Seed   uint64      `json:"seed"`
		Config tilt.Config `json:"config"`
	}{s.Seed, proposal.Config})
	if err != nil { // numbers and names
		panic(err)
	}
	return stream.PublicKey("plan", config)
}
