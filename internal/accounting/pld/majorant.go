package pld

import (
	"math"

	"minsep/internal/param"
)

// Majorant is a distribution on a geometric grid; part of its mean may be at infinity. For every x
// its E(X-x)_+ is at least as large as for each variable that it was made for. So it is above these
// variables in the increasing convex order, which sums of independent variables keep (F5.14).
type Majorant struct {
	grid float64
	law  ratios
	slop float64 // relative error of every excess

	knots []knot // of the excess as a function of x; nil after a sum
}

// knot is a point of a convex function that is linear between knots.
type knot struct {
	index    int // of the grid; not used at x = 0
	x, value float64
}

// raised is the relative increase of every bound that covers all rounding in a majorant.
const raised = 1e-9

// NewMajorant returns a majorant of all variables X ≥ 0 of mean 1 with E(X - e^{grid·(low+j)})_+ ≤
// bounds[j] ≤ 1 for every j. It takes the lower convex hull of the bounds: E(X-x)_+ is convex in x,
// and a convex function below the bounds is below their hull.
func NewMajorant(grid float64, low int, bounds []float64) (*Majorant, error) {
	c := param.Checker{}
	c.Require(grid >= 1e-4 && grid <= 1, "grid", grid, "must be in [1e-4, 1]")
	c.Requiref(
		len(bounds) > 1 && len(bounds) <= maxCells,
		"bounds",
		len(bounds),
		"must be 2 to %d", maxCells,
	)
	for j, b := range bounds {
		c.Requiref(b >= 0 && b <= 1, "bound", b, "of number %d must be from 0 to 1", j)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	m := &Majorant{grid: grid, slop: raised, knots: []knot{{x: 0, value: 1}}}
	least := 1.0
	for j, b := range bounds {
		x := math.Exp(grid * float64(low+j))
		least = min(least, b*(1+raised))
		next := knot{low + j, x, max(least, 1-x)}
		for n := len(m.knots); n > 1 && slope(m.knots[n-2], next) <= slope(m.knots[n-2], m.knots[n-1]); n = len(m.knots) {
			m.knots = m.knots[:n-1]
		}
		m.knots = append(m.knots, next)
	}
	m.law = m.from(m.knots)
	return m, nil
}

// slope returns the slope of the line through two knots.
func slope(a, b knot) float64 { return (b.value - a.value) / (b.x - a.x) }

// from returns the distribution for which E(X-x)_+ is linear between the knots: the mass at a knot
// is the change of the slope there.
func (m *Majorant) from(knots []knot) ratios {
	first, last := knots[1], knots[len(knots)-1]
	r := ratios{low: first.index, mass: make([]float64, last.index-first.index+1), infinite: last.value}
	before := -1.0
	for i, k := range knots {
		after := 0.0
		if i+1 < len(knots) {
			after = slope(k, knots[i+1])
		}
		if mass := max(0, after-before); i == 0 {
			r.zero = mass
		} else {
			r.mass[k.index-r.low] = mass
		}
		before = after
	}
	return r
}

// Cut returns a majorant of X·[X ≤ e^{grid·index}], for an index of at least 0. m must not be a
// sum.
func (m *Majorant) Cut(index int) *Majorant {
	end := knot{index: index, x: math.Exp(m.grid * float64(index))}
	last := 0
	for j, k := range m.knots {
		if k.x >= end.x {
			break
		}
		if j == 0 || slope(k, end) >= slope(m.knots[j-1], k) {
			last = j
		}
	}
	cut := &Majorant{grid: m.grid, slop: m.slop, knots: append(append([]knot(nil), m.knots[:last+1]...), end)}
	cut.law = cut.from(cut.knots)
	return cut
}

// Sum returns a majorant of the sum of count independent variables, count ≥ 1. It doubles, so that
// it takes about 2 log₂ count additions.
func (m *Majorant) Sum(count int) *Majorant {
	g := allocator{m.grid}
	var sum *ratios
	for part, rest := m.law, count; ; part = g.add(part, part) {
		if rest&1 == 1 {
			next := part
			if sum != nil {
				next = g.add(*sum, part)
			}
			sum = &next
		}
		if rest >>= 1; rest == 0 {
			break
		}
	}
	return &Majorant{grid: m.grid, law: *sum, slop: m.slop + float64(count)*allocationSlop}
}

// Majorant returns a majorant of P/Q of one period on a grid. It has no knots, and so no Cut.
func (a Allocation) Majorant(grid float64) (*Majorant, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	return &Majorant{grid: grid, law: a.ratio(grid), slop: raised + allocationSlop*float64(a.Places)}, nil
}

// Plus returns a majorant of the sum of two independent variables, from majorants on one grid.
func (m *Majorant) Plus(o *Majorant) *Majorant {
	return &Majorant{
		grid: m.grid,
		law:  allocator{m.grid}.add(m.law, o.law),
		slop: m.slop + o.slop + allocationSlop,
	}
}

// Excess returns an upper bound of E(X-x)_+, for any x.
func (m *Majorant) Excess(x float64) float64 {
	total := m.law.infinite + m.law.zero*max(0, -x)
	for i := len(m.law.mass) - 1; i >= 0; i-- {
		above := math.Exp(m.grid*float64(m.law.low+i)) - x
		if above <= 0 {
			break
		}
		total += m.law.mass[i] * above
	}
	return total*(1+m.slop) + allocationTail
}
