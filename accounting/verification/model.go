package verification

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"

	"minsep/accounting"
	"minsep/accounting/internal/normal"
)

// model predicts δ from estimates at noise multipliers that were not looked at. It decides
// which ones are tried and how many samples each is worth; no claim depends on it.
type model struct {
	estimates []NoiseEstimate
	bounds    []NoiseEstimate // the same, and one without samples that has known bounds too
	curves    [2]curve        // of the mean of each direction that was sampled
}

// learn adds the bounds of divergences to those that are known: between noise multipliers they are
// interpolated, and near the one below which no tangent serves, far too low.
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

// curve is a distribution of functions δ(σ) = λ (σ/σ₀)^b: of slopes b, and for each of them of λ,
// which has a Gamma distribution.
//
// An estimate of s samples with values in [0, M] and mean m counts as h = sm/M values of M among
// s/M for each unit of δ, as in a Poisson distribution: no values have more variance. Given b, λ
// then has the shape of all h together and the rate Σ s/M (σ/σ₀)^b.
type curve struct {
	centre float64 // ln σ₀
	shape  float64
	slopes []slope
	known  map[[2]float64]float64 // of quantiles of ln δ, by p and step
}

type slope struct{ value, weight, rate float64 } // b, its probability, and the rate of λ

const (
	// leastShape is the shape of λ before any value is seen: as if each order of magnitude, of
	// some 30, were as likely.
	leastShape = 0.03
	// slopeSpread is the standard deviation of ln(b/b₀) before there are estimates, b₀ = 2 ln δ: so
	// steep is the δ of one Gaussian mechanism.
	slopeSpread = 0.35
	// bend is how far ln δ may be from a straight line, as a part of (b₀ ln(σ/σ₀))².
	bend = 0.03
)

// newModel has the curves of estimates; target is the δ that they are for. The bounds of proven
// count, if they are not 0.
func newModel(estimates []NoiseEstimate, proven NoiseEstimate, target float64) model {
	m := model{estimates: estimates, bounds: slices.Clone(estimates)}
	if proven.Estimates[0].Bound > 0 {
		m.bounds = insert(m.bounds, proven)
	}
	centre := 0.0
	for i, l := range estimates {
		if i == 0 || l.distance(target) < nearest(estimates[:i], target) {
			centre = math.Log(l.NoiseMultiplier)
		}
	}
	for d := range m.curves {
		m.curves[d] = newCurve(estimates, d, centre, 2*math.Log(target))
	}
	return m
}

// newCurve returns the curve of one direction, with slopes around steep.
func newCurve(estimates []NoiseEstimate, direction int, centre, steep float64) curve {
	c := curve{centre: centre, shape: leastShape, known: map[[2]float64]float64{}}
	type seen struct{ at, hits, tries float64 }
	var all []seen
	for _, l := range estimates {
		e := l.Estimates[direction]
		if e.Samples == 0 || e.Bound == 0 {
			continue
		}
		s := seen{math.Log(l.NoiseMultiplier) - centre, e.Mean * float64(e.Samples) / e.Bound, float64(e.Samples) / e.Bound}
		// Far from the centre a curve is no straight line, whatever the number of values.
		off := bend * steep * steep * s.at * s.at
		part := 1 / (1 + s.hits*off*off)
		s.hits, s.tries = s.hits*part, s.tries*part
		c.shape += s.hits
		all = append(all, s)
	}
	// ln of the probability of b, up to a constant common to all b.
	logWeight := func(z float64) (b, rate, weight float64) {
		b = steep * math.Exp(z*slopeSpread)
		sum := 0.0
		for _, s := range all {
			rate += s.tries * math.Exp(b*s.at)
			sum += s.hits * s.at
		}
		return b, rate, b*sum - c.shape*math.Log(max(rate, 1e-300)) - z*z/2
	}
	// First coarsely, then where most of the weight is.
	mean, spread := 0.0, 1.0
	for range 3 {
		const points, reach = 25, 3.
		var zs, ws []float64
		c.slopes = c.slopes[:0]
		top := math.Inf(-1)
		for i := range points {
			z := mean + spread*reach*(2*float64(i)/(points-1)-1)
			b, rate, w := logWeight(z)
			zs, ws, c.slopes = append(zs, z), append(ws, w), append(c.slopes, slope{value: b, rate: rate})
			top = max(top, w)
		}
		total, first, second := 0.0, 0.0, 0.0
		for i, w := range ws {
			w = math.Exp(w - top)
			total, first, second = total+w, first+w*zs[i], second+w*zs[i]*zs[i]
			c.slopes[i].weight = w
		}
		mean = first / total
		spread = max(1e-3, math.Sqrt(max(0, second/total-mean*mean)))
		for i := range c.slopes {
			c.slopes[i].weight /= total
		}
	}
	return c
}

