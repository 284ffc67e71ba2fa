package pld

import "math"

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

// sums are two weighted tails of the composed distribution.
type sums struct{ above, scaled float64 }

// tails walks down from the highest loss. At index j it yields two sums over i ≥ j: above = Σ
// mass_i exp(-λ(loss_i - loss_j)) and scaled = Σ mass_i exp(-(λ+1)(loss_i - loss_j)). For ε in
// (loss_{j-1}, loss_j], δ(ε) = exp(K - λ loss_j) (above - exp(ε - loss_j) scaled).
func (c *composed) tails(yield func(index int, t sums) bool) {
	r1, r2 := math.Exp(-c.tilt*c.grid), math.Exp(-(c.tilt+1)*c.grid)
	above, scaled := 0.0, 0.0
	for i := len(c.mass) - 1; i >= 0; i-- {
		above = above*r1 + c.mass[i]
		scaled = scaled*r2 + c.mass[i]
		if !yield(c.low+i, sums{above, scaled}) {
			return
		}
	}
}

// delta bounds δ at epsilon ≥ 0, with every error bound added.
func (c *composed) delta(epsilon float64) float64 {
	epsilon -= c.blur
	want := int(math.Ceil(epsilon / c.grid)) // first loss at or above ε
	slack := c.scale(int(math.Floor(epsilon/c.grid))) * c.slack()
	main := 0.0
	from := max(want, c.low)
	for index, t := range c.tails {
		if index == from {
			loss := float64(index) * c.grid
			main = c.scale(index) * (t.above - math.Exp(epsilon-loss)*t.scaled)
			break
		}
	}
	return min(1, max(0, main)*(1+c.relative)+slack+c.infinite)
}

// epsilon inverts delta: it returns the smallest ε at which the bound is at most delta. inside
// reports whether the answer lies inside the window.
func (c *composed) epsilon(delta float64) (epsilon float64, inside bool) {
	if delta <= c.infinite {
		return math.Inf(1), true
	}
	delta -= c.infinite
	var prev sums // at the next higher index
	relative, slack := 1+c.relative, c.slack()
	scale, ratio := 0.0, math.Exp(c.tilt*c.grid)
	for index, t := range c.tails {
		if scale *= ratio; index%64 == 0 || scale == 0 {
			scale = c.scale(index)
		}
		if scale*((t.above-t.scaled)*relative+slack) > delta {
			loss := float64(index) * c.grid
			rest := delta - scale*slack
			// The answer lies in [loss, next]: solve exp(K - λ next)(above - exp(ε-next) scaled) =
			// rest/relative.
			next := loss + c.grid
			switch {
			case prev.scaled > 0:
				e := (prev.above - rest/relative*math.Exp(c.tilt*next-c.log)) / prev.scaled
				epsilon = min(max(next+math.Log(max(e, 0)), loss), next)
			case rest > 0:
				epsilon = next
			default:
				return math.Inf(1), false
			}
			return max(0, epsilon+c.blur), true
		}
		prev = t
		if index < 0 { // nothing below ε = 0 matters
			return 0, true
		}
	}
	return max(0, float64(c.low)*c.grid), c.low <= 0
}
