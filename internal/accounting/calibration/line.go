package calibration

import (
	"math"

	"minsep/internal/accounting"
)

// scale measures a divergence by the Gaussian mechanism that has the same: by ln of its noise
// multiplier over the one at which the mechanism has δ.
type scale struct {
	epsilon, delta float64
	multiplier     float64 // at which the mechanism has δ
}

func newScale(epsilon, delta float64) (scale, error) {
	multiplier, err := accounting.GaussianNoiseMultiplier(epsilon, delta, 1)
	return scale{epsilon, delta, multiplier}, err
}

// leastRatio is the least divergence that is told from 0.
const leastRatio = 1e-300

// ratio is ln of the divergence over δ at u on the scale.
func (s scale) ratio(u float64) float64 {
	at, err := accounting.Gaussian{NoiseMultiplier: s.multiplier * math.Exp(u), Sensitivity: 1}.Delta(s.epsilon)
	if err != nil { // the noise multiplier leaves the range of numbers
		at = 0
	}
	return math.Log(max(at, leastRatio) / s.delta)
}

// inverse is the place on the scale of ln of a divergence over δ.
func (s scale) inverse(ratio float64) float64 {
	const most = 0.999 // a larger divergence says as little
	delta := min(max(s.delta*math.Exp(ratio), leastRatio), most)
	multiplier, err := accounting.GaussianNoiseMultiplier(s.epsilon, delta, 1)
	if err != nil { // of a claim that newScale refuses
		return 0
	}
	return math.Log(multiplier / s.multiplier)
}

// steepness is how fast ratio falls at u.
func (s scale) steepness(u float64) float64 {
	const step = 0.01
	return max(1e-9, (s.ratio(u-step)-s.ratio(u+step))/(2*step))
}

// point is an estimate of a divergence on the scale.
type point struct {
	x      float64 // ln σ
	u      float64 // on the scale
	stdErr float64 // of u
}

// line is u = height + slope (ln σ - centre). The errors of height and slope are independent.
type line struct {
	scale
	centre            float64
	height, heightVar float64
	slope, slopeVar   float64
}

// fit is the line of least squares through points, at least one, with a slope near 1.
func (s scale) fit(points []point) line {
	weight := func(p point) float64 {
		return 1 / (p.stdErr*p.stdErr + bend*bend*p.u*p.u*p.u*p.u + 1e-12)
	}
	total, x, u := 0.0, 0.0, 0.0
	for _, p := range points {
		w := weight(p)
		total, x, u = total+w, x+w*p.x, u+w*p.u
	}
	l := line{scale: s, centre: x / total, height: u / total, heightVar: 1 / total}
	precision := 1 / (slopeError * slopeError)
	slope := precision
	for _, p := range points {
		w, off := weight(p), p.x-l.centre
		precision += w * off * off
		slope += w * off * p.u
	}
	const least = 0.2
	l.slope, l.slopeVar = max(slope/precision, least), 1/precision
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
	return l.centre + (l.inverse(ratio)-l.height)/l.slope
}

// at is ln of the divergence over δ at ln σ = x, with its standard error.
func (l line) at(x float64) (ratio, stdErr float64) {
	off := x - l.centre
	u := l.height + l.slope*off
	return l.ratio(u), math.Sqrt(l.heightVar+off*off*l.slopeVar) * l.steepness(u)
}

// fall is how fast ln of the divergence falls with ln σ at ln σ = x.
func (l line) fall(x float64) float64 {
	return l.slope * l.steepness(l.height+l.slope*(x-l.centre))
}
