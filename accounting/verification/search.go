package verification

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"minsep/accounting/search"
)

// search estimates δ at noise multipliers, each where the earlier estimates have the target, until
// δ is known well there. It returns the estimates by rising noise multiplier. Where M is so large
// that an estimate takes too many samples, the noise multiplier counts as too small. Where the
// share of estimates in a budget is used up, it returns the estimates that there are. proven, if
// its bounds are not 0, tells how M falls.
func (e *estimator) search(ctx context.Context, first, target float64, proven NoiseEstimate) ([]NoiseEstimate, error) {
	s := &looks{estimator: e, target: target, proven: proven, cheapest: math.Inf(1)}
	err := search.Walk(ctx, math.Log(first), s)
	switch {
	case !errors.Is(err, search.ErrLooks):
		return s.estimates, err
	case s.tooFew != nil:
		return nil, s.tooFew
	}
	return nil, &ParamError{Package: "verification", Param: "delta", Value: e.delta,
		Rule: fmt.Sprintf("no noise multiplier was found that has it at epsilon %g: no estimate came near it; give another delta or epsilon, or name a noise multiplier", e.epsilon)}
}

// looks are the estimates of a search, in both directions each.
type looks struct {
	*estimator
	target    float64
	proven    NoiseEstimate
	estimates []NoiseEstimate
	at        float64 // ln σ of the last look
	tooFew    error   // of the last look that had too few samples
	cheapest  float64 // samples that an estimate takes
	known     model   // of the estimates
	over      bool    // the estimates so far must do
}

// Look is part of [search.Source].
func (s *looks) Look(ctx context.Context, x float64) (search.Side, error) {
	s.at = x
	for {
		s.candidate(s.estimates)
		l, err := s.estimateAt(ctx, math.Exp(x))
		var few *TooFewError
		switch {
		case err == nil:
			s.estimates = insert(s.estimates, l)
			return search.Unknown, nil
		case !errors.As(err, &few):
			s.estimates = nil
			return search.Unknown, err
		}
		s.tooFew = err
		if few.spent && nearest(s.estimates, s.target) <= fitReach {
			s.over = true
			return search.Unseen, nil
		}
		if few.spent && s.Extend() {
			continue
		}
		if few.plain || few.spent || len(s.estimates) == 0 && few.Need >= s.cheapest && !isPlain(few.Need, s.delta) { // more noise does not help
			s.estimates = nil
			return search.Unseen, err
		}
		s.cheapest = min(s.cheapest, few.Need)
		return search.Unseen, nil
	}
}

// Goal is part of [search.Source]. M grows quickly downward: a look is at most search.Far below all
// others, or search.Farthest below one that needed no samples. Such looks are exact, and tell
// nothing of where δ is: they are not enough.
func (s *looks) Goal() (x float64, done bool) {
	if len(s.estimates) == 0 {
		return s.at + search.Farthest, false
	}
	s.known = newModel(s.scale, s.estimates, s.proven)
	m := s.known
	goal, limited := s.goal(m, s.target)
	done = m.spread(m.at(s.target)) <= enough && len(m.bounds) > 1 && sampled(s.estimates) || limited && isTried(s.estimates, goal)
	most := search.Far
	if !sampled(s.estimates) {
		most = search.Farthest
	}
	return max(goal, math.Log(s.estimates[0].NoiseMultiplier)-most), done || s.over
}

// Fits is part of [search.Source], by an interpolated M.
func (s *looks) Fits(x float64) bool {
	return s.known.fewest(math.Exp(x), s.delta) <= affordable*min(s.limit, s.left())
}

// Extend is part of [search.Source]: far from the target, estimates take more of the budget.
func (s *looks) Extend() bool {
	return nearest(s.estimates, s.target) > fitReach && s.extend()
}

// isPlain says whether this is the number of samples of an estimate with M = 1.
func isPlain(samples, delta float64) bool { return samples >= leastEfforts[0]/delta*(1-1e-3) }

// goal is the ln σ that matters: where the target is expected or, if the rest of the whole budget
// could not verify a mean of 0 there, the least above it where it could; limited then is true.
func (e *estimator) goal(m model, target float64) (x float64, limited bool) {
	x = math.Log(m.at(target))
	most := math.Log(m.bounds[len(m.bounds)-1].NoiseMultiplier)
	for x < most && m.fewestVerified(math.Exp(x), e.delta, e.weights()) > affordable*e.allLeft() {
		x, limited = x+search.Step, true
	}
	return x, limited
}

// isTried says whether there is an estimate near ln σ = x.
func isTried(estimates []NoiseEstimate, x float64) bool {
	return slices.ContainsFunc(estimates, func(l NoiseEstimate) bool { return search.IsNear(x, math.Log(l.NoiseMultiplier)) })
}

// candidate reports that another noise multiplier is tried, and between which estimates of δ the
// target is.
func (e *estimator) candidate(estimates []NoiseEstimate) {
	e.count++
	text := fmt.Sprintf("estimating σ: candidate %d", e.count)
	above, below := math.Inf(1), 0.0
	for _, l := range estimates {
		if d := l.Delta(); d > e.delta {
			above = min(above, d)
		} else {
			below = max(below, d)
		}
	}
	switch {
	case below > 0 && !math.IsInf(above, 1):
		text += fmt.Sprintf(", δ between %.2g and %.2g", below, above)
	case below > 0:
		text += fmt.Sprintf(", δ above %.2g", below)
	case !math.IsInf(above, 1):
		text += fmt.Sprintf(", δ below %.2g", above)
	}
	e.report(Phase{Text: text, Left: e.timeLeft(e.share.seconds)})
}

// insert keeps looks sorted by noise multiplier.
func insert(estimates []NoiseEstimate, l NoiseEstimate) []NoiseEstimate {
	i := 0
	for i < len(estimates) && estimates[i].NoiseMultiplier < l.NoiseMultiplier {
		i++
	}
	estimates = append(estimates, NoiseEstimate{})
	copy(estimates[i+1:], estimates[i:])
	estimates[i] = l
	return estimates
}

// nearest is the distance in ln δ from the target to the nearest estimate, +Inf without estimates.
func nearest(estimates []NoiseEstimate, target float64) float64 {
	least := math.Inf(1)
	for _, l := range estimates {
		least = min(least, l.distance(target))
	}
	return least
}

// distance is |ln(δ/target)|.
func (l NoiseEstimate) distance(target float64) float64 {
	return math.Abs(math.Log(max(l.Delta(), 1e-300) / target))
}
