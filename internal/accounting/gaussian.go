package accounting

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"

	"minsep/internal/bisect"
	"minsep/internal/normal"
	"minsep/internal/param"
)

// ParamError is a parameter with a value that breaks a rule.
type ParamError = param.Error

// Gaussian is the Gaussian mechanism without amplification: a sum of sensitivity Sensitivity
// plus normal noise of standard deviation NoiseMultiplier, both in units of the clip norm. With
// a strategy C, Sensitivity is the sensitivity of C under the participation schema (F2).
type Gaussian struct {
	Sensitivity     float64 `json:"sensitivity"`      // in units of the clip norm, positive
	NoiseMultiplier float64 `json:"noise_multiplier"` // standard deviation in units of the clip norm, positive
}

// Validate reports every fault.
func (g Gaussian) Validate() error {
	c := param.Checker{}
	c.Positive("sensitivity", g.Sensitivity)
	c.Positive("noise multiplier", g.NoiseMultiplier)
	return c.Err()
}

// Delta is the smallest δ at which the mechanism is (epsilon, δ)-DP, with a relative error
// below 1e-11 down to 1e-300 (F6; Balle and Wang 2018, Theorem 8).
func (g Gaussian) Delta(epsilon float64) (float64, error) {
	c := param.Checker{}
	c.Add(g.Validate())
	checkEpsilon(&c, epsilon)
	if err := c.Err(); err != nil {
		return 0, err
	}
	return gaussianDelta(epsilon, g.Sensitivity/g.NoiseMultiplier), nil
}

// GaussianNoiseMultiplier is the smallest noise multiplier that makes the Gaussian mechanism of the
// given sensitivity (epsilon, delta)-DP, rounded up.
func GaussianNoiseMultiplier(epsilon, delta, sensitivity float64) (float64, error) {
	c := param.Checker{}
	c.Positive("sensitivity", sensitivity)
	checkEpsilon(&c, epsilon)
	checkDelta(&c, delta)
	if err := c.Err(); err != nil {
		return 0, err
	}
	private := func(sigma float64) bool { return gaussianDelta(epsilon, 1/sigma) <= delta }
	sigma, _ := smallestFrom(1, math.Inf(1), private)
	sigma *= sensitivity // one more ulp keeps the guarantee after it
	for gaussianDelta(epsilon, sensitivity/sigma) > delta {
		sigma = math.Nextafter(sigma, math.Inf(1))
	}
	return sigma, nil
}

func checkEpsilon(c *param.Checker, epsilon float64) {
	c.Require(epsilon >= 0 && !math.IsInf(epsilon, 1), "epsilon", epsilon, "must be a finite number, at least 0")
}

func checkDelta(c *param.Checker, delta float64) {
	c.Require(delta >= 1e-300 && delta < 1, "delta", delta, "must be at least 1e-300 and below 1")
}

// gaussianDelta is δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ), where μ = sensitivity/σ. With x = ε/μ -
// μ/2 and e^ε φ(x+μ) = φ(x) it equals φ(x) (R(x) - R(x+μ)), R being the Mills ratio. In this form
// nothing overflows. Where the two ratios are close, their difference is computed as the integral
// of -R'.
func gaussianDelta(epsilon, mu float64) float64 {
	x := epsilon/mu - mu/2
	switch {
	case x < -1: // here μ > 2: no cancellation
		return normal.Tail(x) - normal.Density(x)*normal.Mills(x+mu)
	case mu > 0.25*math.Max(1, x):
		return normal.Density(x) * (normal.Mills(x) - normal.Mills(x+mu))
	}
	difference := quad.Fixed(normal.MillsSlope, x, x+mu, 8, quad.Legendre{}, 0)
	return normal.Density(x) * difference
}

// smallestFrom is the smallest number for which ok holds, near a positive first guess. found is
// false where it is above the last number up to most that doubling the guess reaches.
func smallestFrom(guess, most float64, ok func(float64) bool) (least float64, found bool) {
	high := guess
	for !ok(high) {
		if high *= 2; high > most {
			return 0, false
		}
	}
	low := high / 2
	for ok(low) {
		high, low = low, low/2
	}
	_, least = bisect.Between(low, high, 0, func(x float64) bool { return !ok(x) })
	return least, true
}
