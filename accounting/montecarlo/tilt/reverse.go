package tilt

import (
	"math"

	"minsep/accounting/internal/normal"
	"minsep/accounting/montecarlo/internal/law"
)

// tangent is a linear lower bound of ln f: ln f(y) ≥ offset + ⟨g, y⟩ for all y, g = slope·direction with a unit vector direction.
//
// For one example ln f is convex (a logarithm of a sum of exponentials of linear functions), and the tangent at any y0 has
// g = E[Cx | y0]/σ² and offset ln f(y0) - ⟨g, y0⟩ (F5.4). For k independent examples let all of them follow the law ρ of x given y0 of
// one. By the variational bound ln f_k(y) ≥ ⟨E CΣx, y⟩/σ² - E‖CΣx‖²/2σ² - KL, where E‖CΣx‖² has, besides k terms as for
// one example, k(k-1) terms ⟨E Cx, E Cx⟩ = σ⁴‖g‖²: so ln f_k(y) ≥ k(offset + ⟨g,y⟩) - k(k-1)/2 σ²‖g‖².
type tangent struct {
	offset, slope float64
	direction     []float64
}

// several is the tangent for k examples.
func (t tangent) several(k int, sigma float64) tangent {
	m := float64(k)
	return tangent{m*t.offset - m*(m-1)/2*sigma*sigma*t.slope*t.slope, m * t.slope, t.direction}
}

// distance is d of F5.4: y with ⟨direction, y⟩ > -d have e^ε f > 1 and a value of 0.
func (t tangent) distance(epsilon float64) float64 { return (epsilon + t.offset) / t.slope }

// logBound is ln M of the values drawn around -d·direction (F5.4), for d > 0.
func (t tangent) logBound(epsilon, sigma float64) float64 {
	d := t.distance(epsilon)
	a := d / (sigma * sigma)
	return -a*d/2 + a/t.slope*math.Log(a/(a+t.slope)) + math.Log(t.slope/(a+t.slope))
}

// divergence is the upper bound Φ(t) - e^{ε+offset+G²σ²/2} Φ(t-Gσ) of H(Q,P), t = -(ε+offset)/(Gσ) (F5.4). With the Mills ratio
// m(x) = Φ(-x)/φ(x) it is φ(t) (m(-t) - m(-t+Gσ)).
func (t tangent) divergence(epsilon, sigma float64) float64 {
	if t.slope == 0 {
		return max(0, -math.Expm1(epsilon+t.offset))
	}
	x := t.distance(epsilon) / sigma // -t
	if x < -30 {
		return 1
	}
	return normal.Density(x) * (normal.Mills(x) - normal.Mills(x+t.slope*sigma))
}

// posterior computes, for y through u_i = ⟨c_i, y⟩/σ², ln f(y) and the probability that each step has a participation.
type posterior interface {
	given(u, participates []float64) (logF float64)
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
		r.logF[i] = law.LogSum(logQ+r.logF[i+1], join(i))
	}
	clear(r.forward)
	total := r.logF[0]
	if r.warm {
		logWait := -math.Log1p(float64(b-1) * r.prob)
		total += logWait
		for s := 1; s < b; s++ {
			total = law.LogSum(total, logWait+logP+r.logF[s])
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

// logNever is ln Pr[no participation].
func (r *renewal) logNever() float64 {
	logQ := math.Log1p(-r.prob)
	if !r.warm {
		return float64(r.steps) * logQ
	}
	sum := math.Exp(float64(r.steps) * logQ)
	for s := 1; s < r.sep; s++ {
		sum += r.prob * math.Exp(float64(max(0, r.steps-s))*logQ)
	}
	return math.Log(sum) - math.Log1p(float64(r.sep-1)*r.prob)
}

// binPosterior is the posterior of balls-in-bins (F3.4).
type binPosterior struct {
	period int
	norms  []float64 // ‖m_t‖²/σ²
	sums   []float64
}

// newBinPosterior sums the columns of each bin.
func newBinPosterior(c *law.Columns, period int, factor float64) *binPosterior {
	p := &binPosterior{period, make([]float64, period), make([]float64, period)}
	mean := make([]float64, c.Steps)
	for t := range min(period, c.Steps) {
		clear(mean)
		for i := t; i < c.Steps; i += period {
			column, scale := c.Column(i)
			for k, v := range column {
				mean[i+k] += scale * v
			}
		}
		for _, v := range mean {
			p.norms[t] += factor * v * v
		}
	}
	return p
}

func (p *binPosterior) given(u, participates []float64) float64 {
	clear(p.sums)
	for i, v := range u {
		p.sums[i%p.period] += v
	}
	total := math.Inf(-1)
	for t := range p.sums {
		p.sums[t] -= p.norms[t] / 2
		total = law.LogSum(total, p.sums[t])
	}
	for i := range u {
		participates[i] = math.Exp(p.sums[i%p.period] - total)
	}
	return total - math.Log(float64(p.period))
}

// gradient returns ln f and ∇ ln f at y0 = -kappa·direction; g has Steps entries and may not be direction.
func gradient(g []float64, kappa float64, c *law.Columns, factor float64, post posterior, direction []float64) (logF float64) {
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

// shiftTangent returns the tangent at y0 = -kappa·direction for k examples, where direction is that of the gradient at y0, found
// by iteration. Any y0 gives a valid bound, this one a good one.
func shiftTangent(kappa float64, k int, c *law.Columns, sigma float64, post posterior) tangent {
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
		if slope == 0 {
			return t
		}
		done := round > 0 && (along > (1-1e-6)*slope || round == rounds)
		for i, v := range g {
			direction[i] = v / slope
		}
		if done {
			return t.several(k, sigma)
		}
		at = kappa
	}
}

// bestTangent tries a grid of kappa for k examples. It returns the kappa whose tangent gives the least M, 0 when none has a positive
// distance, and the least upper bound of H(Q,P) that any gives.
func bestTangent(epsilon float64, k int, c *law.Columns, sigma float64, post posterior) (kappa, divergence float64) {
	t := shiftTangent(0, k, c, sigma, post)
	divergence = t.divergence(epsilon, sigma)
	if t.slope == 0 {
		return 0, divergence
	}
	// ln f falls ever slower along the ray, so that e^ε f = 1 is reached beyond the distance of the first tangent.
	scale, least := max(math.Abs(t.distance(epsilon)), sigma), math.Inf(1)
	for step := 1; step <= 24; step++ {
		at := scale * float64(step) / 6
		t = shiftTangent(at, k, c, sigma, post)
		divergence = min(divergence, t.divergence(epsilon, sigma))
		if t.distance(epsilon) <= 0 {
			continue
		}
		if bound := t.logBound(epsilon, sigma); bound < least {
			kappa, least = at, bound
		}
	}
	return kappa, divergence
}
