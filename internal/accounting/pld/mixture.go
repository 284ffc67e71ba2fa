package pld

import (
	"math"

	"minsep/internal/bisect"
	"minsep/internal/normal"
)

// component is one term of a mixture of normal densities of variance 1.
type component struct{ weight, mean float64 }

// pair is two mixtures of unit normals on the line. Every mean of num is ≥ 0 and every mean of den
// ≤ 0, so that the loss ln(num/den) rises with x.
type pair struct{ num, den []component }

// mirrored is the same pair of distributions with the roles exchanged, reflected so that the loss
// rises again.
func (p pair) mirrored() pair {
	flip := func(cs []component) []component {
		out := make([]component, len(cs))
		for i, c := range cs {
			out[i] = component{c.weight, -c.mean}
		}
		return out
	}
	return pair{num: flip(p.den), den: flip(p.num)}
}

// point holds the densities and the loss of the pair at one x.
type point struct {
	x        float64
	density  float64 // of num
	loss     float64 // ln(num/den)
	slope    float64 // of the loss
	logSlope float64 // of ln density
}

// at returns densities and loss at x. It works with logarithms relative to the standard normal, so
// that the loss is exact where both densities underflow.
func (p pair) at(x float64) point {
	logNum, meanNum := tilted(p.num, x)
	logDen, meanDen := tilted(p.den, x)
	return point{
		x:        x,
		density:  math.Exp(logNum-x*x/2) / math.Sqrt(2*math.Pi),
		loss:     logNum - logDen,
		slope:    meanNum - meanDen,
		logSlope: meanNum - x,
	}
}

// tilted returns ln Σ w exp(m x - m²/2), the log density of the mixture against the standard
// normal, and the mean of m under the posterior weights at x, which is its derivative.
func tilted(cs []component, x float64) (logSum, mean float64) {
	if len(cs) == 1 {
		m := cs[0].mean
		return m*x - m*m/2 + math.Log(cs[0].weight), m
	}
	top := math.Inf(-1)
	for _, c := range cs {
		top = max(top, c.mean*(x-c.mean/2))
	}
	sum, moment := 0.0, 0.0
	for _, c := range cs {
		e := c.weight
		if d := c.mean*(x-c.mean/2) - top; d != 0 {
			e *= math.Exp(d)
		}
		sum += e
		moment += e * c.mean
	}
	return top + math.Log(sum), moment / sum
}

// tailAbove returns Pr[X > x] under the mixture.
func tailAbove(cs []component, x float64) (sum float64) {
	for _, c := range cs {
		sum += c.weight * normal.Tail(x-c.mean)
	}
	return sum
}

// tailBelow returns Pr[X < x] under the mixture.
func tailBelow(cs []component, x float64) (sum float64) {
	for _, c := range cs {
		sum += c.weight * normal.Tail(c.mean-x)
	}
	return sum
}

// support returns an interval that leaves at most the mass tail of num on either side.
func (p pair) support(tail float64) (low, high float64) {
	z := normal.Quantile(tail)
	largest, smallest := 0.0, math.Inf(1)
	for _, c := range p.num {
		largest, smallest = max(largest, c.mean), min(smallest, c.mean)
	}
	low, _ = bisect.Between(smallest-z, largest, edgeWidth, func(x float64) bool { return tailBelow(p.num, x) <= tail })
	_, high = bisect.Between(smallest, largest+z, edgeWidth, func(x float64) bool { return tailAbove(p.num, x) > tail })
	return low, high
}

// edgeWidth is how near to its place an end of the support is found.
const edgeWidth = 1e-6

// resolution returns what one direction of the pair asks of the grid: a fiftieth of the spread of its
// loss, and at most 2^19 cells.
func (p pair) resolution(tail float64) resolution {
	first, last := p.support(tail)
	low, high := p.support(1e-9)
	const panels = 500
	d := (high - low) / panels
	var mass, sum, squares float64
	for i := range panels {
		pt := p.at(low + (float64(i)+0.5)*d)
		mass += pt.density
		sum += pt.density * pt.loss
		squares += pt.density * pt.loss * pt.loss
	}
	mean := sum / mass
	variance := max(0, squares/mass-mean*mean)
	return resolution{
		fine:     0.02 * math.Sqrt(variance),
		least:    (p.at(last).loss - p.at(first).loss) / (1 << 19),
		variance: variance,
	}
}
