package pld

import (
	"math"
	"slices"

	"minsep/internal/normal"
	"minsep/internal/param"
)

// Allocation is one period of Places releases, each with normal noise of its own. An owner takes
// part in at most one of them, and in each with probability 1/Steps (F6.3; arXiv 2602.17284): the
// owner draws a uniform step of a period of Steps, which the training may break off after Places. A
// smaller Steps never claims more privacy than the training has.
type Allocation struct {
	Steps           float64 // T, from 1 to 2^53
	Places          int     // from 1 to Steps
	NoiseMultiplier float64 // σ, above 0: standard deviation of the noise in units of the clip norm
	Sensitivity     float64 // norm of the strategy's column, the same at every step, above 0
}

// Validate reports every fault.
func (a Allocation) Validate() error {
	c := param.Checker{}
	c.Require(a.Steps >= 1 && a.Steps <= 1<<53, "steps", a.Steps, "must be from 1 to 2^53")
	c.Require(a.Places >= 1 && float64(a.Places) <= a.Steps, "places", a.Places, "must be from 1 to steps")
	c.Positive("noise multiplier", a.NoiseMultiplier)
	c.Positive("sensitivity", a.Sensitivity)
	return c.Err()
}

// Constants of the computation of a period's likelihood ratio. The tail keeps every cut far below
// any δ of interest, and is added to δ. The slops are bounds, not estimates: they multiply or
// enlarge every mass, so that rounding never lowers a figure.
const (
	allocationTail = 1e-24   // mass, or mean, that may be cut off one draw or one sum at either end
	allocationSlop = 1e-10   // relative, for each step of a period: quadrature, and rounding of sums of positive terms
	weightSlop     = 1e-12   // absolute, added to each share of a cell
	mostAllocated  = 1 << 15 // cells of one distribution: add is quadratic near the diagonal
	largestRatio   = 25      // of sensitivity over noise: a period beyond it counts as a loss of all privacy, as exp underflows at 30
)

// resolution asks for a grid of ln(P/Q) of a fiftieth of its standard deviation, at most .01, and no
// finer than mostAllocated cells allow. The second moment of a mean of Places of Steps terms gives the
// deviation; its exponent is cut where exp would overflow.
func (a Allocation) resolution(float64) resolution {
	m, z := a.Sensitivity/a.NoiseMultiplier, normal.Quantile(allocationTail)
	spread := math.Sqrt(math.Expm1(min(m*m, 500))*float64(a.Places)) / a.Steps
	return resolution{fine: min(0.01, 0.02*spread), least: (2*z*m + m*m + math.Log(a.Steps)) / mostAllocated}
}

// losses computes the distribution of ratio. With Q = N(0, σ²I), the ratio P/Q of a period is a mean
// of independent variables. Both divergences of a composition are means under Q of convex functions
// of each period's P/Q, with the other events fixed. So every variable may be replaced by one that is
// larger in the convex order. A value between two points of the grid is spread over both of them so
// that its mean stays. A value below the grid goes to 0 and the lowest point, and a value above it to
// the highest point and infinity. Both divergences become larger, never smaller, by about the square
// of the grid. All terms of all sums are positive, so that rounding errors stay relative.
func (a Allocation) losses(grid, _ float64) (pq, qp atoms) {
	if a.Sensitivity/a.NoiseMultiplier > largestRatio {
		all := atoms{mass: []float64{allocationTail}, inf: 1}
		return all, all
	}
	return a.ratio(grid).losses(grid, allocationSlop*float64(a.Places))
}

// ratios is the distribution of P/Q under Q: mass[i] at exp(grid·(low+i)), and mass zero at 0.
// infinite is the part of the mean that is counted at infinity, where there is no mass: outcomes
// that have probability under P and none under Q.
type ratios struct {
	low            int
	mass           []float64
	zero, infinite float64
}

// ratio returns the distribution of P/Q of a period: the constant 1 - places/steps, plus 1/steps
// times exp(m z - m²/2) for each release, with m = sensitivity / noise multiplier. The sum of
// Places equal terms is made by doubling, in about log₂ Places additions.
func (a Allocation) ratio(grid float64) ratios {
	g := allocator{grid: grid}
	one := g.draw(a.Sensitivity/a.NoiseMultiplier, a.Steps)
	var parts []ratios // the terms of the sum
	if rest := a.Steps - float64(a.Places); rest > 0 {
		parts = append(parts, g.at(rest/a.Steps))
	}
	for places := a.Places; ; one = g.add(one, one) {
		if places&1 == 1 {
			parts = append(parts, one)
		}
		if places >>= 1; places == 0 {
			break
		}
	}
	sum := parts[0]
	for _, part := range parts[1:] {
		sum = g.add(sum, part)
	}
	return sum
}

// losses returns the distribution of ln(P/Q) under P, for H(P,Q), and of ln(Q/P) under Q, for
// H(Q,P). slop is the relative error of every mass, and raises each.
func (r ratios) losses(grid, slop float64) (pq, qp atoms) {
	n := len(r.mass)
	pq = atoms{low: r.low, mass: make([]float64, n), inf: min(1, r.infinite*(1+slop)+allocationTail)}
	qp = atoms{low: -(r.low + n - 1), mass: make([]float64, n), inf: min(1, r.zero*(1+slop)+allocationTail)}
	for i, m := range r.mass {
		m *= 1 + slop
		pq.mass[i] = m * math.Exp(grid*float64(r.low+i))
		qp.mass[n-1-i] = m
	}
	return pq, qp
}

// allocator makes and adds distributions on one grid.
type allocator struct{ grid float64 }

