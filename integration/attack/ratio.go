package attack

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"minsep/mechanism"
)

// matrix returns C by columns, each from the diagonal down, computed from the strategy's own
// parameters and not by package mechanism.
func matrix(s *mechanism.Strategy) [][]float64 {
	n := s.Steps
	columns := make([][]float64, n)
	first := make([]float64, n)
	switch {
	case s.Toeplitz != nil:
		copy(first, s.Toeplitz)
	case s.InverseToeplitz != nil: // C C⁻¹ = 1, entry by entry
		h := make([]float64, n)
		copy(h, s.InverseToeplitz)
		first[0] = 1 / h[0]
		for t := 1; t < n; t++ {
			for j := 1; j <= t; j++ {
				first[t] -= h[j] * first[t-j]
			}
			first[t] /= h[0]
		}
	case s.BLT != nil:
		first[0] = 1
		for t := 1; t < n; t++ {
			for m := range s.BLT.Scales {
				first[t] += s.BLT.Scales[m] * math.Pow(s.BLT.Decays[m], float64(t-1))
			}
		}
	}
	for i := range columns {
		columns[i] = make([]float64, n-i)
		copy(columns[i], first)
		if s.Columns != nil {
			copy(columns[i], s.Columns[i])
		}
		if s.Normalized {
			norm := math.Sqrt(inner(columns[i], columns[i]))
			for t := range columns[i] {
				columns[i][t] /= norm
			}
		}
		for len(columns[i]) > 1 && columns[i][len(columns[i])-1] == 0 {
			columns[i] = columns[i][:len(columns[i])-1]
		}
	}
	return columns
}

func inner(a, b []float64) (sum float64) {
	for i := range min(len(a), len(b)) {
		sum += a[i] * b[i]
	}
	return sum
}

// multiply returns C x.
func multiply(columns [][]float64, x []float64) []float64 {
	y := make([]float64, len(x))
	for i, c := range columns {
		if x[i] != 0 {
			for t, v := range c {
				y[i+t] += v * x[i]
			}
		}
	}
	return y
}

// ratio is the likelihood ratio f of one owner for one mechanism.
type ratio interface {
	// log returns ln f(y) for y = C x + σ z, one number a step. It keeps no reference to y.
	log(y []float64) float64
}

// sumRatio is f as the sum over all participation patterns (F3):
//
//	f(y) = Σ_x π(x) exp((⟨Cx, y⟩ - ‖Cx‖²/2)/σ²).
type sumRatio struct {
	columns [][]float64 // C/σ²
	dots    []float64   // ⟨c_i, y⟩/σ²
	terms   []term
	tree    []factor // the terms as a tree of powers in depth-first order
	most    int      // largest number of participations at one step
	least   float64  // smallest constant of a term
	none    float64  // weight of the pattern without participations

	exponents []float64 // of the terms, for logOfExponents
	powers    []float64 // exp(m·dots[i]) at index i·(most+1)+m
	product   []float64 // product of the powers on the path in the tree, by depth
}

// term is one pattern: the steps with participations, and their number at each of these steps.
type term struct {
	steps    []int
	times    []float64
	constant float64 // ln π(x) - ‖Cx‖²/2σ²
}

// factor is a node of the tree: one power. Terms that begin with the same powers share nodes.
type factor struct { // exp of the constant of the term that ends here; 0 where none ends
	weight float64 // index into powers
	place  int32   // of the power
	depth  int32   // number of nodes above
}

