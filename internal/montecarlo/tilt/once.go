package tilt

import (
	"fmt"
	"math"
	"slices"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
)

// once is the tuple distribution of an example that takes part at most once (F3.10): at each
// step with probability a_i = a, never with the rest. Any C ≥ 0, orders 1 to 3, in closed form
// (F5.6).
//
// With φ_ij = e^{⟨c_i,c_j⟩/σ²} - 1 ≥ 0, i = j included, a pair of replicas that take part at i and
// j has weight 1 + φ_ij. Expanding the product over the pairs of three replicas gives a sum of
// positive terms, by the pairs that contribute φ: none, one (an edge), two (a path), or all three
// (a triangle). So there is nothing to subtract, and a tuple is drawn by drawing a term first:
//
//	S_1 = A = Σ a_i,   r_i = Σ_j a_j φ_ij,   S_2 = A² + Σ a_i r_i,
//	S_3 = A³ + 3A Σ a_i r_i + 3 Σ a_i r_i² + Σ a_i a_j a_k φ_ij φ_jk φ_ik,
//	N_θ = Σ_m C(θ,m) never^{θ-m} S_m.
type once struct {
	uniformOnce
	steps, bands int
	order        int
	phi          [][]float64 // phi[i][d] = φ_{i,i+d}, d < min(bands, n-i); steps of equal columns share a row

	a, r []float64

	// Partial sums, to draw from.
	count    []float64   // of C(θ,m) never^{θ-m} S_m over m
	mass     []float64   // of a_i
	edges    []float64   // of a_i r_i
	paths    []float64   // of a_i r_i²
	corners  []float64   // of the triangles by their first step
	triangle [][]float64 // of the tuples with first step i, by the distance of their second, over a_i³

	logN     float64
	rounding float64 // bound of the relative error of N_θ and of every weight
}

// onceBytes is about the size of a table of an order.
func onceBytes(steps, bands, order int) float64 {
	entries := float64(bands) * (float64(steps) - float64(bands-1)/2)
	return 8 * entries * float64(max(1, order-1))
}

// newOnce takes 1/σ².
func newOnce(x uniformOnce, c *likelihood.Columns, factor float64, order int) (*once, error) {
	n, w := c.Steps, c.Bands
	work := float64(n) * float64(w) * float64(w) / 2
	switch {
	case order > maxOnceOrder:
		return nil, fmt.Errorf("%w: order %d of examples that take part at most once", ErrTable, order)
	case order > 1 && onceBytes(n, w, order) > maxTableBytes || order == 3 && work > maxProducts:
		return nil, fmt.Errorf("%w: order %d at %d steps and %d bands is too much work", ErrTable, order, n, w)
	}
	o := &once{uniformOnce: x, steps: n, order: order, a: make([]float64, n), mass: make([]float64, n)}
	sum := 0.0
	for i := range o.a {
		o.a[i] = o.each
		sum += o.a[i]
		o.mass[i] = sum
	}
	if order > 1 {
		o.makePhi(c, factor)
		o.makeEdges()
	}
	if order > 2 {
		o.makeTriangles()
	}
	o.makeCount()
	o.rounding = onceRounding(c, factor)
	o.logN = math.Log(o.count[order])
	if math.IsNaN(o.logN) || math.IsInf(o.logN, 0) {
		return nil, fmt.Errorf("%w: order %d: the sums leave the range of float64", ErrTable, order)
	}
	return o, nil
}

// source bounds the errors. A walk has the errors of the weights, and of at most seven draws from
// sums of n or fewer entries.
func (o *once) source() *source {
	s := &source{walkError: o.rounding + 8*float64(o.steps+8)*0x1p-53, walker: exactly(o.draw)}
	if o.order > 1 {
		s.lnN, s.raised = o.logN, max(inflation, 2*o.rounding)
	}
	return s
}

// makePhi computes φ. Rows that are equal, as all but the last are for a Toeplitz C, are kept once.
func (o *once) makePhi(c *likelihood.Columns, factor float64) {
	o.phi = make([][]float64, o.steps)
	var last []float64
	c.Backward(func(i int, inner []float64) {
		if slices.Equal(inner, last) {
			o.phi[i] = o.phi[i+1]
			return
		}
		last = append(last[:0], inner...)
		row := make([]float64, len(inner))
		for d, g := range inner {
			row[d] = math.Expm1(factor * g)
		}
		o.phi[i] = row
	})
	o.bands = max(1, c.Bands)
}

func (o *once) makeEdges() {
	a, r := o.a, make([]float64, o.steps)
	for i, row := range o.phi {
		sum := row[0] * a[i]
		for d := 1; d < len(row); d++ {
			sum += row[d] * a[i+d]
			r[i+d] += row[d] * a[i]
		}
		r[i] += sum
	}
	o.r = r
	edges, paths := 0.0, 0.0
	for i, r := range r {
		edges += a[i] * r
		paths += a[i] * r * r
		o.edges, o.paths = append(o.edges, edges), append(o.paths, paths)
	}
}

// makeTriangles sums triples i ≤ j ≤ k by i and j, each times the number of its orders. The sums
// are in units of a_i³, so that steps with equal columns share them.
func (o *once) makeTriangles() {
	o.triangle = make([][]float64, o.steps)
	alike, total := 0, 0.0 // how many rows from i on are the same
	bands := o.bands
	corner := make([]float64, o.steps)
	for i := o.steps - 1; i >= 0; i-- {
		if i+1 < o.steps && &o.phi[i][0] == &o.phi[i+1][0] {
			alike++
		} else {
			alike = 0
		}
		if alike >= bands {
			o.triangle[i] = o.triangle[i+1]
		} else {
			o.triangle[i] = o.triangleRow(i)
		}
		corner[i] = o.a[i] * o.a[i] * o.a[i] * o.triangle[i][len(o.triangle[i])-1]
	}
	for _, x := range corner {
		total += x
		o.corners = append(o.corners, total)
	}
}

