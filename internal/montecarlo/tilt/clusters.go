package tilt

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/floats"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
)

// clusters bounds N_θ of an example that takes part at most once, with the same probability a at
// every step (F5.13). Participations fall into
// clusters: the steps of one have gaps below the bands w, and steps of different ones are at least
// w apart, where columns do not overlap. With ⟨c_i,c_{i+d}⟩/σ² ≤ most[d] a cluster weighs at most
// the same wherever it begins. So
//
//	T_m(i) = T_m(i+1) + Σ_j C(m,j) Σ_s k_j(s) T_{m-j}(i+s+w)
//
// bounds the weight of m labelled replicas that all take part from step i on, over (na)^m. k_j(s)
// is the weight of the clusters of j participations that span s steps. Clusters of up to exact
// participations are listed. A larger cluster has a listed beginning. Each later participation has,
// with every one before it, the weight for the distance to the last one. Any span is allowed, and
// T_{m-j}(i+1) follows.
//
// A tuple is drawn by these weights. The weight of the tuple is its true weight over the one by
// which it was drawn, at most 1.
type clusters struct {
	steps, bands, order int
	first, never        float64 // a, 1-na
	gram                *likelihood.Gram
	most                []float64
	farther             []float64 // by d, the largest of most from d on
	exact               int
	binomial            [][]float64
	lists               []clusterList // of j: lists[j]; none of 0
	long                []float64     // by j from exact on, the weight of all the clusters
	gaps                [][]float64   // by j above exact, partial sums of the weights of the gap before the last one

	sums  [][]float64 // sums[m][i] = T_m(i)
	count []float64   // partial sums of C(θ,m) never^{θ-m} (na)^m T_m(0)
	logN  float64
}

// clusterList has all clusters with a given number of participations, ordered by span. A code holds
// the gaps of a cluster as digits in base w, the first gap as the lowest digit.
type clusterList struct {
	codes  []uint32
	sums   []float64 // partial sums of the weights of the clusters
	from   []int     // by span, the index of its first code
	spans  []float64 // by span, the weight of its clusters together
	before []float64 // by span, the weight of all smaller spans
}

// exactClusters is the largest number of participations in a listed cluster.
func exactClusters(bands, order int) (exact int) {
	for exact, codes := 1, float64(bands); ; exact, codes = exact+1, codes*float64(bands) {
		if exact == order || codes > mostCodes {
			return exact
		}
	}
}

// clusterWork is about how many multiplications an order takes.
func clusterWork(steps, bands, order int) float64 {
	j := float64(exactClusters(bands, order))
	return float64(steps) * float64(order) * (j*(j-1)/2*float64(bands) + float64(order))
}

// newClusters takes 1/σ².
func newClusters(x uniformOnce, columns *likelihood.Columns, factor float64, order, exact int) (*clusters, error) {
	n, w := columns.Steps, columns.Bands
	if order > maxBlockOrder || clusterWork(n, w, order) > maxClusterWork ||
		float64(n)*float64(w)*float64(w)/2 > maxProducts {
		return nil, fmt.Errorf("%w: order %d in clusters at %d steps and %d bands", ErrTable, order, n, w)
	}
	c := &clusters{steps: n, bands: w, exact: exact, most: make([]float64, w), first: x.each, never: x.never}
	c.gram = likelihood.NewGram(columns, factor)
	for i := range n {
		for d, x := range c.gram.Ahead(i) {
			c.most[d] = max(c.most[d], x)
		}
	}
	c.list()
	return c.raised(order)
}

// raised returns clusters of a higher order, which shares all that the orders have in common.
func (c *clusters) raised(order int) (*clusters, error) {
	r := *c
	r.binomial, r.sums, r.long, r.gaps, r.count = slices.Clip(
		c.binomial,
	), slices.Clip(
		c.sums,
	), slices.Clip(
		c.long,
	), slices.Clip(
		c.gaps,
	), nil
	for r.order = len(r.sums); r.order <= order; r.order++ {
		r.addOrder()
	}
	r.order = order
	r.choose()
	if math.IsNaN(r.logN) || math.IsInf(r.logN, 0) {
		return nil, fmt.Errorf("%w: order %d: the sums leave the range of float64", ErrTable, order)
	}
	return &r, nil
}

// list makes the lists, and the sums of order 0.
func (c *clusters) list() {
	weights := make([]float64, c.bands) // of two participations by their distance
	for d, x := range c.most {
		weights[d] = math.Exp(x)
	}
	c.lists = make([]clusterList, c.exact+1)
	scale := 1.0 // j!/n^j
	for j := 1; j <= c.exact; j++ {
		scale *= float64(j) / float64(c.steps)
		c.lists[j] = newClusterList(j, c.bands, weights, scale)
	}
	c.farther = slices.Clone(c.most)
	for d := c.bands - 2; d >= 0; d-- {
		c.farther[d] = max(c.farther[d], c.farther[d+1])
	}
	c.sums, c.long, c.gaps, c.binomial = [][]float64{nil}, []float64{0}, [][]float64{nil}, [][]float64{{1}}
}

