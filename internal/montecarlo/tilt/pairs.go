package tilt

import (
	"fmt"
	"math"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
)

// pairs are the pairs of replicas of rotation: order 2 (F5.5r). V_e(a,b) is the sum of the weights
// of all ways to go on from period e, where the replicas took part a and b steps before it. A
// column of age w or more meets nothing, and its age is written as 0.
//
// With v and z the places of the replicas in a period of T steps, γ_a(z) = e^⟨c_i,c_j⟩/σ² of the
// columns a steps before the period and at its place z, and K(v,z) the same of the places v and z,
//
//	V_e(a,b) = T⁻² Σ_v γ_b(v) ρ_a(v),   ρ_a(v) = Σ_z γ_a(z) K(v,z) V_{e+1}(T-v,T-z):
//
// no replica meets its own columns. A place beyond the run's end meets nothing. Most of K and γ are
// 1. So ρ is the sum over all z with both set to 1, plus sums of (K-1) and of (γ-1)K where columns
// overlap. All terms are at least 0. That takes O(w³ + Tw) a period.
type pairs struct {
	periods  periods
	gram     *likelihood.Gram
	bands    int
	kept     []*pairTable // of every period, or nil
	logN     float64
	rounding float64 // bound of the relative error of N, and of the weight of every pair
}

// pairTable is of one period. Partial sums are to draw from.
type pairTable struct {
	bands, length, places int
	last                  bool
	alike                 bool        // near has one row for all
	near                  [][]float64 // K-1 by the later place and the distance
	gain                  [][]float64 // γ-1 by age and place
	later                 []float64   // V of the next period by both ages, over its largest
	base                  [][]float64 // by next age of v: of V over next ages of z, then places beyond
	sums                  [][]float64 // by age: of ρ over the places, then the places beyond the run
}

func newPairs(of periods, factor float64, columns *likelihood.Columns, keep bool) (*pairs, error) {
	p := &pairs{periods: of, gram: likelihood.NewGram(columns, factor), bands: columns.Bands}
	w, count := columns.Bands, p.periods.count()
	if keep {
		p.kept = make([]*pairTable, count)
	}
	later := make([]float64, w*w)
	for i := range later {
		later[i] = 1
	}
	inRange := true
	for e := count - 1; e >= 0; e-- {
		t := &pairTable{bands: w, length: of.length, places: of.places(e), last: e == count-1, later: later}
		t.makeNear(p.gram, e*of.length)
		if e > 0 {
			t.makeGain(of.crossing(p.gram, w, e))
		} else {
			t.gain = make([][]float64, 1)
		}
		later = t.before()
		if keep {
			p.kept[e] = t
		}
		top := 0.0
		for _, v := range later {
			top = max(top, v)
		}
		p.logN += math.Log(top)
		inRange = inRange && later[0] > top*leastShare // none is below the entry of ages 0
		for i := range later {
			later[i] /= top
		}
	}
	p.logN += math.Log(later[0])
	p.rounding = p.bound()
	if math.IsNaN(p.logN) || math.IsInf(p.logN, 0) || !inRange {
		return nil, fmt.Errorf("%w: order 2: the sums leave the range of float64", ErrTable)
	}
	return p, nil
}

// leastShare is the smallest allowed ratio of the least V to the largest. Above it, no product is
// below the normal numbers of float64.
const leastShare = 1e-200

// bound bounds the relative error from rounding, in each period, of two sums and of three
// exponents.
func (p *pairs) bound() float64 {
	w := float64(p.bands)
	return float64(p.periods.count()) * (2*float64(p.periods.length) + 8*w + 32 + 3*p.gram.LargestNorm()*(w+8)) * 0x1p-53
}

func (t *pairTable) makeNear(g *likelihood.Gram, first int) {
	rows, at := t.places, first
	if t.alike = first+t.places <= g.Alike() && t.bands <= g.Alike(); t.alike {
		rows, at = 1, g.Alike()-1 // a step with all the columns before it
	}
	for v := range rows {
		row := make([]float64, t.bands)
		for d := range row {
			row[d] = math.Expm1(g.Between(at+v, d))
		}
		t.near = append(t.near, row)
	}
}

// makeGain is for the ages of a crossing; age 0 has none.
func (t *pairTable) makeGain(crossing [][]float64) {
	t.gain = make([][]float64, t.bands)
	for k, overlaps := range crossing {
		row := make([]float64, len(overlaps))
		for v, x := range overlaps {
			row[v] = math.Expm1(x)
		}
		t.gain[k+1] = row
	}
}

// meet is K-1 of two places less than w apart.
func (t *pairTable) meet(v, z int) float64 {
	late, distance := max(v, z), max(v-z, z-v)
	if t.alike {
		late = 0
	}
	return t.near[late][distance]
}

// window is the range of places that may meet place v.
func (t *pairTable) window(v int) (from, to int) {
	if v == t.places { // beyond the run
		return v, v
	}
	return max(0, v-t.bands+1), min(t.places, v+t.bands)
}

// age is the number of steps from a place to the next period, 0 where the column of the place does
// not reach it.
func (t *pairTable) age(v int) int {
	if k := t.length - v; !t.last && k < t.bands {
		return k
	}
	return 0
}

