package pld

import "math"

// atoms is a discrete privacy loss distribution: mass[i] at loss (low+i)·grid, and mass inf at
// infinite loss.
type atoms struct {
	low  int
	mass []float64
	inf  float64
}

// cell is the part of the pair between the losses index·grid and (index+1)·grid.
type cell struct {
	mass  float64 // under num
	upper float64 // the share of mass that goes to the upper end when num and den both keep their mass
}

// discretize returns a discrete distribution on multiples of grid: for every ε, and after any
// composition, its divergence is at least H(num, den). tail is the mass under num that may be cut at
// either end: it moves to infinity, or to the lowest atom.
//
// It connects the dots (Doroshenko et al. 2022). The mass of a cell goes to its two ends so that both
// num and den keep their mass; H is then interpolated linearly in e^ε between grid points, and it is
// convex.
func (p pair) discretize(grid, tail float64) atoms {
	first, last := p.support(tail)
	out := p.between(grid, first, last)
	out.mass[0] += max(0, 1-out.inf-total(out.mass))
	return out
}

// between is discretize of the part of num from first to last. What is above is infinite, and what is
// below is left out.
func (p pair) between(grid, first, last float64) atoms {
	cells, low := p.cells(grid, first, last)
	out := atoms{low: low, mass: make([]float64, len(cells)+1), inf: tailAbove(p.num, last) * (1 + 1e-10)}
	for i, c := range cells {
		out.mass[i] += c.mass - c.upper
		out.mass[i+1] += c.upper
	}
	return out
}

// put adds mass at a loss of at grid points, divided between the points around it so that P and Q keep
// their masses. Both are among the atoms.
func (a atoms) put(at, grid, mass float64) {
	i := math.Floor(at)
	up := min(1, max(0, math.Expm1((i-at)*grid)/math.Expm1(-grid)))
	a.mass[int(i)-a.low] += mass * (1 - up)
	a.mass[int(i)-a.low+1] += mass * up
}

// plus returns a plus weight times b.
func (a atoms) plus(b atoms, weight float64) atoms {
	if a.mass == nil {
		a.low = b.low
	}
	low := min(a.low, b.low)
	high := max(a.low+len(a.mass), b.low+len(b.mass))
	out := atoms{low: low, mass: make([]float64, high-low), inf: a.inf + weight*b.inf}
	copy(out.mass[a.low-low:], a.mass)
	for i, m := range b.mass {
		out.mass[b.low-low+i] += weight * m
	}
	return out
}

// total returns the sum of xs.
func total(xs []float64) (sum float64) {
	for _, x := range xs {
		sum += x
	}
	return sum
}

// cells integrates num from first to last over the cells of the grid. The first cell begins at the loss
// low·grid. Panels of .02 over the largest mean keep the error of the quadrature below atomError.
func (p pair) cells(grid, first, last float64) (cells []cell, low int) {
	start, end := p.at(first), p.at(last)
	low = int(math.Floor(start.loss / grid))
	high := int(math.Ceil(end.loss / grid))
	cells = make([]cell, max(1, high-low))
	widest := 0.0
	for _, c := range p.num {
		widest = max(widest, c.mean)
	}
	panel := 0.02 / max(1, widest)
	left := start
	for i := range cells {
		right := end
		if edge := float64(low+i+1) * grid; i < len(cells)-1 {
			right = p.crossing(left, end, edge)
		}
		cells[i] = p.integrate(left, right, float64(low+i)*grid, grid, panel)
		left = right
	}
	return cells, low
}

// crossing returns the point between left and end at which the loss is edge, to within 1e-7 of a
// cell, by Newton's method within a bracket.
func (p pair) crossing(left, end point, edge float64) point {
	low, high := left.x, end.x
	x := left.x + (edge-left.loss)/left.slope
	for range 200 {
		if !(x > low && x < high) {
			x = (low + high) / 2
		}
		pt := p.at(x)
		miss := edge - pt.loss
		if miss >= 0 {
			low = x
		} else {
			high = x
		}
		step := miss / pt.slope
		if width := x - left.x; math.Abs(step) <= 1e-3*min(width, 1e-3) {
			// The loss is linear and ln density too over so short a step.
			return point{x + step, pt.density * math.Exp(pt.logSlope*step), edge, pt.slope, pt.logSlope - step}
		}
		if high-low <= 1e-15*math.Abs(x) {
			break
		}
		x += step
	}
	return p.at(high)
}

// integrate integrates num over [left, right], in which the loss runs from at least base to at most
// base + grid. With ℓ the loss, the upper share is ∫ num (1 - exp(base-ℓ)) / (1 - exp(-grid)),
// which subtracts no close numbers.
func (p pair) integrate(left, right point, base, grid, panel float64) (c cell) {
	width := right.x - left.x
	if width <= 0 {
		return c
	}
	full := -math.Expm1(-grid)
	n := int(math.Ceil(width / panel))
	d := width / float64(n)
	if n == 1 && width <= 5e-4 { // Simpson's rule
		mid := p.at(left.x + width/2)
		c.mass = width / 6 * (left.density + 4*mid.density + right.density)
		c.upper = width / 6 * (left.density*-math.Expm1(base-left.loss) +
			4*mid.density*-math.Expm1(base-mid.loss) + right.density*-math.Expm1(base-right.loss)) / full
	} else { // three-point Gauss–Legendre panels
		for k := range n {
			centre := left.x + (float64(k)+0.5)*d
			for _, g := range gauss3 {
				pt := p.at(centre + g.node*d/2)
				w := g.weight * pt.density * d / 2
				c.mass += w
				c.upper += w * -math.Expm1(base-pt.loss) / full
			}
		}
	}
	c.upper = min(max(c.upper, 0), c.mass)
	return c
}

// gauss3 is three-point Gauss–Legendre quadrature on [-1, 1].
var gauss3 = [3]struct{ node, weight float64 }{
	{-math.Sqrt(3. / 5), 5. / 9}, {0, 8. / 9}, {math.Sqrt(3. / 5), 5. / 9},
}