// below is the probability that δ(σ) is at most so much.
func (c curve) below(delta, logSigma float64) (p float64) {
	x := logSigma - c.centre
	for _, s := range c.slopes {
		if s.weight > 1e-6 {
			p += s.weight * gammaBelow(c.shape, s.rate*delta*math.Exp(-s.value*x))
		}
	}
	return p
}

// gammaBelow is the probability that a Gamma variable of rate 1 is at most x, for many values by
// the cube root's normal distribution (Wilson and Hilferty).
func gammaBelow(shape, x float64) float64 {
	if shape > 20 {
		return normal.Tail((1 - 1/(9*shape) - math.Cbrt(x/shape)) * 3 * math.Sqrt(shape))
	}
	return mathext.GammaIncReg(shape, x)
}

// quantile is the δ(σ) with a probability p of none larger, between steps of ln σ of .01.
func (c curve) quantile(p, noiseMultiplier float64) float64 {
	const size = 0.01
	step, part := math.Modf((math.Log(noiseMultiplier)-c.centre)/size + 1e6)
	at := func(step float64) float64 {
		q, ok := c.known[[2]float64{p, step}]
		if !ok {
			q = c.logQuantile(p, c.centre+(step-1e6)*size)
			c.known[[2]float64{p, step}] = q
		}
		return q
	}
	return math.Exp((1-part)*at(step) + part*at(step+1))
}

// logQuantile is ln of the quantile at ln σ.
func (c curve) logQuantile(p, logSigma float64) float64 {
	low, high := math.Log(1e-300), 0.0
	for high-low > 1e-3 {
		if mid := (low + high) / 2; c.below(math.Exp(mid), logSigma) < p {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// goals are the goals of the trials of a noise multiplier, with so many standard errors, of the
// estimates and of the trials, between the expected and the accepted mean.
func (m model) goals(noiseMultiplier, errors float64) []accounting.Goal {
	goals := make([]accounting.Goal, 2)
	for d := range goals {
		if bound, ok := m.proven(d, noiseMultiplier); ok {
			goals[d] = accounting.Goal{Bound: bound, Proven: true}
		} else {
			bound = min(1, boundAt(m.bounds, noiseMultiplier, func(l NoiseEstimate) float64 { return l.Estimates[d].Bound }))
			mean := min(1, m.curves[d].quantile(1-normal.Tail(errors), noiseMultiplier))
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
			spread = math.Log(m.curves[d].quantile(.841, noiseMultiplier)/m.curves[d].quantile(.159, noiseMultiplier)) / 2
		}
	}
	return spread
}

// fewest is how many samples an estimate at a noise multiplier takes at least, in one direction.
func (m model) fewest(noiseMultiplier, delta float64) (samples float64) {
	for d, g := range m.goals(noiseMultiplier, 0) {
		if !g.Proven {
			samples = max(samples, leastEfforts[d]*g.Bound/delta)
		}
	}
	return samples
}

// fewestVerified is how many samples a verification at a noise multiplier takes at least, in
// both directions: ln(1/q) M/δ each, for means of 0 (F5.1′).
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

// at is the noise multiplier at which so large a δ is expected.
func (m model) at(delta float64) float64 {
	low, high := m.estimates[0].NoiseMultiplier/reach, m.estimates[len(m.estimates)-1].NoiseMultiplier*reach
	for high/low > 1+1e-5 {
		if mid := math.Sqrt(low * high); m.expected(mid) > delta {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}