// gapsOf returns the partial sums, by the distance from the last participation, of the weights of a
// participation with j-1 before it. Each further participation at one step has a factor of 1/2,
// since 1/k! ≤ 1/2^{k-1}.
func (c *clusters) gapsOf(j int) (sums []float64) {
	total := 0.0
	for d := range c.bands {
		total += math.Exp(c.gapLog(j, d))
		sums = append(sums, total)
	}
	return sums
}

// gapLog is ln of one of these weights.
func (c *clusters) gapLog(j, d int) float64 {
	log := float64(j-1) * c.farther[d]
	if d == 0 {
		log -= math.Ln2
	}
	return log
}

// newClusterList lists the clusters of j participations. The weight of a cluster is scale times the
// product over all pairs, divided by k! for each k participations at one step.
func newClusterList(j, bands int, weights []float64, scale float64) clusterList {
	size := 1
	for range j - 1 {
		size *= bands
	}
	l := clusterList{codes: make([]uint32, size), from: make([]int, (j-1)*(bands-1)+2)}
	of := make([]float64, size) // weights by code
	span := make([]int, size)
	at := make([]int, j)
	var place func(l, code, digit int, weight float64, equal int)
	place = func(l, code, digit int, weight float64, equal int) {
		if l == j {
			of[code], span[code] = weight, at[j-1]
			return
		}
		for d := range bands {
			at[l] = at[l-1] + d
			x, same := weight, 1
			if d == 0 {
				same = equal + 1
				x /= float64(same)
			}
			for _, p := range at[:l] {
				if t := at[l] - p; t < bands {
					x *= weights[t]
				}
			}
			place(l+1, code+d*digit, digit*bands, x, same)
		}
	}
	place(1, 0, 1, scale, 1)
	for code := range l.codes {
		l.codes[code] = uint32(code)
	}
	slices.SortStableFunc(l.codes, func(a, b uint32) int { return span[a] - span[b] })
	sum := 0.0
	l.spans, l.before = make([]float64, len(l.from)-1), make([]float64, len(l.from))
	for k, code := range l.codes {
		sum += of[code]
		l.sums = append(l.sums, sum)
		l.spans[span[code]] += of[code]
		l.from[span[code]+1] = k + 1
	}
	for s, x := range l.spans {
		l.before[s+1] = l.before[s] + x
	}
	return l
}

// addOrder adds T_m for m = c.order, with the binomials and the weights of clusters that it needs.
func (c *clusters) addOrder() {
	m := c.order
	c.binomial = append(c.binomial, nil)
	for j := range m + 1 {
		c.binomial[m] = append(c.binomial[m], choose(m, j))
	}
	switch { // the weight of all the clusters of m
	case m < c.exact:
		c.long, c.gaps = append(c.long, 0), append(c.gaps, nil)
	case m == c.exact:
		l := &c.lists[m]
		c.long, c.gaps = append(c.long, l.before[len(l.spans)]), append(c.gaps, nil)
	default:
		c.gaps = append(c.gaps, c.gapsOf(m))
		c.long = append(c.long, c.long[m-1]*float64(m)/float64(c.steps)*c.gaps[m][c.bands-1])
	}
	c.sums = append(c.sums, make([]float64, c.steps+1))
	for i := c.steps - 1; i >= 0; i-- {
		x := c.sums[m][i+1]
		for j := 1; j <= m; j++ {
			x += c.binomial[m][j] * c.following(m, j, i)
		}
		c.sums[m][i] = x
	}
}

// following is the weight of the clusters of j participations that begin at step i, together with
// the m-j participations that follow.
func (c *clusters) following(m, j, i int) float64 {
	rest := c.sums[m-j]
	if j > c.exact {
		if m == j {
			return c.long[j]
		}
		return c.long[j] * rest[i+1]
	}
	l := &c.lists[j]
	if m == j {
		return l.before[min(len(l.spans), c.steps-i)]
	}
	spans := min(len(l.spans), c.steps-i-c.bands)
	if spans <= 0 {
		return 0
	}
	return floats.Dot(l.spans[:spans], rest[i+c.bands:i+c.bands+spans])
}

// choose is C(n, k).
func choose(n, k int) float64 {
	c := 1.0
	for j := range k {
		c *= float64(n-j) / float64(j+1)
	}
	return c
}

// choose sets the weights by which the number of participations is drawn.
func (c *clusters) choose() {
	all := float64(c.steps) * c.first
	sum := 0.0
	c.count = nil
	for m := range c.order + 1 {
		x := c.binomial[c.order][m] * math.Pow(c.never, float64(c.order-m)) * math.Pow(all, float64(m))
		if m > 0 {
			x *= c.sums[m][0]
		}
		sum += x
		c.count = append(c.count, sum)
	}
	c.logN = math.Log(sum)
}

