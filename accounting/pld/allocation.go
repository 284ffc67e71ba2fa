package pld

import (
	"math"
	"slices"

	"minsep/accounting/internal/normal"
	"minsep/internal/param"
)

// Allocation is one period of Places releases, each with normal noise of its own, in which an owner
// takes part at most once, at each with probability 1/Steps (F6.3; arXiv 2602.17284): at a uniform
// step of a period of Steps, which the training need not finish. A smaller Steps claims no less.
type Allocation struct {
	Steps           float64 // T, from 1 to 2^53
	Places          int     // from 1 to Steps
	NoiseMultiplier float64 // σ, above 0: standard deviation of the noise in units of the clip norm
	Sensitivity     float64 // norm of the strategy's column, the same at every step, above 0
	Count           int     // of such periods, at least 1
}

// Validate reports every fault.
func (a Allocation) Validate() error {
	c := param.Checker{Package: "pld"}
	c.Require(a.Steps >= 1 && a.Steps <= 1<<53, "steps", a.Steps, "must be from 1 to 2^53")
	c.Require(a.Places >= 1 && float64(a.Places) <= a.Steps, "places", a.Places, "must be from 1 to steps")
	c.Positive("noise multiplier", a.NoiseMultiplier)
	c.Positive("sensitivity", a.Sensitivity)
	c.AtLeast("count", a.Count, 1)
	return c.Err()
}

// Constants of the computation of a period's likelihood ratio.
const (
	allocationTail = 1e-24 // mass, or mean, that may be cut off one draw or one sum at either end
	allocationSlop = 1e-10 // relative, for each step of a period: quadrature, and rounding of sums of positive terms
	weightSlop     = 1e-12 // for the rounding of a share of a cell, of any size
	mostAllocated  = 1 << 15
)

// ComposeAllocations composes periods, in any order. Lower bounds are 0.
//
// With Q = N(0, σ²I), P/Q of a period is a mean of independent variables ratio, and both
// divergences of a composition are means under Q of convex functions of each period's P/Q, with
// the other periods fixed. So every variable may be replaced by one that is larger in the convex
// order: a value between two points of a grid is spread over both of them such that its mean stays,
// and one beyond the grid's ends over 0, or infinity, and the end. Both directions become larger,
// never smaller, by the square of the grid. All sums are of positive terms.
func ComposeAllocations(periods []Allocation) (*Composition, error) {
	c := param.Checker{Package: "pld"}
	c.Require(len(periods) > 0, "periods", len(periods), "must not be empty")
	for _, a := range periods {
		c.Add(a.Validate())
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return composeAllocations(periods, allocationGrid(periods)), nil
}

func composeAllocations(periods []Allocation, grid float64) *Composition {
	nothing := product{grid: grid, terms: []term{{atoms{mass: []float64{1}}, 1}}, below: true}
	out := &Composition{Loss{nothing, product{grid: grid}}, Loss{nothing, product{grid: grid}}}
	for _, a := range periods {
		ratio := a.ratio(grid)
		pq, qp := ratio.losses(grid, allocationSlop*float64(a.Places))
		out.PQ.upper.terms = append(out.PQ.upper.terms, term{pq, float64(a.Count)})
		out.QP.upper.terms = append(out.QP.upper.terms, term{qp, float64(a.Count)})
	}
	return out
}

// allocationGrid is a grid of ln(P/Q), fine for its spread and for memory.
func allocationGrid(periods []Allocation) float64 {
	spread, least := 0.0, 0.0
	for _, a := range periods {
		m := a.Sensitivity / a.NoiseMultiplier
		spread = max(spread, math.Sqrt(math.Expm1(min(m*m, 500))*float64(a.Places))/a.Steps)
		z := normal.Quantile(allocationTail)
		least = max(least, (2*z*m+m*m+math.Log(a.Steps))/mostAllocated)
	}
	return max(min(0.01, 0.02*spread), least, 1e-7)
}

// ratios is a measure of values of P/Q under Q: mass[i] at exp(grid·(low+i)), zero at 0, and the
// mean infinite at infinity, where there is no mass.
type ratios struct {
	low            int
	mass           []float64
	zero, infinite float64
}

// ratio is the measure of P/Q of a period: 1 - places/steps and the mean over all steps of
// exp(m z - m²/2) where they are released, m = sensitivity / noise multiplier.
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

// losses are the distributions of the loss under P, for H(P,Q), and under Q, for H(Q,P).
// slop is the relative error of every figure.
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

// allocator adds measures on one grid.
type allocator struct{ grid float64 }

// point is a grid point.
func (g allocator) point(i int) float64 { return math.Exp(g.grid * float64(i)) }

// at is the measure of one value, above 0.
func (g allocator) at(v float64) ratios {
	s := math.Log(v) / g.grid
	i := int(math.Floor(s))
	up := min(1, max(0, math.Expm1((s-float64(i))*g.grid)/math.Expm1(g.grid)))
	return ratios{low: i, mass: []float64{1 - up + weightSlop, up + weightSlop}}
}

// draw is the measure of exp(m z - m²/2) / steps with z ~ N(0,1). Between the ends, cells are
// integrated with each end's share as a positive function.
func (g allocator) draw(m, steps float64) ratios {
	z := normal.Quantile(allocationTail)
	shift := math.Log(steps) + m*m/2                             // loss is m z - shift
	first := int(math.Floor((-m*z - shift) / g.grid))            // where Q has little below
	last := max(first+1, int(math.Ceil((m*(m+z)-shift)/g.grid))) // where P has little above
	r := ratios{low: first, mass: make([]float64, last-first+1)}
	at := func(i int) float64 { return (g.grid*float64(i) + shift) / m } // z of a grid point
	low, high := at(first), at(last)
	r.zero = normal.Tail(-low) + normal.Tail(high)
	r.mass[0] = normal.Tail(m-low) / steps / g.point(first)
	r.infinite = normal.Tail(high-m) / steps
	width := g.grid / m
	panels := max(1, int(math.Ceil(width/0.02)))
	full := math.Expm1(g.grid)
	for i := first; i < last; i++ {
		for p := range panels {
			centre := at(i) + (float64(p)+0.5)*width/float64(panels)
			for _, gauss := range gauss3 {
				x := centre + gauss.node*width/float64(panels)/2
				w := gauss.weight * width / float64(panels) / 2 * math.Exp(-x*x/2) / math.Sqrt(2*math.Pi)
				s := min(g.grid, max(0, m*(x-at(i)))) // above the cell's lower end
				r.mass[i-first] += w * math.Exp(s) * math.Expm1(g.grid-s) / full
				r.mass[i-first+1] += w * math.Expm1(s) / full
			}
		}
	}
	return r
}

// add is the measure of the sum of independent values.
//
// Two grid points of distance d have a sum that lies as far above the higher one whatever that is,
// so that its shares are computed once for each distance. From reach on it is in the cell above the
// higher point, its shares are linear in the lower one, and prefix sums do.
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

// near adds the sums of points of x with the points of y that are d below, to the points of x and
// the next ones. out begins at the grid point low.
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

// far adds the sums of points of x with points of y that are at least reach below.
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

// on is the mass on the grid points from low to before high.
func (r ratios) on(low, high int) []float64 {
	if r.low == low && r.low+len(r.mass) == high {
		return r.mass
	}
	mass := make([]float64, high-low)
	copy(mass[r.low-low:], r.mass)
	return mass
}

// trim cuts small masses off the ends: from below they go to 0 and the lowest remaining point,
// from above to 0 and infinity.
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
