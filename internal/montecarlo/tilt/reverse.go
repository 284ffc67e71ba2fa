package tilt

import (
	"context"
	"math"

	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/normal"
)

// tangent is a linear lower bound of ln f: ln f(y) ≥ offset + ⟨g, y⟩ for all y, g = slope·direction
// with a unit vector direction.
//
// For one example ln f is convex (a logarithm of a sum of exponentials of linear functions), and
// the tangent at any y0 has g = E[Cx | y0]/σ² and offset ln f(y0) - ⟨g, y0⟩ (F5.4). For k
// independent examples let all of them follow the distribution ρ of x given y0 of one. By the
// variational bound ln f_k(y) ≥ ⟨E CΣx, y⟩/σ² - E‖CΣx‖²/2σ² - KL, where E‖CΣx‖² has, besides k
// terms as for one example, k(k-1) terms ⟨E Cx, E Cx⟩ = σ⁴‖g‖²: so ln f_k(y) ≥ k(offset + ⟨g,y⟩) -
// k(k-1)/2 σ²‖g‖².
type tangent struct {
	offset, slope float64
	direction     []float64
}

// several is the tangent for k examples (F5.10).
func (t tangent) several(k int, sigma float64) tangent {
	m := float64(k)
	return tangent{m*t.offset - m*(m-1)/2*sigma*sigma*t.slope*t.slope, m * t.slope, t.direction}
}

// lowered takes from the offset more than the rounding of terms of this size, in all, can have
// added to it. The result is below ln f although it was computed in float64: a tangent that
// touches ε + ln f = 0 must not prove a divergence of 0.
func (t tangent) lowered(size float64) tangent {
	t.offset -= tangentRounding * (1 + size)
	return t
}

// flattened replaces a slope that is too small for float64 by 0. The square of such a slope, and
// the gradient itself, may have underflowed. Then ⟨g, y⟩ can lower ln f by far less than lowered
// took from the offset.
func (t tangent) flattened(sigma float64) tangent {
	if t.slope*max(1, sigma) < leastSlope {
		t.slope = 0
	}
	return t
}

const (
	tangentRounding = 1e-12 // over the relative error of ln f, and of the sums of a gradient
	leastSlope      = 1e-60 // of a tangent, per unit of y and of z; no smaller square underflows
)

// distance is d of F5.4: y with ⟨direction, y⟩ > -d have e^ε f > 1 and a value of 0. Without a
// slope that is all y, or none.
func (t tangent) distance(epsilon float64) float64 {
	if t.slope == 0 {
		return math.Inf(int(math.Copysign(1, epsilon+t.offset)))
	}
	return (epsilon + t.offset) / t.slope
}

// divergence is the upper bound Φ(t) - e^{ε+offset+G²σ²/2} Φ(t-Gσ) of H(Q,P), t =
// -(ε+offset)/(Gσ) (F5.4). With the Mills ratio m(x) = Φ(-x)/φ(x) it is φ(t) (m(-t) -
// m(-t+Gσ)). The difference is raised by the most that cancellation can take from it.
func (t tangent) divergence(epsilon, sigma float64) float64 {
	if t.slope == 0 {
		return max(0, -math.Expm1(epsilon+t.offset))
	}
	x := t.distance(epsilon) / sigma // -t
	if !(x >= -30) {
		return 1
	}
	mills := normal.Mills(x)
	return min(1, normal.Density(x)*(mills*(1+millsError)-normal.Mills(x+t.slope*sigma)))
}

// millsError bounds the relative error of the Mills ratio, the error of its argument included,
// where Density does not vanish.
const millsError = 1e-12

// gradient returns ln f and ∇ ln f at y0 = -kappa·direction; g has Steps entries and may not be
// direction.
func gradient(
	g []float64,
	kappa float64,
	c *likelihood.Columns,
	factor float64,
	post *likelihood.Posterior,
	direction []float64,
) (logF float64) {
	u, participates := make([]float64, c.Steps), make([]float64, c.Steps)
	if kappa != 0 {
		for i := range u {
			u[i] = -kappa * factor * c.Dot(i, direction)
		}
	}
	logF = post.Given(u, participates)
	clear(g)
	for i, p := range participates {
		column, scale := c.Column(i)
		for k, v := range column {
			g[i+k] += factor * scale * p * v
		}
	}
	return logF
}

// shiftTangent returns a tangent for k examples at y0 = -kappa·direction, with the direction of
// the gradient at y0, found by iteration. Any y0 gives a valid bound, this one a good one. Far
// out the gradient may underflow: the tangent then has no slope.
func shiftTangent(kappa float64, k int, c *likelihood.Columns, sigma float64, post *likelihood.Posterior) tangent {
	const rounds = 12
	g, direction, at := make([]float64, c.Steps), make([]float64, c.Steps), 0.0
	for round := 0; ; round++ {
		logF := gradient(g, at, c, 1/(sigma*sigma), post, direction)
		along, slope := 0.0, 0.0
		for i, v := range g {
			along += v * direction[i]
			slope += v * v
		}
		slope = math.Sqrt(slope)
		t := tangent{offset: logF + at*along, slope: slope, direction: direction} // ln f(y0) - ⟨g, y0⟩
		size := float64(k) * (math.Abs(logF) + 2*at*slope + float64(k-1)*sigma*sigma*slope*slope)
		t = t.several(k, sigma).lowered(size).flattened(sigma)
		if t.slope == 0 {
			return t
		}
		done := round > 0 && (along > (1-1e-6)*slope || round == rounds)
		for i, v := range g {
			direction[i] = v / slope
		}
		if done {
			return t
		}
		at = kappa
	}
}

// bestTangent tries a grid of kappa for k examples, with a ratio that may be randomised. It
// returns the kappa of the tangent with the least M among those with a slack of at most
// maxSlack, 0 when no tangent has a positive distance, and the least upper bound of H(Q,P) by
// any tangent.
func bestTangent(
	ctx context.Context,
	epsilon float64,
	k int,
	randomised bool,
	c *likelihood.Columns,
	sigma float64,
	post *likelihood.Posterior,
) (kappa, divergence float64) {
	t := shiftTangent(0, k, c, sigma, post)
	divergence = t.divergence(epsilon, sigma)
	if t.slope == 0 {
		return 0, divergence
	}
	// ln f falls ever slower along the ray, so that e^ε f = 1 is reached beyond the distance of the
	// first tangent.
	scale, least := max(math.Abs(t.distance(epsilon)), sigma), math.Inf(1)
	for step := 1; step <= 24 && ctx.Err() == nil; step++ {
		at := scale * float64(step) / 6
		t = shiftTangent(at, k, c, sigma, post)
		divergence = min(divergence, t.divergence(epsilon, sigma))
		if t.slope == 0 || !(t.distance(epsilon) > 0) {
			continue
		}
		if tail := t.tail(randomised, epsilon, sigma); tail.bound() < least && tail.slack(epsilon) <= maxSlack {
			kappa, least = at, tail.bound()
		}
	}
	return kappa, divergence
}
