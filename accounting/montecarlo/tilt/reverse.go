package tilt

import (
	"math"

	"minsep/accounting/internal/normal"
	"minsep/accounting/montecarlo/internal/likelihood"
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

// flattened replaces a slope that is too small for float64 by none. Its square, and the
// gradient itself, may have underflowed; then ⟨g, y⟩ can take from ln f far less than lowered
// took.
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

// logBound is ln M of a Shifted proposal (F5.4), for finite d > 0.
func (t tangent) logBound(epsilon, sigma float64) float64 {
	d := t.distance(epsilon)
	a := d / (sigma * sigma)
	return -a*d/2 - a/t.slope*math.Log1p(t.slope/a) + math.Log(t.slope/(a+t.slope))
}

// logBoundOf is ln M of a Shifted proposal; values of randomised ratios may reach the weight
// itself, e^{-d²/2σ²}.
func (t tangent) logBoundOf(randomised bool, epsilon, sigma float64) float64 {
	if !randomised {
		return t.logBound(epsilon, sigma)
	}
	d := t.distance(epsilon) / sigma
	return -d * d / 2
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

// posterior computes, for y through u_i = ⟨c_i, y⟩/σ², ln f(y) and the probability that each step
// has a participation.
type posterior interface {
	given(u, participates []float64) (logF float64)

	// logNever is ln Pr[no participation], rounded downward.
	logNever() float64
}

// renewal is the posterior of b-min-sep (F3.2, forward and backward).
type renewal struct {
	process
	norms   []float64 // ‖c_i‖²/σ²
	logF    []float64 // ln f_i, b entries beyond the last step
	forward []float64 // Pr[free before step i | y]
}

func newRenewal(p process, norms []float64) *renewal {
	return &renewal{process: p, norms: norms, logF: make([]float64, p.steps+p.sep), forward: make([]float64, p.steps+p.sep)}
}

func (r *renewal) given(u, participates []float64) float64 {
	n, b := r.steps, r.sep
	logQ, logP := math.Log1p(-r.prob), math.Log(r.prob)
	join := func(i int) float64 { return logP + u[i] - r.norms[i]/2 + r.logF[i+b] }
	for i := n - 1; i >= 0; i-- {
		r.logF[i] = likelihood.LogSum(logQ+r.logF[i+1], join(i))
	}
	clear(r.forward)
	total := r.logF[0]
	if r.warm {
		logWait := -math.Log1p(float64(b-1) * r.prob)
		total += logWait
		for s := 1; s < b; s++ {
			total = likelihood.LogSum(total, logWait+logP+r.logF[s])
		}
		for s := range b {
			weight := logWait + r.logF[s]
			if s > 0 {
				weight += logP
			}
			r.forward[s] = math.Exp(weight - total)
		}
	} else {
		r.forward[0] = 1
	}
	for i := range n {
		participates[i] = r.forward[i] * math.Exp(join(i)-r.logF[i])
		r.forward[i+1] += r.forward[i] - participates[i]
		r.forward[i+b] += participates[i]
	}
	return total
}

func (r *renewal) logNever() float64 {
	never := r.logSilent(r.steps)
	if r.warm {
		for s := 1; s < r.sep; s++ {
			never = likelihood.LogSum(never, math.Log(r.prob)+r.logSilent(max(0, r.steps-s)))
		}
		never -= math.Log1p(float64(r.sep-1) * r.prob)
	}
	return never - tangentRounding*(1+math.Abs(never))
}

// logSilent is ln (1-p)^m, 0 for m = 0 whatever p.
func (r *renewal) logSilent(m int) float64 {
	if m == 0 {
		return 0
	}
	return float64(m) * math.Log1p(-r.prob)
}

// binPosterior is the posterior of balls-in-bins (F3.4).
type binPosterior struct {
	period int
	empty  int       // bins without a step
	norms  []float64 // ‖m_t‖²/σ²
	sums   []float64
}

// newBinPosterior sums the columns of each bin.
func newBinPosterior(c *likelihood.Columns, period int, factor float64) *binPosterior {
	p := &binPosterior{period, max(0, period-c.Steps), make([]float64, period), make([]float64, period)}
	mean := make([]float64, c.Steps)
	for t := range min(period, c.Steps) {
		c.SumEvery(mean, t, period)
		for _, v := range mean {
			p.norms[t] += factor * v * v
		}
	}
	return p
}

// logNever: as many bins are empty as the period is longer than the run.
func (p *binPosterior) logNever() float64 {
	if p.empty == 0 {
		return math.Inf(-1)
	}
	return math.Log(float64(p.empty)/float64(p.period)) - tangentRounding
}

func (p *binPosterior) given(u, participates []float64) float64 {
	clear(p.sums)
	for i, v := range u {
		p.sums[i%p.period] += v
	}
	total := math.Inf(-1)
	for t := range p.sums {
		p.sums[t] -= p.norms[t] / 2
		total = likelihood.LogSum(total, p.sums[t])
	}
	for i := range u {
		participates[i] = math.Exp(p.sums[i%p.period] - total)
	}
	return total - math.Log(float64(p.period))
}

// gradient returns ln f and ∇ ln f at y0 = -kappa·direction; g has Steps entries and may not be
// direction.
func gradient(g []float64, kappa float64, c *likelihood.Columns, factor float64, post posterior, direction []float64) (logF float64) {
	u, participates := make([]float64, c.Steps), make([]float64, c.Steps)
	if kappa != 0 {
		for i := range u {
			u[i] = -kappa * factor * c.Dot(i, direction)
		}
	}
	logF = post.given(u, participates)
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
func shiftTangent(kappa float64, k int, c *likelihood.Columns, sigma float64, post posterior) tangent {
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
func bestTangent(epsilon float64, k int, randomised bool, c *likelihood.Columns, sigma float64, post posterior) (kappa, divergence float64) {
	t := shiftTangent(0, k, c, sigma, post)
	divergence = t.divergence(epsilon, sigma)
	if t.slope == 0 {
		return 0, divergence
	}
	// ln f falls ever slower along the ray, so that e^ε f = 1 is reached beyond the distance of the
	// first tangent.
	scale, least := max(math.Abs(t.distance(epsilon)), sigma), math.Inf(1)
	for step := 1; step <= 24; step++ {
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

// slack is the slack of a Shifted proposal by this tangent: weights reach e (A+G)/G times M
// where f = e^-ε.
func (t tangent) slack(epsilon, sigma float64) float64 {
	return lossError(epsilon) * (1 + t.distance(epsilon)/(sigma*sigma*t.slope))
}
