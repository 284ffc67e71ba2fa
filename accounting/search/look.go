package search

import (
	"math"
)

// look is one divergence at one noise multiplier, as samples show it.
type look struct {
	x        float64 // ln σ
	logBound float64 // ln M/δ
	excess   float64 // ln of the estimated divergence over δ
	hits     float64 // events of a Poisson variable that would tell as much of excess
	samples  uint64
	seen     float64 // sum of the values over M
	squares  float64 // of their squares
	largest  float64 // of them

	// gap is ln of the factor by which σ would have to grow for a divergence of δ if it fell
	// with σ as a Gaussian mechanism's does; gapErr is its standard error, by samples alone.
	gap, gapErr float64
}

// count is the number of equal values that would tell as much as the values of a look: the square
// of their sum over the sum of their squares. The largest is added to the squares once more, for
// larger values that were not seen.
func (l *look) count() float64 {
	if l.seen == 0 {
		return 0
	}
	return l.seen * l.seen / (l.squares + l.largest*l.largest)
}

// stdErr is the standard error of excess.
func (l *look) stdErr() float64 { return math.Sqrt((1 + luck/l.hits) / l.hits) }

// tells says that a look tells more than a bound, and that its standard error is no matter of luck.
func (l *look) tells() bool { return l.count() >= leastCount && l.seen >= leastSeen }

// Pace says how fast a divergence falls with σ: like the divergence of a Gaussian mechanism with
// this power of σ. It is nearly the same at neighbouring σ and for similar candidates.
type Pace struct {
	Value, StdErr float64 // above 0
}

// UnknownPace is the pace of a candidate while nothing is known of it.
var UnknownPace = Pace{1, Apart * paceDrift}

// Similar is the pace of a similar candidate, as far as this one tells it.
func (p Pace) Similar() Pace { return Pace{p.Value, math.Hypot(p.StdErr, paceDrift)} }

// add adds samples: how many, the sum of their values over M, the sum of the squares, and the
// largest.
func (l *look) add(samples uint64, sum, squares, largest float64) {
	l.samples += samples
	l.seen, l.squares, l.largest = l.seen+sum, l.squares+squares, max(l.largest, largest)
}

// settle sets all that follows from the samples. Where bounded, or where the samples tell nothing,
// the sum of the values counts as M at least.
func (s *Scale) settle(l *look, bounded bool) {
	n := float64(l.samples)
	mean, square := l.seen/n, (l.squares+l.largest*l.largest)/n
	if bounded || !l.tells() {
		mean, square = max(l.seen, 1)/n, max(l.squares, 1)/n
	}
	s.set(l, l.logBound+math.Log(mean), n/max(1e-9, square/(mean*mean)-1))
}

// set sets the excess and the hits of a look, and the gap that follows from them.
func (s *Scale) set(l *look, excess, hits float64) {
	l.excess, l.hits = excess, hits
	stdErr := l.stdErr()
	l.gap = -s.at(l.excess)
	l.gapErr = s.at(l.excess-stdErr/2) - s.at(l.excess+stdErr/2)
}

// isFar says whether the few samples of a look say all that is needed of it: that its σ is far too
// small.
func (l *look) isFar() bool { return l.tells() && l.gap > Far && l.gap > Apart*l.gapErr }

// more returns the number of samples that a look should have where it does not say enough yet; done
// says that its divergence is so far below δ that more would say little.
func (l *look) more() (want uint64, done bool) {
	most := (l.seen + Apart*(math.Sqrt(l.seen)+0.5)) / float64(l.samples)
	return l.samples + max(Few, l.samples/2), l.logBound+math.Log(most) <= 1e-9
}

// upTo returns the number of samples that bring the standard error of the solution down to
// tolerance; done says that the look has them, or that most of the error comes from the pace, so
// that another look tells more.
func (l *look) upTo(f Solution, tolerance float64) (want uint64, done bool) {
	if f.StdErr <= tolerance || 2*f.ByPace*f.ByPace > tolerance*tolerance {
		return l.samples, true
	}
	byPace := f.ByPace * f.ByPace
	grow := (f.StdErr*f.StdErr - byPace) / (tolerance*tolerance - byPace)
	return uint64(float64(l.samples)*grow) + Few, false
}

// Drawn is the samples of a divergence at a noise multiplier that were drawn elsewhere.
type Drawn struct {
	NoiseMultiplier float64 // σ, above 0
	Bound           float64 // M, above 0
	Samples         uint64  // at least 1
	Sum             float64 // of the values over M
}

// look returns the look of drawn samples. The sum of their squares is not known; the sum of the
// values, each at most 1, bounds it.
func (s *Scale) look(d Drawn) look {
	l := look{x: math.Log(d.NoiseMultiplier), logBound: math.Log(d.Bound / s.delta)}
	l.add(d.Samples, d.Sum, d.Sum, 0)
	s.settle(&l, false)
	return l
}

// Seen is the information of drawn samples on the divergence. Values with this sum have the largest
// variance where each is 0 or M, and this case is taken.
func (d Drawn) Seen() Seen {
	return Seen{math.Log(d.NoiseMultiplier), d.Sum, float64(d.Samples) / d.Bound}
}

// More returns the number of samples that bring the standard error of ln σ down to tolerance, those
// drawn included; done says that there are enough. A divergence far from δ may have a larger error,
// since the pace, by which σ follows from it, is uncertain anyway.
func (s *Scale) More(d Drawn, tolerance float64) (want uint64, done bool) {
	l := s.look(d)
	switch {
	case l.isFar():
		return d.Samples, true
	case !l.tells():
		return l.more()
	}
	f := Solution{StdErr: l.gapErr}
	return l.upTo(f, math.Hypot(tolerance, paceDrift*l.gap))
}

// CurveOf is the curve of a divergence by drawn samples, while nothing is known of its pace.
func (s *Scale) CurveOf(all []Drawn) *Curve {
	var seen []Seen
	for _, d := range all {
		seen = append(seen, d.Seen())
	}
	return s.Curve(seen, UnknownPace)
}

// divergence is what a look says of the divergence.
func (l *look) divergence(delta float64) Seen {
	return Seen{l.x, l.hits, l.hits / (delta * math.Exp(l.excess))}
}

// fit is where the divergence is δ, by all looks together. A look with only a bound, because it has
// no samples or none that tells anything, counts for nothing beside others.
func (s *searcher) fit() Solution {
	var seen []Seen
	for _, l := range s.looks {
		if l.samples > 0 && l.tells() {
			seen = append(seen, l.divergence(s.Delta))
		}
	}
	if seen == nil {
		seen = []Seen{s.looks[len(s.looks)-1].divergence(s.Delta)}
	}
	return s.scale.Curve(seen, s.pace).Solve()
}
