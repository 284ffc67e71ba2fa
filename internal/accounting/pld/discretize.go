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

// discretize returns two discrete distributions on multiples of grid: for every ε, and after
// any composition, the hockey-stick divergence H(num, den) lies between the divergences of
// lower and upper. tail is the mass under num that may be cut at either end: upward (to
// infinity, or to the lowest atom) in upper, dropped in lower.
//
// Upper: connect the dots (Doroshenko et al. 2022). The mass of a cell goes to its two ends so that
// both num and den keep their mass; H is then interpolated linearly in e^ε between grid points, and
// it is convex.
//
// Lower: each cell is merged into one outcome, and neighbouring outcomes are merged in parts so
// that the merged one has its loss exactly on the grid. Merging is post-processing. Mass that
// cannot be merged has its loss rounded down, which only lowers H.
func (p pair) discretize(grid, tail float64) (lower, upper atoms) {
	cells, low, inf := p.cells(grid, tail)
	upper = atoms{low: low, mass: make([]float64, len(cells)+1), inf: inf}
	for i, c := range cells {
		upper.mass[i] += c.mass - c.upper
		upper.mass[i+1] += c.upper
	}
	upper.mass[0] += max(0, 1-inf-total(upper.mass))
	return merge(cells, low, grid), upper
}

// total returns the sum of xs.
func total(xs []float64) (sum float64) {
	for _, x := range xs {
		sum += x
	}
	return sum
}

// cells integrates num over the cells of the grid. The first cell begins at the loss low·grid. inf
// is the mass above the last cell, at most tail and raised for rounding. Panels of .02 over the
// largest mean keep the error of the quadrature below atomError.
func (p pair) cells(grid, tail float64) (cells []cell, low int, inf float64) {
	first, last := p.support(tail)
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
	return cells, low, tailAbove(p.num, last) * (1 + 1e-10)
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

// merge returns the optimistic atoms of cells, which the true pair dominates. Cell i, merged into
// one outcome, has a loss between the grid points i and i+1. At grid point i+1 the rest of cell i
// is merged with as much of cell i+1 as puts the result on the grid. That leaves masses a[i] with
// a[i+1] = p[i+1] - r a[i]. merge follows the solution that varies slowly, a[i] = p[i+1] /
// (p[i+1]/p[i] + r): any other solution alternates about it and fails where p falls. Mass above it
// is merged with cell i+2 instead. Mass that cannot be merged has its loss rounded down.
func merge(cells []cell, low int, grid float64) atoms {
	out := atoms{low: low, mass: make([]float64, len(cells)+1)}
	full := -math.Expm1(-grid)
	stretch := math.Exp(grid)
	// drop is 1 - exp(point - loss) for the outcome of cell c above its lower grid point.
	drop := func(c cell) float64 { return c.upper / c.mass * full }
	left := make([]float64, len(cells)+2) // of each cell, not yet placed
	for i, c := range cells {
		left[i] = c.mass
	}
	for i, c := range cells {
		rest := left[i]
		if rest <= 0 {
			continue
		}
		// down is exp(point - loss) - 1 for the outcome of cell c below the grid point i+1.
		down := (1-drop(c))*stretch - 1
		if i+1 < len(cells) && cells[i+1].mass > 0 && cells[i+1].upper > 0 && down > 0 {
			next := cells[i+1]
			r := down / drop(next) // mass of next that balances one unit of c
			a := min(rest, next.mass/(next.mass/c.mass+r), left[i+1]/r)
			out.mass[i+1] += a * (1 + r)
			left[i+1] = max(0, left[i+1]-a*r)
			rest -= a
			if i+2 < len(cells) && cells[i+2].mass > 0 && rest > 0 {
				r := down / (1 - (1-drop(cells[i+2]))/stretch)
				a := min(rest, 0.5*left[i+2]/r)
				out.mass[i+1] += a * (1 + r)
				left[i+2] -= a * r
				rest -= a
			}
		}
		out.mass[i] += rest
	}
	return out
}