// point returns the value at grid point i.
func (g allocator) point(i int) float64 { return math.Exp(g.grid * float64(i)) }

// at returns the distribution of the constant v > 0, spread over the two grid points around it so
// that the mean stays.
func (g allocator) at(v float64) ratios {
	s := math.Log(v) / g.grid
	i := int(math.Floor(s))
	up := min(1, max(0, math.Expm1((s-float64(i))*g.grid)/math.Expm1(g.grid)))
	return ratios{low: i, mass: []float64{1 - up + weightSlop, up + weightSlop}}
}

// draw returns the distribution of exp(m z - m²/2) / steps with z ~ N(0,1): the ratio P/Q of a pair
// whose P has the mass 1/steps. Values below the grid go to 0, and those above it to infinity and 0; the
// mean of both is counted at infinity.
func (g allocator) draw(m, steps float64) ratios {
	z := normal.Quantile(allocationTail) // Q has little below -z, and P above m+z
	mirrored := pair{num: []component{{1, 0}}, den: []component{{1 / steps, -m}}}
	of := mirrored.between(g.grid, -m-z, z)
	slices.Reverse(of.mass)
	cut := normal.Tail(m + z) // of P below, and of Q above
	return ratios{
		low:      1 - of.low - len(of.mass),
		mass:     of.mass,
		zero:     of.inf + cut,
		infinite: (normal.Tail(z) + cut) / steps,
	}
}

// add returns the distribution of the sum of two independent values.
//
// The grid is geometric. So the sum of two points at distance d lies a fixed number of cells above
// the higher one, and its shares of the neighbouring points depend on d only: near computes them
// once for each d. From distance reach on, the sum lies in the first cell above the higher point,
// and its share of the upper end is proportional to the lower value: far uses prefix sums, in time
// linear in the number of points.
func (g allocator) add(a, b ratios) ratios {
	low, high := min(a.low, b.low), max(a.low+len(a.mass), b.low+len(b.mass))
	full := math.Expm1(g.grid)
	reach := min(high-low, int(math.Ceil(math.Log(2/full)/g.grid))+1) // from here on the upper point's share is below 1/2
	more := int(math.Log(2)/g.grid) + 2                               // how far above the higher point a sum may be
	out := make([]float64, high-low+more)
	for d := range max(reach, 1) {
		s := math.Log1p(math.Exp(-g.grid*float64(d))) / g.grid
		k := int(s)
		s -= float64(k)
		up := math.Expm1(s*g.grid)/full + weightSlop
		down := math.Exp(s*g.grid)*math.Expm1((1-s)*g.grid)/full + weightSlop
		near(out[k:], low, d, a, b, down, up)
		if d > 0 {
			near(out[k:], low, d, b, a, down, up)
		}
	}
	x, y := a.on(low, high), b.on(low, high)
	g.far(out, x, y, reach)
	g.far(out, y, x, reach)
	for i := range x {
		out[i] += x[i]*b.zero + y[i]*a.zero
	}
	r := ratios{low: low, mass: out, zero: a.zero * b.zero, infinite: a.infinite + b.infinite}
	g.trim(&r)
	return r
}

// near adds to out the sums of each point of x with the point of y that is d below it. A part down
// goes to x's own point of out, and a part up to the next one. out[0] is grid point low; the caller
// shifts out where sums lie further above.
func near(out []float64, low, d int, x, y ratios, down, up float64) {
	from, to := max(x.low, y.low+d), min(x.low+len(x.mass), y.low+d+len(y.mass))
	if from >= to {
		return
	}
	xs, ys := x.mass[from-x.low:to-x.low], y.mass[from-y.low-d:to-y.low-d]
	top, next := out[from-low:to-low], out[from-low+1:to-low+1]
	for i, v := range xs {
		m := v * ys[i]
		top[i] += m * down
		next[i] += m * up
	}
}

// far adds to out the sums of each point of x with all points of y that are at least reach below
// it. All slices begin at the same grid point.
func (g allocator) far(out, x, y []float64, reach int) {
	full, down := math.Expm1(g.grid), math.Exp(-g.grid)
	first := math.Exp(-g.grid*float64(reach)) / full
	mass, share := 0.0, 0.0 // of the points of y below, and the part that goes to the upper neighbour
	for i := reach; i < len(x); i++ {
		m := y[i-reach]
		mass += m
		share = share*down + m*first
		out[i] += x[i] * (mass - share + weightSlop*mass)
		out[i+1] += x[i] * (share + weightSlop*share)
	}
}

// on returns the masses at the grid points low to high - 1, with zeros where r has no mass.
func (r ratios) on(low, high int) []float64 {
	if r.low == low && r.low+len(r.mass) == high {
		return r.mass
	}
	mass := make([]float64, high-low)
	copy(mass[r.low-low:], r.mass)
	return mass
}

// trim removes small masses at the ends, so that sums do not grow without need. At the lower end
// the removed mass counts in full at 0 and again at the lowest remaining point, which is more than
// its two shares. At the upper end its mean goes to infinity, and its mass to 0.
func (g allocator) trim(r *ratios) {
	cut, from := 0.0, 0
	for from < len(r.mass)-1 && cut+r.mass[from] < allocationTail {
		cut += r.mass[from]
		from++
	}
	r.zero += cut
	r.mass[from] += cut
	gone, to := 0.0, len(r.mass)
	for to > from+1 {
		if gone += r.mass[to-1] * g.point(r.low+to-1); gone >= allocationTail {
			break
		}
		r.infinite += r.mass[to-1] * g.point(r.low+to-1)
		r.zero += r.mass[to-1]
		to--
	}
	r.mass, r.low = slices.Clone(r.mass[from:to]), r.low+from
}
