package verification

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"minsep/accounting/search"
)

const (
	// enough is the standard error of ln δ, near the target, at which estimates end: .5 % of the
	// noise multiplier, about, where the chance of the trials is as large.
	enough = 0.1

	// fitReach is how far ln δ of the nearest estimate may be from the target where the budget of
	// the estimates is used up: beyond it the pace is not known well enough.
	fitReach = 3

	// affordable is the part of the rest of a budget that an estimate, or the whole budget's rest that
	// a verification, may have by an interpolated M, which is known to some tenths.
	affordable = 0.7

	// step is the least distance of estimates in ln σ, as in arXiv 2602.09338, Algorithm 5.
	step = 0.01
)

// search estimates δ at noise multipliers, each where the estimates before it have the target,
// until it is known well there. It returns the estimates by rising noise multiplier. Where M is so
// large that an estimate takes too many samples, the noise multiplier counts as too small. Where
// the share of estimates in a budget is used up, it returns the estimates that there are. proven,
// if its bounds are not 0, tells how M falls.
func (e *estimator) search(ctx context.Context, first, target float64, proven NoiseEstimate) (estimates []NoiseEstimate, err error) {
	var tooFew error
	low := math.Inf(-1)     // the largest ln σ that is too small
	cheapest := math.Inf(1) // samples that an estimate takes
	for next := math.Log(first); e.count < search.MaxLooks; {
		e.candidate(estimates)
		l, err := e.estimateAt(ctx, math.Exp(next))
		var few *TooFewError
		switch {
		case errors.As(err, &few):
			tooFew = err
			if few.spent && nearest(estimates, target) <= fitReach { // the estimates so far must do
				return estimates, nil
			}
			if few.spent && e.extend() {
				continue
			}
			low = max(low, next)
			if few.plain || few.spent || len(estimates) == 0 && few.Need >= cheapest && !isPlain(few.Need, e.delta) { // more noise does not help
				return nil, err
			}
			cheapest = min(cheapest, few.Need)
		case err != nil:
			return nil, err
		default:
			estimates = insert(estimates, l)
		}
		if len(estimates) == 0 {
			next += search.Farthest
			continue
		}
		m := newModel(e.scale, estimates, proven)
		goal, limited := e.goal(m, target)
		known := m.spread(m.at(target)) <= enough && len(m.bounds) > 1 || limited && isTried(estimates, goal)
		after, ok := e.after(m, low, goal)
		if !ok && nearest(estimates, target) > fitReach && e.extend() {
			after, ok = e.after(m, low, goal)
		}
		if known || !ok {
			return estimates, nil
		}
		next = after
	}
	if tooFew != nil {
		return nil, tooFew
	}
	return nil, &ParamError{Package: "verification", Param: "delta", Value: e.delta,
		Rule: fmt.Sprintf("no noise multiplier was found for it at epsilon %g: its estimates do not come near it; give another delta or epsilon, or a noise multiplier", e.epsilon)}
}

// isPlain says whether so many samples are those of an M of 1.
func isPlain(samples, delta float64) bool { return samples >= leastEfforts[0]/delta*(1-1e-3) }

// goal is the ln σ that matters: where the target is expected or, if the rest of the whole budget
// could not verify a mean of 0 there, the least above it where it could; limited then is true.
func (e *estimator) goal(m model, target float64) (x float64, limited bool) {
	x = math.Log(m.at(target))
	most := math.Log(m.bounds[len(m.bounds)-1].NoiseMultiplier)
	for x < most && m.fewestVerified(math.Exp(x), e.delta, e.weights()) > affordable*e.allLeft() {
		x, limited = x+step, true
	}
	return x, limited
}

// isTried says whether there is an estimate about at ln σ = x.
func isTried(estimates []NoiseEstimate, x float64) bool {
	return slices.ContainsFunc(estimates, func(l NoiseEstimate) bool { return math.Abs(math.Log(l.NoiseMultiplier)-x) < step/2 })
}

// after is the ln σ at which δ is estimated next: at the goal or, where that was looked at, beside
// it; above low, and such that M, which grows quickly downward, allows an estimate. ok says that
// there is one.
func (e *estimator) after(m model, low, goal float64) (next float64, ok bool) {
	least, most := math.Log(m.estimates[0].NoiseMultiplier), math.Log(m.estimates[len(m.estimates)-1].NoiseMultiplier)
	at := min(max(goal, least-search.Far, low+step), most+search.Farthest)
	fits := func(x float64) bool {
		return x > low && !isTried(m.estimates, x) && m.fewest(math.Exp(x), e.delta) <= affordable*min(e.limit, e.left())
	}
	for off := 0.0; off < search.Far; off += step {
		for _, x := range []float64{at - off, at + off} {
			if fits(x) {
				return x, true
			}
		}
	}
	// Nearer to the target than any estimate so far, where the budget affords it.
	for x := at + search.Far; x < least-step; x += step {
		if fits(x) {
			return x, true
		}
	}
	// Above all that is known M is less than the model knows: a look tells, which draws nothing where
	// that takes too many samples.
	if x := max(at, low+search.Far); goal > most && x <= most+2*search.Farthest {
		return x, true
	}
	return 0, false
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

// nearest is how far ln δ of the estimate closest to the target is from it, +Inf without estimates.
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
