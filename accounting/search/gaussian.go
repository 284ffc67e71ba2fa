package search

import (
	"math"
	"slices"

	"minsep/accounting"
)

// The scale reaches from scaleLow to scaleHigh in steps of scaleStep, between which ln δ is a
// straight line to about 1e-3.
const scaleLow, scaleHigh, scaleStep = -5, 2, Step

// Scale gives ln of the divergence of a Gaussian mechanism at the claim's ε over the claim's δ. Its
// argument is ln of the noise multiplier over the one at which the divergence is δ. Divergences of
// other mechanisms are measured by this scale: they fall with σ nearly as the Gaussian one falls
// with a power of σ.
type Scale struct {
	delta      float64
	multiplier float64   // σ of the Gaussian mechanism of sensitivity 1 at δ
	ratios     []float64 // ln of the divergence over δ, from scaleLow on, falling
}

// NewScale is the scale of a claim, with epsilon at least 0 and delta above 0 and below 1.
func NewScale(epsilon, delta float64) (*Scale, error) {
	multiplier, err := accounting.GaussianNoiseMultiplier(epsilon, delta, 1)
	if err != nil {
		return nil, err
	}
	s := &Scale{delta: delta, multiplier: multiplier}
	for u := float64(scaleLow); u <= scaleHigh; u += scaleStep {
		at, err := accounting.Gaussian{NoiseMultiplier: multiplier * math.Exp(u), Sensitivity: 1}.Delta(epsilon)
		if err != nil {
			return nil, err
		}
		if !(at > 0) { // out of the range of numbers: a straight line goes on from here
			break
		}
		s.ratios = append(s.ratios, math.Log(at/delta))
	}
	return s, nil
}

// Ratio is ln of the divergence over δ at noise multiplier e^u of the one at which it is δ.
func (s *Scale) Ratio(u float64) float64 {
	t := (u - scaleLow) / scaleStep
	i := int(min(max(t, 0), float64(len(s.ratios)-2)))
	return s.ratios[i] + (t-float64(i))*(s.ratios[i+1]-s.ratios[i])
}

// at is the inverse of Ratio.
func (s *Scale) at(ratio float64) float64 {
	i, _ := slices.BinarySearchFunc(s.ratios, ratio, func(r, ratio float64) int {
		if r > ratio {
			return -1
		}
		return 1
	})
	i = min(max(i-1, 0), len(s.ratios)-2)
	a, b := s.ratios[i], s.ratios[i+1]
	if !(a-b > 1e-9) { // as large as a divergence can be
		return scaleLow
	}
	return scaleLow + scaleStep*(float64(i)+(a-ratio)/(a-b))
}
