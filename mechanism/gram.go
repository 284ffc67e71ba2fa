package mechanism

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// gram holds entries of the band of CᵀC: (CᵀC)[i][i+d] for d < bands that are multiples of step. A
// schema with phases needs only those of its min-sep.
type gram struct {
	n, bands, step, width int
	band                  []float64 // [n × width], signed
}

// newGram computes entries of CᵀC, which has the bands of C, in O(n·bands²/step).
func newGram(s *Strategy, step int) (*gram, error) {
	g := &gram{n: s.Steps, bands: s.Bands(), step: step}
	g.width = (g.bands + step - 1) / step
	if g.width > gramLimit/g.n {
		return nil, errTooLarge("steps·bands", g.n*g.width, gramLimit)
	}
	g.band = make([]float64, g.n*g.width)
	columns := s.columns()
	for i, c := range columns {
		for d := 0; d < len(c) && d < g.bands; d += step {
			other := columns[i+d]
			size := min(len(c)-d, len(other))
			g.band[i*g.width+d/step] = floats.Dot(c[d:d+size], other[:size])
		}
	}
	return g, nil
}

// at returns |CᵀC|[i][i+d].
func (g *gram) at(i, d int) float64 {
	if d >= g.bands {
		return 0
	}
	return math.Abs(g.signed(i, d))
}

// signed returns (CᵀC)[i][i+d], d < bands.
func (g *gram) signed(i, d int) float64 { return g.band[i*g.width+d/g.step] }

// diagonal returns the squared norms of the columns.
func (g *gram) diagonal() []float64 {
	x := make([]float64, g.n)
	for i := range x {
		x[i] = g.signed(i, 0)
	}
	return x
}

// sum returns Σ |CᵀC| over pairs of set, which is in increasing order.
func (g *gram) sum(set []int) float64 {
	total := 0.0
	for a, i := range set {
		total += g.at(i, 0)
		for _, j := range set[a+1:] {
			total += 2 * g.at(i, j-i)
		}
	}
	return total
}

// balanced reports whether signs exist that make every entry of CᵀC over set non-negative. They
// exist if and only if the graph of its entries can be coloured with two colours, equal across
// positive entries and different across negative ones.
func (g *gram) balanced(set []int) bool {
	smallest := 0.0
	for _, i := range set {
		smallest = max(smallest, balanceTolerance*g.at(i, 0))
	}
	sign := make([]int, len(set))
	var visit func(a int) bool
	visit = func(a int) bool {
		for b := range set {
			i, j := min(set[a], set[b]), max(set[a], set[b])
			if a == b || j-i >= g.bands {
				continue
			}
			v := g.signed(i, j-i)
			if math.Abs(v) <= smallest {
				continue
			}
			want := sign[a]
			if v < 0 {
				want = -want
			}
			switch {
			case sign[b] == 0:
				sign[b] = want
				if !visit(b) {
					return false
				}
			case sign[b] != want:
				return false
			}
		}
		return true
	}
	for a := range set {
		if sign[a] == 0 {
			sign[a] = 1
			if !visit(a) {
				return false
			}
		}
	}
	return true
}

// enumerate returns the largest sum over all sets of at most k steps, at least b apart. exact
// reports whether signs attain it.
func (g *gram) enumerate(b, k int) (best float64, exact bool) {
	var set, argmax []int
	var extend func(from int, total float64)
	extend = func(from int, total float64) {
		if total > best {
			best, argmax = total, append(argmax[:0], set...)
		}
		if len(set) == k {
			return
		}
		for i := from; i < g.n; i++ {
			more := g.at(i, 0)
			for _, j := range set {
				more += 2 * g.at(j, i-j)
			}
			set = append(set, i)
			extend(i+b, total+more)
			set = set[:len(set)-1]
		}
	}
	extend(0, 0)
	return best, g.balanced(argmax)
}

// rowBound returns an upper bound of the largest Σ_{i,j∈π} |CᵀC|[i][j] over sets π of at most k
// steps, at least b apart. It is the largest Σ_{i∈π} r_i, where r_i is the largest Σ_{j∈π'}
// |CᵀC|[i][j] over such sets π' that contain i.
func (g *gram) rowBound(b, k int) float64 {
	r := make([]float64, g.n)
	window := make([]float64, 0, 2*g.bands)
	for i := range r {
		low, high := max(0, i-g.bands+1), min(g.n, i+g.bands)
		window = window[:0]
		for j := low; j < high; j++ {
			v := 0.0
			if d := j - i; d <= -b {
				v = g.at(j, -d)
			} else if d >= b {
				v = g.at(i, d)
			}
			window = append(window, v)
		}
		r[i] = g.at(i, 0)
		if others := min(k-1, (len(window)+b-1)/b); others > 0 {
			r[i] += chain(window, nil, b, b, others)
		}
	}
	return chain(r, nil, b, b, k)
}
