package planner

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"minsep/accounting"
)

// look is one divergence at one noise multiplier, as samples show it.
type look struct {
	x        float64 // ln σ
	logBound float64 // ln M/δ
	excess   float64 // ln of the estimated divergence over δ
	stdErr   float64 // of excess
	samples  uint64
	seen     float64 // sum of the values over M
	squares  float64 // of their squares
	largest  float64 // of them

	// gap is ln of the factor by which σ would have to grow for a divergence of δ if it fell
	// with σ as a Gaussian mechanism's does; gapErr is its standard error, by samples alone.
	gap, gapErr float64
}

// count is how many equal values would tell as much as the values of a look: the square of
// their sum over the sum of their squares. The largest is added to the squares once more, for
// larger values that were not seen.
func (l *look) count() float64 {
	if l.seen == 0 {
		return 0
	}
	return l.seen * l.seen / (l.squares + l.largest*l.largest)
}

// tells says whether a look tells more than a bound.
func (l *look) tells() bool { return l.count() >= leastTold && l.seen >= leastSeen }

// isEnough says whether the standard error of a look is no matter of luck.
func (l *look) isEnough() bool { return l.count() >= leastCount && l.seen >= leastSeen }

// pace is how fast a divergence falls with σ: as a Gaussian mechanism's does with this power of
// σ. It is nearly the same at neighbouring σ and for similar candidates.
type pace struct {
	value, stdErr float64
}

// unknownPace is the pace of a candidate while nothing is known of it.
var unknownPace = pace{1, 0.3}

// similar is the pace of a similar candidate, as far as this one tells it.
func (p pace) similar() pace { return pace{p.value, math.Hypot(p.stdErr, paceDrift)} }

// setGap sets the gap of a look from its excess.
func (s *searcher) setGap(l *look) error {
	gap := func(excess float64) (float64, error) {
		sigma, err := accounting.GaussianNoiseMultiplier(s.epsilon, min(0.9, max(1e-290, s.delta*math.Exp(excess))), 1)
		return math.Log(s.gaussian / sigma), err
	}
	var errs [3]error
	var high, low float64
	l.gap, errs[0] = gap(l.excess)
	high, errs[1] = gap(l.excess + l.stdErr/2)
	low, errs[2] = gap(l.excess - l.stdErr/2)
	l.gapErr = high - low
	return errors.Join(errs[:]...)
}

// fitted is where the divergence is δ, by all looks together.
type fitted struct {
	x, stdErr float64 // ln σ
	pace      pace
	byPace    float64 // the part of stdErr that is from the pace
}

// fit finds where the gaps are 0: a gap is pace times the way to there, up to its error. With
// one look, the pace is what it was before. A look with only a bound, because it has no samples
// or none that tells anything, counts for nothing beside others; nor does a look far away.
func (s *searcher) fit() fitted {
	looks := slices.DeleteFunc(slices.Clone(s.looks), func(l look) bool { return l.samples == 0 || !l.tells() })
	if len(looks) == 0 {
		looks = s.looks[len(s.looks)-1:]
	}
	nearest := slices.MinFunc(looks, func(a, b look) int { return cmp.Compare(math.Abs(a.gap), math.Abs(b.gap)) })
	looks = slices.DeleteFunc(looks, func(l look) bool { return math.Abs(l.gap) > 0.1+3*math.Abs(nearest.gap) })
	// gap = α - pace·t with t = x - nearest.x: least squares with weights, and the pace of before as
	// one more observation.
	certain := 1 / (s.pace.stdErr * s.pace.stdErr)
	var w, wt, wtt, wg, wtg float64
	for _, l := range looks {
		t := l.x - nearest.x
		off := math.Hypot(l.gapErr, bend*l.gap*l.gap)
		weight := 1 / (off*off + 1e-12)
		w, wt, wtt, wg, wtg = w+weight, wt+weight*t, wtt+weight*t*t, wg+weight*l.gap, wtg+weight*t*l.gap
	}
	wtt, wtg = wtt+certain, wtg-certain*s.pace.value
	det := w*wtt - wt*wt
	alpha, slope := (wtt*wg-wt*wtg)/det, (wt*wg-w*wtg)/det
	slope = max(slope, 0.1)
	t := alpha / slope
	f := fitted{x: nearest.x + t, pace: pace{slope, math.Sqrt(w / det)}}
	f.stdErr = math.Sqrt(max(0, wtt-2*t*wt+t*t*w)/det) / slope
	f.byPace = math.Abs(t) * f.pace.stdErr / slope
	return f
}
