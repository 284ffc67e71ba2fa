package verification

import (
	"math"
	"slices"

	"minsep/accounting"
	"minsep/accounting/internal/normal"
	"minsep/accounting/search"
	"minsep/internal/bisect"
)

// model predicts δ from estimates at noise multipliers that were not looked at. It decides
// which ones are tried and how many samples each is worth; no claim depends on it.
type model struct {
	estimates []NoiseEstimate
	bounds    []NoiseEstimate  // the same, and one without samples that has known bounds too
	curves    [2]*search.Curve // of the mean of each direction that was sampled
}

// learn adds the bounds of divergences to the known bounds. Between noise multipliers bounds are
// interpolated. These are far too low near the noise multiplier below which no tangent serves.
func (m *model) learn(divergences [][2]hockeyStick) {
	for _, pair := range divergences {
		l := NoiseEstimate{NoiseMultiplier: pair[0].spec.NoiseMultiplier}
		if slices.ContainsFunc(m.bounds, func(of NoiseEstimate) bool { return of.NoiseMultiplier == l.NoiseMultiplier }) {
			continue
		}
		for i, s := range pair {
			l.Estimates[i] = Estimate{Direction: s.direction, Bound: s.bound(), Truncation: s.cost()}
		}
		m.bounds = insert(m.bounds, l)
	}
}

// newModel has the curves of estimates, on the scale of the claim. The bounds of proven count, if
// they are not 0.
func newModel(scale *search.Scale, estimates []NoiseEstimate, proven NoiseEstimate) model {
	m := model{estimates: estimates, bounds: slices.Clone(estimates)}
	if proven.Estimates[0].Bound > 0 {
		m.bounds = insert(m.bounds, proven)
	}
	for d := range m.curves {
		m.curves[d] = scale.CurveOf(drawnOf(estimates, d))
	}
	return m
}

// drawnOf are the samples of estimates in one direction.
func drawnOf(estimates []NoiseEstimate, direction int) (all []search.Drawn) {
	for _, l := range estimates {
		if e := l.Estimates[direction]; e.Samples > 0 && e.Bound > 0 {
			all = append(all, e.drawn(l.NoiseMultiplier))
		}
	}
	return all
}

// drawn are the samples of an estimate.
func (e Estimate) drawn(noiseMultiplier float64) search.Drawn {
	return search.Drawn{NoiseMultiplier: noiseMultiplier, Bound: e.Bound, Samples: e.Samples, Sum: float64(e.Samples) * e.Mean / e.Bound}
}

// goals returns the goals of the trials of a noise multiplier. errors is the distance from the
// expected to the accepted mean: this number of standard errors of the estimates, and the same
// number of the trials.
func (m model) goals(noiseMultiplier, errors float64) []accounting.Goal {
	goals := make([]accounting.Goal, 2)
	for d := range goals {
		if bound, ok := m.proven(d, noiseMultiplier); ok {
			goals[d] = accounting.Goal{Bound: bound, Proven: true}
		} else {
			bound = min(1, boundAt(m.bounds, noiseMultiplier, func(l NoiseEstimate) float64 { return l.Estimates[d].Bound }))
			mean := min(1, m.curves[d].Quantile(1-normal.Tail(errors), noiseMultiplier))
			if noiseMultiplier < m.bounds[0].NoiseMultiplier { // there M is a guess, too small where all looks are far above
				bound = max(bound, mean)
			}
			goals[d] = accounting.Goal{Bound: bound, Mean: min(bound, mean), Errors: errors}
		}
		goals[d].Cost = boundAt(m.bounds, noiseMultiplier, func(l NoiseEstimate) float64 { return l.Estimates[d].Truncation })
	}
	return goals
}

// proven is the bound of a direction at a noise multiplier, where estimates needed no samples:
// the bound of the nearest estimate with no more noise, or of the estimate with the least.
func (m model) proven(direction int, noiseMultiplier float64) (bound float64, ok bool) {
	e := m.estimates[0].Estimates[direction]
	for _, l := range m.estimates {
		if l.NoiseMultiplier <= noiseMultiplier {
			e = l.Estimates[direction]
		}
	}
	return e.Bound, e.Samples == 0
}

// expected is the median of δ at a noise multiplier, in the worse direction.
func (m model) expected(noiseMultiplier float64) (delta float64) {
	for _, g := range m.goals(noiseMultiplier, 0) {
		mean := g.Mean
		if g.Proven {
			mean = g.Bound
		}
		delta = max(delta, mean+g.Cost)
	}
	return delta
}

// spread is the standard error of ln δ at a noise multiplier, in the direction that is expected to
// be the worse one.
func (m model) spread(noiseMultiplier float64) (spread float64) {
	worst := 0.0
	for d, g := range m.goals(noiseMultiplier, 0) {
		if !g.Proven && g.Mean+g.Cost > worst {
			worst = g.Mean + g.Cost
			spread = math.Log(m.curves[d].Quantile(.841, noiseMultiplier)/m.curves[d].Quantile(.159, noiseMultiplier)) / 2
		}
	}
	return spread
}

// fewest is the least number of samples of an estimate at a noise multiplier, in the direction that
// takes more.
func (m model) fewest(noiseMultiplier, delta float64) (samples float64) {
	for d, g := range m.goals(noiseMultiplier, 0) {
		if !g.Proven {
			samples = max(samples, leastEfforts[d]*g.Bound/delta)
		}
	}
	return samples
}

// fewestVerified is the least number of samples of a verification at a noise multiplier, in both
// directions together: ln(1/q) M/δ each, for means of 0 (F5.1′).
func (m model) fewestVerified(noiseMultiplier, delta float64, w weights) (samples float64) {
	for d, g := range m.goals(noiseMultiplier, 0) {
		if !g.Proven {
			samples += w[d] * -math.Log(delta/30) * g.Bound / delta
		}
	}
	return samples
}

// reach is the largest ratio of the noise that the model is asked for to the noise of an estimate,
// or its inverse.
const reach = 10

// at is the noise multiplier at which this δ is expected.
func (m model) at(delta float64) float64 {
	low, high := m.estimates[0].NoiseMultiplier/reach, m.estimates[len(m.estimates)-1].NoiseMultiplier*reach
	_, x := bisect.Between(math.Log(low), math.Log(high), 1e-5, func(x float64) bool { return m.expected(math.Exp(x)) > delta })
	return math.Exp(x)
}
