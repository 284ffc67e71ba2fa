package verification

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// gridRatio is the ratio of neighbouring noise multipliers on the grid (arXiv 2602.09338,
// Algorithm 5).
const gridRatio = 1.01

func onGrid(j int) float64 { return math.Pow(gridRatio, float64(j)) }

func gridIndex(noiseMultiplier float64) int {
	return int(math.Round(math.Log(noiseMultiplier) / math.Log(gridRatio)))
}

// maxTried bounds the search for a noise multiplier.
const maxTried = 24

const (
	// enough is the standard error of ln δ, near the target, at which estimates end: .3 % of the
	// noise multiplier, about.
	enough = 0.1
	// fine is that standard error where another estimate like the last one brings the used part
	// of the whole budget to fineShare at most.
	fine, fineShare = 0.03, 1.0 / 4
	// fitReach is how far ln δ of the nearest estimate may be from the target where the budget of
	// the estimates is used up.
	fitReach = 3
	// mostUp and mostDown are how many steps of the grid the next estimate is away from the others
	// at most. Downward M grows quickly.
	mostUp, mostDown = 40, 12
	// farUp is how many steps of the grid are between looks above all estimates, where the
	// first look took too many samples.
	farUp = 10
	// verifiable is the part of the rest of the whole budget that a verification may have where
	// δ is estimated.
	verifiable = 0.6
)

// search estimates δ at noise multipliers of the grid, each where the estimates before it have the
// target, until it is known well there. It returns the estimates by rising noise multiplier. Where
// M is so large that an estimate takes too many samples, the noise multiplier counts as too small.
// Where the share of estimates in a budget is used up, it returns the estimates that there are.
// proven, if its bounds are not 0, tells how M falls.
func (e *estimator) search(ctx context.Context, first int, target float64, proven NoiseEstimate) (estimates []NoiseEstimate, err error) {
	var tooFew error
	low := math.MinInt      // the largest grid index that is too small
	cheapest := math.Inf(1) // samples that an estimate takes
	for next := first; e.count < maxTried; {
		e.candidate(estimates)
		used := e.usedPart()
		l, err := e.estimateAt(ctx, onGrid(next))
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
			if few.plain || few.spent || len(estimates) == 0 && few.Need > 0.9*cheapest && few.Need < 9.99/e.delta { // more noise does not help
				return nil, err
			}
			cheapest = min(cheapest, few.Need)
		case err != nil:
			return nil, err
		default:
			estimates = insert(estimates, l)
		}
		if len(estimates) == 0 {
			next += stepUp(few.Need, e.delta)
			continue
		}
		m := newModel(e.scale, estimates, proven)
		goal, limited := e.goal(m, target)
		precise := enough
		if after := e.usedPart(); 2*after-used < fineShare {
			precise = fine
		}
		known := m.spread(m.at(target)) <= precise && len(m.bounds) > 1 || limited && isTried(estimates, goal)
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

// goal is the grid index that matters: where the target is expected or, if the rest of the
// whole budget could not verify a mean of 0 there, the least above it where it could; limited
// then is true.
func (e *estimator) goal(m model, target float64) (index int, limited bool) {
	index = gridIndex(m.at(target))
	most := gridIndex(m.bounds[len(m.bounds)-1].NoiseMultiplier)
	for index < most && m.fewestVerified(onGrid(index), e.delta, e.weights()) > verifiable*e.allLeft() {
		index, limited = index+1, true
	}
	return index, limited
}

// isTried says whether there is an estimate at a grid index.
func isTried(estimates []NoiseEstimate, index int) bool {
	return slices.ContainsFunc(estimates, func(l NoiseEstimate) bool { return gridIndex(l.NoiseMultiplier) == index })
}

// after is the grid index at which δ is estimated next: at the goal or, where that was looked at,
// beside it; above low, and such that M allows an estimate. ok says that there is one.
func (e *estimator) after(m model, low, goal int) (next int, ok bool) {
	tried := map[int]bool{}
	least, most := math.MaxInt, math.MinInt
	for _, l := range m.estimates {
		j := gridIndex(l.NoiseMultiplier)
		tried[j], least, most = true, min(least, j), max(most, j)
	}
	at := min(max(goal, least-mostDown, low+1), most+mostUp)
	affordable := func(j int) bool { return m.fewest(onGrid(j), e.delta) <= 0.8*min(e.limit, e.left()) }
	for _, off := range []int{0, -1, 1, -2, 2, -3, 3, 4, 5, 6} {
		if j := at + off; j > low && !tried[j] && affordable(j) {
			return j, true
		}
	}
	// Nearer to the target than any estimate so far, where the budget affords it.
	for j := at + 7; j < least-1; j++ {
		if affordable(j) {
			return j, true
		}
	}
	// Above all that is known M is less than the model knows: a look tells, which draws nothing where
	// that takes too many samples.
	if j := max(at, low+farUp); goal > most && j <= most+2*mostUp {
		return j, true
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

// stepUp is how many grid steps to go up where an estimate takes too many samples: with M < 1,
// where plans take long, twice as many.
func stepUp(need, delta float64) int {
	if need < 9.99/delta {
		return 44
	}
	return 22
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