// walk sets hits[:0] to a tuple, and returns its weight. Where the weight is 0 there is no tuple.
// steps is scratch space.
func (c *clusters) walk(hits []kernel.Hit, steps []int, u *kernel.Uniforms) ([]kernel.Hit, float64) {
	hits = hits[:0]
	weight, free := 1.0, 0
	for i, m := 0, pick(c.count, u.Float64()); m > 0; {
		first := c.begin(m, i, u.Float64())
		at, next, log := c.draw(steps[:0], m, first, u)
		last := at[len(at)-1]
		if first < free || last >= c.steps {
			return hits[:0], 0
		}
		weight *= math.Exp(c.true(at) - log)
		for _, step := range at {
			hits = addHit(hits, step)
		}
		m, i, free = m-len(at), next, last+c.bands
	}
	return hits, min(1, weight)
}

// begin draws where the first cluster of m participations begins, from step i on.
func (c *clusters) begin(m, i int, u float64) int {
	sums := c.sums[m]
	least := u * sums[i]
	return i + sort.Search(c.steps-i, func(x int) bool { return sums[i+x+1] < least })
}

// draw draws a cluster of at most m participations that begins at step first, and appends its steps
// to at. The next cluster begins at step next or later. log is the logarithm of the weight by which
// the cluster was drawn, without the factors for the labels and (na)^j.
func (c *clusters) draw(at []int, m, first int, u *kernel.Uniforms) (steps []int, next int, log float64) {
	var of [maxBlockOrder + 1]float64
	total := 0.0
	for j := 1; j <= m; j++ {
		total += c.binomial[m][j] * c.following(m, j, first)
		of[j] = total
	}
	j := 1 + pick(of[1:m+1], u.Float64())
	listed := min(j, c.exact)
	l := &c.lists[listed]
	from, to := 0, len(l.codes)
	if j <= c.exact {
		span := c.span(l, m-j, first, u.Float64())
		from, to = l.from[span], l.from[span+1]
	}
	least := 0.0
	if from > 0 {
		least = l.sums[from-1]
	}
	target := least + u.Float64()*(l.sums[to-1]-least)
	code := int(l.codes[from+sort.Search(to-from-1, func(k int) bool { return l.sums[from+k] >= target })])
	at = append(at, first)
	for range listed - 1 {
		at = append(at, at[len(at)-1]+code%c.bands)
		code /= c.bands
	}
	if j == listed {
		return at, at[j-1] + c.bands, c.bounded(at)
	}
	log = c.bounded(at)
	for len(at) < j {
		next := len(at) + 1
		d := pick(c.gaps[next], u.Float64())
		log += c.gapLog(next, d)
		at = append(at, at[len(at)-1]+d)
	}
	return at, first + 1, log
}

// span draws the span of a listed cluster that begins at step first, where others is the number of
// participations after it.
func (c *clusters) span(l *clusterList, others, first int, u float64) int {
	if others == 0 {
		spans := min(len(l.spans), c.steps-first)
		return pick(l.before[1:spans+1], u)
	}
	spans := min(len(l.spans), c.steps-first-c.bands)
	rest := c.sums[others][first+c.bands:]
	u *= floats.Dot(l.spans[:spans], rest[:spans])
	for s := range spans - 1 {
		if u -= l.spans[s] * rest[s]; u < 0 {
			return s
		}
	}
	return spans - 1
}

// bounded is ln of the product of the largest weights of all pairs at their distances, over k! for
// each k equal steps.
func (c *clusters) bounded(at []int) float64 {
	return c.log(at, func(_, d int) float64 { return c.most[d] })
}

// true is the same with the true weights of the pairs.
func (c *clusters) true(at []int) float64 {
	return c.log(at, func(i, d int) float64 { return c.gram.Ahead(i)[d] })
}

func (c *clusters) log(at []int, pair func(i, d int) float64) (log float64) {
	equal := 1
	for l := 1; l < len(at); l++ {
		if at[l] > at[l-1] {
			equal = 1
		} else {
			equal++
			log -= math.Log(float64(equal))
		}
		for _, i := range at[:l] {
			if d := at[l] - i; d < c.bands {
				log += pair(i, d)
			}
		}
	}
	return log
}

// source lets a higher order take over the lists of this one where its listed clusters have equally
// many participations.
func (c *clusters) source() *source {
	above := func(order int) (*source, error) {
		if order <= c.order || exactClusters(c.bands, order) != c.exact || order > maxBlockOrder {
			return nil, nil
		}
		r, err := c.raised(order)
		if err != nil {
			return nil, err
		}
		return r.source(), nil
	}
	walker := func() walk {
		steps := make([]int, 0, maxBlockOrder)
		return func(hits []kernel.Hit, u *kernel.Uniforms) ([]kernel.Hit, float64) { return c.walk(hits, steps, u) }
	}
	s := &source{walkError: c.rounding(), walker: walker, above: above}
	if c.order > 1 {
		s.lnN, s.raised = c.logN, max(inflation, 2*c.rounding())
	}
	return s
}

// rounding bounds the relative error of N̂ and of weights: sums over the steps, over j and over
// spans, of products of sums; and an exponent of each pair, of a sum of `bands` products.
func (c *clusters) rounding() float64 {
	m, w := float64(c.order), float64(c.bands)
	return (float64(c.steps)*(m+4) + m*(m*w+mostCodes) + m*m*(w+8)*(1+c.most[0])) * 0x1p-53
}
