package calibration

import (
	"math"
	"slices"

	"minsep/internal/accounting"
)

// The scale reaches from scaleLow to scaleHigh in steps of scaleStep, between which ln δ is a
// straight line to about 1e-3.
const scaleLow, scaleHigh, scaleStep = -5, 2, 0.01

// Scale is ln of the divergence of a Gaussian mechanism at a claim's ε over the claim's δ, as a
// function of ln of its noise multiplier over the one at which the divergence is δ.
type Scale struct {
	ratios []float64 // from scaleLow on, falling
}

// NewScale is the scale of a claim, with epsilon at least 0 and delta above 0 and below 1.
func NewScale(epsilon, delta float64) (*Scale, error) {
	multiplier, err := accounting.GaussianNoiseMultiplier(epsilon, delta, 1)
	if err != nil {
		return nil, err
	}
	s := &Scale{}
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

// Ratio is ln of the divergence over δ at u.
func (s *Scale) Ratio(u float64) float64 {
	t := (u - scaleLow) / scaleStep
	i := int(min(max(t, 0), float64(len(s.ratios)-2)))
	return s.ratios[i] + (t-float64(i))*(s.ratios[i+1]-s.ratios[i])
}

// inverse is the inverse of Ratio.
func (s *Scale) inverse(ratio float64) float64 {
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

// steepness is how fast Ratio falls at u.
func (s *Scale) steepness(u float64) float64 {
	return max(1e-9, (s.Ratio(u-scaleStep)-s.Ratio(u+scaleStep))/(2*scaleStep))
}

// Slope is the power of σ with which a divergence falls as a Gaussian mechanism's does.
type Slope struct {
	Value, StdErr float64 // above 0
}

// UnknownSlope is the slope of a run that nothing is known of.
var UnknownSlope = Slope{1, slopeError}

// Similar is the slope of a similar run, as far as this one shows it.
func (s Slope) Similar() Slope { return Slope{s.Value, math.Hypot(s.StdErr, similarError)} }

// point is an estimate of a divergence on the scale.
type point struct {
	x      float64 // ln σ
	u      float64 // on the scale
	stdErr float64 // of u
}

// line is u = height + slope (ln σ - centre). The errors of height and slope are independent.
type line struct {
	scale             *Scale
	centre            float64
	height, heightVar float64
	slope, slopeVar   float64
}

// fit is the line of least squares through points, at least one, with a slope known before.
func (s *Scale) fit(points []point, before Slope) line {
	weight := func(p point) float64 {
		return 1 / (p.stdErr*p.stdErr + bend*bend*p.u*p.u*p.u*p.u + 1e-12)
	}
	total, x, u := 0.0, 0.0, 0.0
	for _, p := range points {
		w := weight(p)
		total, x, u = total+w, x+w*p.x, u+w*p.u
	}
	l := line{scale: s, centre: x / total, height: u / total, heightVar: 1 / total}
	precision := 1 / (before.StdErr * before.StdErr)
	slope := precision * before.Value
	for _, p := range points {
		w, off := weight(p), p.x-l.centre
		precision, slope = precision+w*off*off, slope+w*off*p.u
	}
	l.slope, l.slopeVar = max(slope/precision, 0.2), 1/precision
	return l
}

// solve is the ln σ at which the divergence is δ, with its standard error and the part of that which
// the slope leaves.
func (l line) solve() (x, stdErr, bySlope float64) {
	bySlope = math.Abs(l.height) / (l.slope * l.slope) * math.Sqrt(l.slopeVar)
	return l.where(0), math.Hypot(math.Sqrt(l.heightVar)/l.slope, bySlope), bySlope
}

// where is the ln σ at which ln of the divergence over δ is ratio.
func (l line) where(ratio float64) float64 {
	return l.centre + (l.scale.inverse(ratio)-l.height)/l.slope
}

// steepness is how fast ln of the divergence falls with ln σ at ln σ = x.
func (l line) steepness(x float64) float64 {
	return l.slope * l.scale.steepness(l.height+l.slope*(x-l.centre))
}

// at is ln of the divergence over δ at ln σ = x, with its standard error.
func (l line) at(x float64) (ratio, stdErr float64) {
	off := x - l.centre
	u := l.height + l.slope*off
	return l.scale.Ratio(u), math.Sqrt(l.heightVar+off*off*l.slopeVar) * l.scale.steepness(u)
}
