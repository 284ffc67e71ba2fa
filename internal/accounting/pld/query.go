package pld

import (
	"math"

	"minsep/internal/bisect"
)

// slack bounds the effect of the composed distribution's errors on δ at ε = index·grid, before
// scale. The errors are the mass outside the window, and the rounding noise: Cauchy–Schwarz bounds Σ
// noise_j exp(-λ(loss_j - ε)) over loss_j ≥ ε. The sum of the squared weights exp(-2λ(loss_j - ε)) is
// at most the smaller of the number of cells and a geometric series.
func (c *composed) slack() float64 {
	weights := float64(len(c.mass))
	if d := -math.Expm1(-2 * c.tilt * c.grid); d > 0 {
		weights = min(weights, 1/d)
	}
	return 2*c.stray + c.noise*math.Sqrt(weights)
}

// scale turns tilted sums at a grid index into true ones.
func (c *composed) scale(index int) float64 { return math.Exp(c.log - c.tilt*c.grid*float64(index)) }

// delta bounds δ at epsilon ≥ 0, with every error bound added. With j the first loss at or above ε,
// and the sums over i ≥ j of above = mass_i exp(-λ(loss_i - loss_j)) and scaled = mass_i exp(-(λ+1)(loss_i
// - loss_j)), it is exp(K - λ loss_j) (above - exp(ε - loss_j) scaled).
func (c *composed) delta(epsilon float64) float64 {
	epsilon -= c.blur
	slack := c.scale(int(math.Floor(epsilon/c.grid))) * c.slack()
	from := max(int(math.Ceil(epsilon/c.grid)), c.low)
	r1, r2 := math.Exp(-c.tilt*c.grid), math.Exp(-(c.tilt+1)*c.grid)
	above, scaled := 0.0, 0.0
	for i := len(c.mass) - 1; i >= from-c.low; i-- {
		above = above*r1 + c.mass[i]
		scaled = scaled*r2 + c.mass[i]
	}
	main := 0.0
	if above > 0 {
		main = c.scale(from) * (above - math.Exp(epsilon-float64(from)*c.grid)*scaled)
	}
	return min(1, max(0, main)*(1+c.relative)+slack+c.infinite)
}

// epsilon inverts delta: it returns the smallest ε at which the bound is at most delta. inside
// reports whether the answer lies inside the window.
func (c *composed) epsilon(delta float64) (epsilon float64, inside bool) {
	low, high := float64(c.low)*c.grid, float64(c.low+len(c.mass))*c.grid+c.blur
	switch bottom := max(0, low); {
	case delta <= c.infinite:
		return math.Inf(1), true
	case high <= 0 || c.delta(bottom) <= delta:
		return bottom, low <= 0
	case c.delta(high) > delta:
		return math.Inf(1), false
	default:
		_, epsilon = bisect.Between(bottom, high, 1e-6*c.grid, func(x float64) bool { return c.delta(x) > delta })
		return epsilon, true
	}
}