func newSumRatio(patterns []pattern, columns [][]float64, sigma float64) *sumRatio {
	r := &sumRatio{dots: make([]float64, len(columns))}
	for _, c := range columns {
		scaled := make([]float64, len(c))
		for t, v := range c {
			scaled[t] = v / (sigma * sigma)
		}
		r.columns = append(r.columns, scaled)
	}
	for _, p := range patterns {
		x := make([]float64, len(columns))
		t := term{constant: math.Log(p.prob)}
		for i, times := range p.times {
			if times > 0 {
				x[i] = float64(times)
				t.steps = append(t.steps, i)
				t.times = append(t.times, x[i])
			}
		}
		mean := multiply(columns, x)
		t.constant -= inner(mean, mean) / (2 * sigma * sigma)
		r.most, r.least = max(r.most, int(slices.Max(x))), min(r.least, t.constant)
		r.terms = append(r.terms, t)
	}
	var path []int // nodes of the previous term, from the root down
	for _, t := range r.terms {
		for j, i := range t.steps {
			place := int32(i*(r.most+1) + int(t.times[j]))
			if j == len(path) || r.tree[path[j]].place != place {
				path = append(path[:j], len(r.tree))
				r.tree = append(r.tree, factor{place: place, depth: int32(j)})
			}
		}
		path = path[:len(t.steps)]
		if weight := math.Exp(t.constant); len(path) == 0 {
			r.none += weight
		} else {
			r.tree[path[len(path)-1]].weight += weight
		}
	}
	r.exponents = make([]float64, len(r.terms))
	r.powers, r.product = make([]float64, len(columns)*(r.most+1)), make([]float64, len(columns)+1)
	return r
}

// inRange bounds exponents so that products of exponentials stay far inside the range of a float64,
// which ends near e^±709.
const inRange = 300

func (r *sumRatio) log(y []float64) float64 {
	reach := 0.0 // bound of the exponents without their constants
	for i, c := range r.columns {
		r.dots[i] = inner(c, y[i:])
		reach += float64(r.most) * math.Abs(r.dots[i])
	}
	if reach < inRange && r.least > -inRange {
		return math.Log(r.products())
	}
	return r.logOfExponents()
}

// products returns f where exponents are in range. A term is a product of a few powers, mostly
// shared with other terms, and takes a fraction of the time of an exponential.
func (r *sumRatio) products() (sum float64) {
	for i, d := range r.dots {
		powers := r.powers[i*(r.most+1):][:r.most+1]
		powers[0] = 1
		for m, e := 1, math.Exp(d); m < len(powers); m++ {
			powers[m] = powers[m-1] * e
		}
	}
	sum, r.product[0] = r.none, 1
	for _, f := range r.tree {
		p := r.product[f.depth] * r.powers[f.place]
		r.product[f.depth+1] = p
		sum += f.weight * p
	}
	return sum
}

// logOfExponents returns ln f for exponents of any size, by a shifted sum of exponentials.
func (r *sumRatio) logOfExponents() float64 {
	largest := math.Inf(-1)
	for k, t := range r.terms {
		e := t.constant
		for j, i := range t.steps {
			e += t.times[j] * r.dots[i]
		}
		r.exponents[k] = e
		largest = max(largest, e)
	}
	sum := 0.0
	for _, e := range r.exponents {
		if e > largest-40 { // the terms left out are below 1e-12 of the sum
			sum += math.Exp(e - largest)
		}
	}
	return largest + math.Log(sum)
}

// chainRatio is f of one example, computed by a recursion over the states of its process from the
// last step to the first. It is exact where the columns of its participations do not overlap. Where
// they do it is an upper bound of f: a valid statistic, though not the best one.
type chainRatio struct {
	columns      [][]float64 // C/σ²
	halfSquares  []float64   // ‖c_i‖²/2σ²
	nodes        [][]node    // by step
	start        []float64   // probabilities of the nodes of step 0
	value, after []float64
	// factors holds ⟨c_i, y⟩/σ² - ‖c_i‖²/2σ² for each step.
	factors []float64
	most    int // largest number of participations
}

// node is a reachable state of a step.
type node struct {
	prob          float64 // of a participation at this step
	takes, leaves int     // indices of nodes of the next step; meaningless where their probability is 0
}

