package search

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"

	"minsep/accounting/internal/normal"
	"minsep/internal/bisect"
)

// Seen is the information of samples on a divergence at a noise multiplier. They tell as much as
// Hits events of a Poisson variable with a mean of Tries times the divergence.
type Seen struct {
	X           float64 // ln σ
	Hits, Tries float64 // at least 0
}

// Curve is a distribution of a divergence as a function of ln σ. It has a distribution of the pace,
// which is the speed at which the divergence falls over the speed of a Gaussian mechanism. For each
// pace, λ, the divergence at the centre, has a Gamma distribution.
//
// Given the pace, the shape of λ is the sum of all hits. Its rate is the sum of all tries, each
// times the divergence at its noise multiplier over λ.
type Curve struct {
	scale  *Scale
	centre float64 // ln σ, where samples were seen that are nearest to δ
	gap    float64 // of the centre, on the scale
	shape  float64
	paces  []weighted
	known  map[[2]float64]float64 // of quantiles of ln δ, by p and step
}

type weighted struct{ value, weight, rate float64 } // a pace, its probability, and the rate of λ

// Curve is the curve of a divergence by all that was seen, and the pace that was known before.
func (s *Scale) Curve(seen []Seen, pace Pace) *Curve {
	c := &Curve{scale: s, shape: leastShape, known: map[[2]float64]float64{}}
	if len(seen) > 0 {
		nearest := slices.MinFunc(seen, func(a, b Seen) int { return cmp.Compare(c.distance(a), c.distance(b)) })
		c.centre, c.gap = nearest.X, c.gapOf(nearest)
	}
	parts := make([]float64, len(seen)) // of what was seen that count
	for i, s := range seen {
		g := c.gapOf(s)
		off := bend * g * g * c.slope(0)
		parts[i] = 1 / (1 + s.Hits*off*off)
		c.shape += parts[i] * s.Hits
	}
	// ln of the probability of a pace, up to a constant common to all, and the rate of λ.
	spread := pace.StdErr / pace.Value
	logWeight := func(z float64) (value, rate, weight float64) {
		value = pace.Value * math.Exp(z*spread)
		sum := 0.0
		for i, s := range seen {
			ratio := c.ratio(value, s.X)
			rate += parts[i] * s.Tries * math.Exp(ratio)
			sum += parts[i] * s.Hits * ratio
		}
		return value, rate, sum - c.shape*math.Log(max(rate, 1e-300)) - z*z/2
	}
	// First coarsely, then where most of the weight is.
	middle, width := 0.0, 1.0
	for range 3 {
		const points, reach = 25, 3.
		var zs, ws []float64
		c.paces = c.paces[:0]
		for i := range points {
			z := middle + width*reach*(2*float64(i)/(points-1)-1)
			value, rate, w := logWeight(z)
			zs, ws, c.paces = append(zs, z), append(ws, w), append(c.paces, weighted{value: value, rate: rate})
		}
		top, total, first, second := slices.Max(ws), 0.0, 0.0, 0.0
		for i, w := range ws {
			w = math.Exp(w - top)
			total, first, second = total+w, first+w*zs[i], second+w*zs[i]*zs[i]
			c.paces[i].weight = w
		}
		middle = first / total
		width = max(1e-3, math.Sqrt(max(0, second/total-middle*middle)))
		for i := range c.paces {
			c.paces[i].weight /= total
		}
	}
	return c
}

// gapOf is how far the divergence that was seen is from δ on the scale: ln of the factor by which σ
// would have to grow at a pace of 1.
func (c *Curve) gapOf(s Seen) float64 {
	return -c.scale.at(math.Log(max(s.Hits, leastShape) / max(s.Tries, 1e-300) / c.scale.delta))
}

// distance returns the distance of a seen divergence from δ; it is far where nothing was seen.
func (c *Curve) distance(s Seen) float64 {
	if s.Hits == 0 {
		return math.Inf(1)
	}
	return math.Abs(math.Log(s.Hits / s.Tries / c.scale.delta))
}

// Ratio is ln of the divergence at ln σ = x over λ, at a pace.
func (c *Curve) ratio(pace, x float64) float64 {
	return c.scale.Ratio(pace*(x-c.centre)-c.gap) - c.scale.Ratio(-c.gap)
}

// slope is the speed at which ln of a divergence falls at u on the scale, at a pace of 1.
func (c *Curve) slope(u float64) float64 {
	return (c.scale.Ratio(u-scaleStep) - c.scale.Ratio(u+scaleStep)) / (2 * scaleStep)
}

// Solution is where the divergence is δ.
type Solution struct {
	X, StdErr float64 // ln σ
	Pace      Pace
	ByPace    float64 // the part of StdErr that is from the pace
}

// Solve is where the divergence is δ.
func (c *Curve) Solve() (s Solution) {
	var within, between, paces float64
	at := func(p weighted) float64 {
		return c.centre + (c.gap+c.scale.at(math.Log(c.scale.delta/c.mean(p))+c.scale.Ratio(-c.gap)))/p.value
	}
	for _, p := range c.paces {
		s.X += p.weight * at(p)
		s.Pace.Value += p.weight * p.value
	}
	for _, p := range c.paces {
		off := at(p) - s.X
		between += p.weight * off * off
		paces += p.weight * (p.value - s.Pace.Value) * (p.value - s.Pace.Value)
		slope := p.value * c.slope(0)
		within += p.weight * (1 + luck/c.shape) / c.shape / (slope * slope)
	}
	s.StdErr, s.ByPace, s.Pace.StdErr = math.Sqrt(within+between), math.Sqrt(between), math.Sqrt(paces)
	return s
}

// mean is λ at a pace.
func (c *Curve) mean(p weighted) float64 { return c.shape / max(p.rate, 1e-300) }

// below is the probability that the divergence at ln σ = x is at most delta.
func (c *Curve) below(delta, x float64) (p float64) {
	for _, of := range c.paces {
		if of.weight > 1e-6 {
			p += of.weight * gammaBelow(c.shape, of.rate*delta*math.Exp(-c.ratio(of.value, x)))
		}
	}
	return p
}

// gammaBelow is the probability that a Gamma variable of rate 1 is at most x. For a large shape it
// takes the cube root as normal (Wilson and Hilferty).
func gammaBelow(shape, x float64) float64 {
	if shape > 20 {
		return normal.Tail((1 - 1/(9*shape) - math.Cbrt(x/shape)) * 3 * math.Sqrt(shape))
	}
	return mathext.GammaIncReg(shape, x)
}

// Quantile is the value that the divergence at a noise multiplier does not exceed with probability
// p. It is interpolated between steps of ln σ.
func (c *Curve) Quantile(p, noiseMultiplier float64) float64 {
	const origin = 1e6
	step, part := math.Modf((math.Log(noiseMultiplier)-c.centre)/scaleStep + origin)
	at := func(step float64) float64 {
		q, ok := c.known[[2]float64{p, step}]
		if !ok {
			x := c.centre + (step-origin)*scaleStep
			_, q = bisect.Between(math.Log(1e-300), 0, 1e-3, func(logDelta float64) bool { return c.below(math.Exp(logDelta), x) < p })
			c.known[[2]float64{p, step}] = q
		}
		return q
	}
	return math.Exp((1-part)*at(step) + part*at(step+1))
}