// triangleRow has the partial sums over d of the triples (i, i+d, i+e), e ≥ d.
func (o *once) triangleRow(i int) []float64 {
	row := o.phi[i]
	sums, total := make([]float64, len(row)), 0.0
	for d := range row {
		rest := o.phi[i+d][:len(row)-d]
		later := 0.0
		for e := 1; e < len(rest); e++ {
			later += row[d+e] * rest[e]
		}
		total += orders(d, 0) * row[d] * row[d] * rest[0]
		total += orders(d, 1) * row[d] * later
		sums[d] = total
	}
	return sums
}

// orders is how many triples have the steps i, i+d, i+d+e in some order.
func orders(d, e int) float64 {
	switch {
	case d > 0 && e > 0:
		return 6
	case d > 0 || e > 0:
		return 3
	}
	return 1
}

// terms are the terms of S_m: without a pair, with an edge, with a path, with a triangle.
func (o *once) terms(m int) [4]float64 {
	last := o.steps - 1
	switch a := o.mass[last]; m {
	case 0:
		return [4]float64{1}
	case 1:
		return [4]float64{a}
	case 2:
		return [4]float64{a * a, o.edges[last]}
	default:
		return [4]float64{a * a * a, 3 * a * o.edges[last], 3 * o.paths[last], o.corners[last]}
	}
}

func (o *once) makeCount() {
	total := 0.0
	for m := range o.order + 1 {
		sum := 0.0
		for _, x := range o.terms(m) {
			sum += x
		}
		total += choose(o.order, m) * math.Pow(o.never, float64(o.order-m)) * sum
		o.count = append(o.count, total)
	}
}

// choose is C(n, k).
func choose(n, k int) float64 {
	c := 1.0
	for j := range k {
		c *= float64(n-j) / float64(j+1)
	}
	return c
}

// draw sets hits[:0] to one tuple, drawn with probability Π π(x_j) exp(Σ_{j<k} ⟨Cx_j,Cx_k⟩/σ²)/N_θ.
func (o *once) draw(hits []kernel.Hit, u *uniforms) []kernel.Hit {
	hits = hits[:0]
	add := func(i int) int {
		hits = addHit(hits, i)
		return i
	}
	single := func() { add(pick(o.mass, u.Float64())) }
	edge := func() {
		i := add(pick(o.edges, u.Float64()))
		add(o.neighbour(i, u.Float64()))
	}
	switch m := pick(o.count, u.Float64()); m {
	case 0:
	case 1:
		single()
	default:
		terms := o.terms(m)
		for k := 1; k < len(terms); k++ {
			terms[k] += terms[k-1]
		}
		switch pick(terms[:], u.Float64()) {
		case 0:
			for range m {
				single()
			}
		case 1:
			edge()
			if m == 3 {
				single()
			}
		case 2:
			i := add(pick(o.paths, u.Float64()))
			add(o.neighbour(i, u.Float64()))
			add(o.neighbour(i, u.Float64()))
		case 3:
			i := add(pick(o.corners, u.Float64()))
			d := pick(o.triangle[i], u.Float64())
			add(i + d)
			add(o.third(i, d, u.Float64()))
		}
	}
	return hits
}

// pick returns the index that a number in (0,1) falls on, given partial sums.
func pick(sums []float64, u float64) int {
	i, _ := slices.BinarySearch(sums, u*sums[len(sums)-1])
	return i
}

// neighbour draws j with probability ∝ a_j φ_ij.
func (o *once) neighbour(i int, u float64) (j int) {
	u *= o.r[i]
	for d, x := range o.phi[i] {
		if weight := x * o.a[i+d]; weight > 0 {
			if j, u = i+d, u-weight; u < 0 {
				return j
			}
		}
	}
	for d := 1; d < o.bands && d <= i; d++ {
		if weight := o.phi[i-d][d] * o.a[i-d]; weight > 0 {
			if j, u = i-d, u-weight; u < 0 {
				return j
			}
		}
	}
	return j
}

// third draws the last step of a triangle given its first, i, and its second, i+d.
func (o *once) third(i, d int, u float64) (k int) {
	row, rest := o.phi[i][d:], o.phi[i+d]
	total := o.triangle[i][d]
	if d > 0 {
		total -= o.triangle[i][d-1]
	}
	for u, e := u*total, 0; e < len(row); e++ {
		weight := orders(d, e) * row[0] * row[e] * rest[e]
		if weight > 0 {
			if k, u = i+d+e, u-weight; u < 0 {
				return k
			}
		}
	}
	return k
}

// addHit adds one participation to hits, which are sorted by step.
func addHit(hits []kernel.Hit, step int) []kernel.Hit {
	at, found := slices.BinarySearchFunc(hits, step, func(h kernel.Hit, step int) int { return h.Step - step })
	if found {
		hits[at].Times++
		return hits
	}
	return slices.Insert(hits, at, kernel.Hit{Step: step, Times: 1})
}

// onceRounding bounds the relative error of N_θ and of every weight: three exponents, each of a sum
// of `bands` products, and sums over all steps of sums over a row of sums
// over a row.
func onceRounding(c *likelihood.Columns, factor float64) float64 {
	most := 0.0
	for _, norm := range c.SquaredNorms(factor) {
		most = max(most, norm)
	}
	bands, steps := float64(c.Bands), float64(c.Steps)
	return (3*most*(bands+8) + 4*steps + 3*bands + 100) * 0x1p-53
}