func newChainRatio(proc *process, columns [][]float64, sigma float64) *chainRatio {
	r := &chainRatio{nodes: make([][]node, proc.steps), factors: make([]float64, proc.steps)}
	for _, c := range columns {
		scaled := make([]float64, len(c))
		for t, v := range c {
			scaled[t] = v / (sigma * sigma)
		}
		r.columns = append(r.columns, scaled)
		r.halfSquares = append(r.halfSquares, inner(c, c)/(2*sigma*sigma))
	}
	states := proc.starts()
	for _, s := range states {
		r.start = append(r.start, proc.start[s])
	}
	widest := len(states)
	for step := range proc.steps {
		index, following := map[state]int{}, []state{}
		place := func(s state) int {
			i, known := index[s]
			if !known {
				i = len(following)
				index[s], following = i, append(following, s)
			}
			return i
		}
		for _, s := range states {
			p, takes, leaves := proc.next(step, s)
			n := node{prob: p}
			if p > 0 {
				n.takes = place(takes)
			}
			if p < 1 {
				n.leaves = place(leaves)
			}
			r.nodes[step] = append(r.nodes[step], n)
		}
		states = following
		widest = max(widest, len(states))
	}
	r.value, r.after = make([]float64, widest), make([]float64, widest)
	r.most = r.mostParticipations()
	return r
}

// mostParticipations is the largest number of participations of any pattern.
func (r *chainRatio) mostParticipations() int {
	value, after := make([]int, len(r.value)), make([]int, len(r.value))
	for step := len(r.nodes) - 1; step >= 0; step-- {
		for i, n := range r.nodes[step] {
			value[i] = 0
			if n.prob > 0 {
				value[i] = 1 + after[n.takes]
			}
			if n.prob < 1 {
				value[i] = max(value[i], after[n.leaves])
			}
		}
		value, after = after, value
	}
	return slices.Max(after[:len(r.start)])
}

func (r *chainRatio) log(y []float64) float64 {
	largest := 0.0
	for i, c := range r.columns {
		r.factors[i] = inner(c, y[i:]) - r.halfSquares[i]
		largest = max(largest, math.Abs(r.factors[i]))
	}
	if largest*float64(r.most) < inRange {
		return math.Log(r.products())
	}
	return r.logOfFactors()
}

// products returns f, the expectation over a random pattern of the product of the factors at its
// steps. All these products must be in the range of float64.
func (r *chainRatio) products() float64 {
	for i := range r.after {
		r.after[i] = 1
	}
	for step := len(r.nodes) - 1; step >= 0; step-- {
		f := math.Exp(r.factors[step])
		for i, n := range r.nodes[step] {
			v := 0.0
			if n.prob > 0 {
				v += n.prob * f * r.after[n.takes]
			}
			if n.prob < 1 {
				v += (1 - n.prob) * r.after[n.leaves]
			}
			r.value[i] = v
		}
		r.value, r.after = r.after, r.value
	}
	return inner(r.start, r.after)
}

// logOfFactors is ln f for factors of any size, by the same recursion in logarithms.
func (r *chainRatio) logOfFactors() float64 {
	clear(r.after)
	for step := len(r.nodes) - 1; step >= 0; step-- {
		for i, n := range r.nodes[step] {
			v := math.Inf(-1)
			if n.prob > 0 {
				v = math.Log(n.prob) + r.factors[step] + r.after[n.takes]
			}
			if n.prob < 1 {
				v = logSum(v, math.Log1p(-n.prob)+r.after[n.leaves])
			}
			r.value[i] = v
		}
		r.value, r.after = r.after, r.value
	}
	sum := math.Inf(-1)
	for i, p := range r.start {
		sum = logSum(sum, math.Log(p)+r.after[i])
	}
	return sum
}

// logSum is ln(e^a + e^b), of which one is finite.
func logSum(a, b float64) float64 { return max(a, b) + math.Log1p(math.Exp(-math.Abs(a-b))) }

// starts returns the states before the first step in a fixed order.
func (proc *process) starts() []state {
	return slices.SortedFunc(maps.Keys(proc.start), func(a, b state) int {
		return cmp.Or(cmp.Compare(a.blocked, b.blocked), cmp.Compare(a.left, b.left), cmp.Compare(a.due, b.due))
	})
}

// sorted returns the patterns of a map in a fixed order.
func sorted(of map[string]float64) (all []pattern) {
	for _, x := range slices.Sorted(maps.Keys(of)) {
		all = append(all, pattern{[]byte(x), of[x]})
	}
	return all
}
