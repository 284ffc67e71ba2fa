package verification

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// gridRatio is that of the noise multipliers that are tried (arXiv 2602.09338, Algorithm 5).
const gridRatio = 1.01

func onGrid(j int) float64 { return math.Pow(gridRatio, float64(j)) }

func gridIndex(noiseMultiplier float64) int {
	return int(math.Round(math.Log(noiseMultiplier) / math.Log(gridRatio)))
}

// maxTried bounds the search for a noise multiplier.
const maxTried = 24

// search estimates δ at noise multipliers of the grid, from the first on, until two neighbours, at
// most three grid steps apart, have δ on both sides of target. It returns the estimates by rising
// noise multiplier. Where M is so large that an estimate takes too many samples, the noise
// multiplier counts as too small. Where the share of estimates in a budget is used up, it returns
// the estimates that there are.
func (e *estimator) search(ctx context.Context, first int, target float64) (estimates []NoiseEstimate, err error) {
	slope := -0.15 // of ln δ by grid steps
	excess := func(l NoiseEstimate) float64 { return math.Log(max(l.Delta(), 1e-6*e.delta) / target) }
	low, high := math.MinInt, math.MaxInt // grid indices with δ above and at most target
	var atLow, atHigh float64             // excess there; +Inf where there is no estimate
	var tooFew error
	cheapest := math.Inf(1) // samples that an estimate takes
	next, up := first, 0    // up: where there is no estimate yet
	for range maxTried {
		e.candidate(estimates)
		l, err := e.estimateAt(ctx, onGrid(next))
		var few *TooFewError
		value := math.Inf(1)
		switch {
		case errors.As(err, &few):
			tooFew = err
			if few.spent && nearest(estimates, target) <= fitReach { // what is known must do
				return estimates, nil
			}
			if few.plain || few.spent || high == math.MaxInt && few.Need > 0.9*cheapest && few.Need < 9.99/e.delta { // more noise does not help
				return nil, err
			}
			up = stepUp(few.Need, e.delta)
			cheapest = min(cheapest, few.Need)
		case err != nil:
			return nil, err
		default:
			estimates = insert(estimates, l)
			value = excess(l)
		}
		if value > 0 {
			low, atLow = next, value
			up = max(up, step(min(atLow, 3)/-slope))
		} else {
			high, atHigh = next, value
		}
		switch {
		case low == math.MinInt:
			next = high - min(mostDown(atHigh), step(atHigh/slope))
		case high == math.MaxInt:
			next, up = low+up, 0
		case high-low <= 3 && !math.IsInf(atLow, 1), high-low == 1:
			return e.widen(ctx, estimates, low, high)
		default:
			if !math.IsInf(atLow, 1) {
				slope = min(-0.02, (atHigh-atLow)/float64(high-low))
				next = low + int(math.Round(atLow/-slope))
			} else {
				next = max((low+high)/2, high-min(mostDown(atHigh), step(atHigh/slope)))
			}
			next = min(max(next, low+1), high-1)
		}
	}
	if tooFew != nil {
		return nil, tooFew
	}
	return nil, &ParamError{Package: "verification", Param: "delta", Value: e.delta,
		Rule: fmt.Sprintf("no noise multiplier was found for it at epsilon %g: its estimates do not cross it near %.4g; give another delta or epsilon, or a noise multiplier", e.epsilon, onGrid(next))}
}

// mostDown is how many steps of the grid to go down from an excess at most: M grows quickly on the
// way.
func mostDown(excess float64) int {
	if excess < -6 {
		return 16
	}
	return 8
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
	e.report(Phase{Text: text})
}

// widen adds looks until they are far enough apart for a slope.
func (e *estimator) widen(ctx context.Context, estimates []NoiseEstimate, low, high int) ([]NoiseEstimate, error) {
	for _, j := range []int{low - 3, high + 4} {
		if len(estimates) > 1 && estimates[len(estimates)-1].NoiseMultiplier > estimates[0].NoiseMultiplier*math.Pow(gridRatio, 3.5) && estimates[0].Delta() > e.delta {
			break
		}
		e.candidate(estimates)
		l, err := e.estimateAt(ctx, onGrid(j))
		var few *TooFewError
		if errors.As(err, &few) {
			continue
		}
		if err != nil {
			return nil, err
		}
		estimates = insert(estimates, l)
	}
	return estimates, nil
}

// step is a number of grid steps to go where the target has not been passed yet: a little beyond
// the guess.
func step(guess float64) int {
	return int(min(40, max(1, math.Ceil(guess*1.1))))
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

// fit is a line through ln δ by ln noise multiplier of the looks near δ.
type fit struct{ x, y, slope float64 }

// fitReach is how far ln δ of a look may be from the target for the line to go through it.
const fitReach = 1.5

func fitEstimates(estimates []NoiseEstimate, target float64) fit {
	var near []point
	for _, l := range inReach(estimates, target) {
		near = append(near, point{l.NoiseMultiplier, max(l.Delta(), l.least())})
	}
	return fitLine(near)
}

// least is what estimates of which no value was seen may stand for: one value.
func (l NoiseEstimate) least() float64 {
	least := 1e-300
	for _, e := range l.Estimates {
		if e.Samples > 0 {
			least = max(least, e.Bound/float64(e.Samples))
		}
	}
	return least
}

// inReach are the estimates that a line through the target goes through: those within fitReach
// of it, and at least the two nearest, since one has no slope.
func inReach(estimates []NoiseEstimate, target float64) []NoiseEstimate {
	var distances []float64
	for _, l := range estimates {
		distances = append(distances, l.distance(target))
	}
	slices.Sort(distances)
	reach := max(fitReach, distances[min(1, len(distances)-1)])
	var near []NoiseEstimate
	for _, l := range estimates {
		if l.distance(target) <= reach {
			near = append(near, l)
		}
	}
	return near
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

// point is a value at a noise multiplier.
type point struct{ noiseMultiplier, value float64 }

// fitLine fits a line to at least one point.
func fitLine(points []point) fit {
	var x, y, xx, xy float64
	n := float64(len(points))
	for _, p := range points {
		s, d := math.Log(p.noiseMultiplier), math.Log(p.value)
		x, y, xx, xy = x+s, y+d, xx+s*s, xy+s*d
	}
	f := fit{x: x / n, y: y / n, slope: flattest}
	if spread := xx - x*x/n; spread > 1e-12 {
		f.slope = min(f.slope, (xy-x*y/n)/spread)
	}
	return f
}

// flat is a line of one value.
func flat(value float64) fit { return fit{y: math.Log(value)} }

// flattest is a slope flatter than any in use: the errors of estimates close to each other must not
// turn the line around.
const flattest = -2

// at is the noise multiplier at which the line has so large a value.
func (f fit) at(value float64) float64 {
	return math.Exp(f.x + (math.Log(value)-f.y)/f.slope)
}

// value is that of the line at a noise multiplier.
func (f fit) value(noiseMultiplier float64) float64 {
	return math.Exp(f.y + f.slope*(math.Log(noiseMultiplier)-f.x))
}