// ageless is how many places have age 0, the first ones.
func (t *pairTable) ageless() int {
	if t.last {
		return t.places
	}
	return t.length - t.bands + 1
}

func (t *pairTable) makeBase() {
	ages := t.bands
	if t.last {
		ages = 1
	}
	for a := range ages {
		row := t.later[a*t.bands : (a+1)*t.bands]
		sums, total := make([]float64, 0, ages+1), 0.0
		for b, v := range row[:ages] {
			if b == 0 {
				v *= float64(t.ageless())
			}
			total += v
			sums = append(sums, total)
		}
		t.base = append(t.base, append(sums, total+float64(t.length-t.places)))
	}
}

// before returns V of this period by both ages.
func (t *pairTable) before() []float64 {
	t.makeBase()
	ages, w := len(t.gain), t.bands
	rho := make([][]float64, ages)
	for a := range rho {
		rho[a] = make([]float64, t.places+1)
	}
	met, more := make([]float64, min(w, t.places)), make([]float64, ages)
	for v := range t.places {
		age := t.age(v)
		row := t.later[age*w:]
		sum := t.base[age][len(t.base[age])-1]
		from, to := t.window(v)
		for z := from; z < to; z++ {
			sum += t.meet(v, z) * row[t.age(z)]
		}
		if from < w || age > 0 { // else v meets none of the first places: more stays
			for z := range met {
				if met[z] = row[t.age(z)]; z >= from && z < to {
					met[z] *= 1 + t.meet(v, z)
				}
			}
			for a := range more {
				more[a] = dotOf(t.gain[a], met)
			}
		}
		for a := range rho {
			rho[a][v] = sum + more[a]
		}
	}
	for a := range rho {
		sum := t.base[0][len(t.base[0])-1]
		for _, x := range t.gain[a] {
			sum += x
		}
		rho[a][t.places] = sum * float64(t.length-t.places)
	}
	values := make([]float64, 0, ages*ages)
	area := float64(t.length) * float64(t.length)
	for a := range ages {
		total := 0.0
		for _, x := range rho[a] {
			total += x
		}
		for b := range ages {
			values = append(values, (total+dotOf(t.gain[b], rho[a]))/area)
		}
	}
	for _, sums := range rho {
		for v := 1; v < len(sums); v++ {
			sums[v] += sums[v-1]
		}
	}
	t.sums = rho
	return values
}

// dotOf is ⟨x, y⟩ over the entries of x.
func dotOf(x, y []float64) (sum float64) {
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}

// draw sets hits[:0] to one pair, drawn with probability Π π(x_j) exp(⟨Cx_1,Cx_2⟩/σ²)/N_2.
func (p *pairs) draw(hits []kernel.Hit, u *kernel.Uniforms) []kernel.Hit {
	hits = hits[:0]
	a, b := 0, 0
	for e, t := range p.kept {
		v := t.first(a, b, u)
		z := t.second(a, v, u)
		for _, place := range [...]int{v, z} {
			if place < t.places {
				hits = addHit(hits, e*t.length+place)
			}
		}
		a, b = t.age(v), t.age(z)
	}
	return hits
}

// first draws the place of the replica of age a, with probability ∝ γ_b(v) ρ_a(v).
func (t *pairTable) first(a, b int, u *kernel.Uniforms) (v int) {
	sums := t.sums[a]
	rho := func(v int) float64 {
		if v == 0 {
			return sums[0]
		}
		return sums[v] - sums[v-1]
	}
	total, more := sums[len(sums)-1], 0.0
	for v, x := range t.gain[b] {
		more += x * rho(v)
	}
	at := u.Float64() * (total + more)
	if at >= more {
		return pick(sums, (at-more)/total)
	}
	for i, x := range t.gain[b] {
		if weight := x * rho(i); weight > 0 {
			if v, at = i, at-weight; at < 0 {
				break
			}
		}
	}
	return v
}

// second draws the place of the other replica, with probability ∝ γ_a(z) K(v,z) V_{e+1}(T-v,T-z).
func (t *pairTable) second(a, v int, u *kernel.Uniforms) (z int) {
	sums := t.sums[a]
	total := sums[v]
	if v > 0 {
		total -= sums[v-1]
	}
	if v == t.places {
		total /= float64(t.length - t.places)
	}
	age := t.age(v)
	row, base := t.later[age*t.bands:], t.base[age]
	at := u.Float64()*total - base[len(base)-1]
	if at < 0 {
		switch next := pick(base, (at+base[len(base)-1])/base[len(base)-1]); {
		case next == len(base)-1:
			return t.places
		case next == 0:
			return int(u.Float64() * float64(t.ageless()))
		default:
			return t.length - next
		}
	}
	from, to := t.window(v)
	take := func(i int, weight float64) bool {
		if weight > 0 {
			z, at = i, at-weight
		}
		return at < 0
	}
	for i := from; i < to; i++ {
		if take(i, t.meet(v, i)*row[t.age(i)]) {
			return z
		}
	}
	for i, x := range t.gain[a] {
		weight := x * row[t.age(i)]
		if i >= from && i < to {
			weight *= 1 + t.meet(v, i)
		}
		if take(i, weight) {
			return z
		}
	}
	return z
}
