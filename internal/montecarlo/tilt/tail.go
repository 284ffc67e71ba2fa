package tilt

import (
	"math"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/normal"
)

// tail is the distribution of the projection ⟨g, y⟩/G of a proposal of method Tangent, in units of
// -σ (F5.4): a density in proportion to φ(x) (1 - e^{-slope·(x-from)}) beyond from. Randomised
// ratios leave the last factor out: φ(x) alone.
type tail struct {
	from, slope float64 // t = d/σ > 0 and Gσ > 0
	randomised  bool
}

func (t tangent) tail(randomised bool, epsilon, sigma float64) tail {
	return tail{t.distance(epsilon) / sigma, t.slope * sigma, randomised}
}

// draw returns x, by rejection. The sum of two exponential variables with the rates s and s + slope
// has a density in proportion to e^{-sz} (1 - e^{-slope·z}), which leaves e^{-(z-(s-from))²/2} to
// accept with.
func (t tail) draw(u *kernel.Uniforms) float64 {
	rate := (t.from + math.Sqrt(t.from*t.from+4)) / 2
	for {
		z := -math.Log(u.Float64()) / rate
		if !t.randomised {
			z -= math.Log(u.Float64()) / (rate + t.slope)
		}
		if off := z - (rate - t.from); u.Float64() < math.Exp(-off*off/2) {
			return t.from + z
		}
	}
}

// weight is the density of Q over the proposal's at x, for a total of bound.
func (t tail) weight(x, bound float64) float64 {
	if t.randomised {
		return bound
	}
	return bound / -math.Expm1(-t.slope*(x-t.from))
}

// bound is M: the integral beyond from of φ(x) (1 - e^{-slope·(x-from)}), which is the bound of the
// tangent, or of φ(x) for randomised ratios.
func (t tail) bound() float64 {
	if t.randomised {
		return normal.Tail(t.from) * (1 + millsError)
	}
	return normal.Density(t.from) * (normal.Mills(t.from)*(1+millsError) - normal.Mills(t.from+t.slope))
}

// slack is the slack of a proposal: an error e of ln f changes the mean of the values by
// e·Φ(-from) at most.
func (t tail) slack(epsilon float64) float64 {
	if t.randomised {
		return lossError(epsilon)
	}
	// Both the tail and the bound are divided by the density at from, which is 0 where d is large.
	mills := normal.Mills(t.from)
	return lossError(epsilon) * max(1, mills/(mills*(1+millsError)-normal.Mills(t.from+t.slope)))
}
