package tilt

import (
	"fmt"
	"math"

	"minsep/internal/montecarlo/internal/likelihood"
)

// newTripleBound is ln N_3 of rotation, or a little more (F5.5r). A table by the ages of three
// replicas before a period and their places in it has w³·T³ entries. So ages are taken in groups.
// The first places of a period, where columns overlap with the columns of these ages, are taken in
// groups too. A pair of groups has the largest γ of its members. With no more ages than groups,
// each group is one age, and N_3 is exact.
//
// Within a period, K(u,v)K(v,z)K(u,z) with K = 1+f is expanded into 1, three f, three products of
// two f, and one of three: all of them positive, and summed by the groups of the three
// places.
func newTripleBound(
	periods periods,
	factor float64,
	columns *likelihood.Columns,
	most int,
) (logN float64, err error) {
	g := likelihood.NewGram(columns, factor)
	groups := newGroups(columns.Bands, periods.length, most)
	later := []float64{1} // by the groups of the ages of three replicas
	var triples *placeTriples
	for e := periods.count() - 1; e >= 0; e-- {
		t := &pairTable{
			bands:  columns.Bands,
			length: periods.length,
			places: periods.places(e),
			last:   e == periods.count()-1,
		}
		if t.makeNear(g, e*periods.length); triples == nil || !triples.inside || !t.alike {
			triples = newPlaceTriples(t, groups)
		}
		var meets [][]float64
		if e > 0 {
			meets = groups.meets(periods.crossing(g, columns.Bands, e))
		} else {
			meets = groups.meets(nil)[:1]
		}
		later = triples.before(later, meets)
		top := later[len(later)-1]
		for _, v := range later {
			top = max(top, v)
		}
		logN += math.Log(top)
		for i := range later {
			later[i] /= top
		}
	}
	if logN += math.Log(later[0]); math.IsNaN(logN) || math.IsInf(logN, 0) {
		return 0, fmt.Errorf("%w: order 3: the sums leave the range of float64", ErrTable)
	}
	return logN, nil
}

// groups are the groups of the ages 1 … w-1, and of the places 0 … w-2. An age and a place at the
// same distance from the beginning of the period share a group, with a number from 1 on. Group 0 is
// for all other ages and places.
type groups struct {
	of     []int // of ages 1, 2, …, and of places 0, 1, …
	number int   // with group 0
}

// newGroups makes groups that grow with the distance, in proportion to it.
func newGroups(bands, period, most int) groups {
	if period < 2*bands {
		most = min(most, fewGroups)
	}
	g := groups{}
	for share := 0.0; ; share += 0.05 {
		g = groups{number: 1}
		for from := 0; from < bands-1; g.number++ {
			size := 1 + int(share*float64(from+1))
			for range min(size, bands-1-from) {
				g.of = append(g.of, g.number)
			}
			from += size
		}
		if g.number <= most+1 {
			return g
		}
	}
}

// at is the group of a distance: an age less 1, or a place.
func (g groups) at(distance int) int {
	if distance < len(g.of) {
		return g.of[distance]
	}
	return 0
}

// meets is the largest γ of each pair of groups, of ages and places.
func (g groups) meets(crossing [][]float64) [][]float64 {
	all := make([][]float64, g.number)
	for a := range all {
		all[a] = make([]float64, g.number)
	}
	for k, row := range crossing {
		for v, x := range row {
			if most := &all[g.at(k)][g.at(v)]; x > *most {
				*most = x
			}
		}
	}
	for _, row := range all {
		for i, x := range row {
			row[i] = math.Exp(x)
		}
	}
	return all
}

// placeTriples sums K(u,v)K(v,z)K(u,z) over the places of three replicas in a period of T, over T³,
// by their classes: a class is a group among the period's first places, and one of the ages before
// the next period.
type placeTriples struct {
	groups
	inside     bool      // the same for all periods of whole columns but the last
	head, tail []int     // groups of each class
	sums       []float64 // by three classes
}

func newPlaceTriples(t *pairTable, g groups) *placeTriples {
	p := &placeTriples{groups: g, inside: t.alike && !t.last}
	class, count := p.classes(t)
	n := len(count)
	at := func(a, b, c int) int { return (a*n+b)*n + c }
	p.sums = make([]float64, n*n*n)

	met := make([][]float64, t.places) // by place and class, Σ f over the places of the class
	edges := make([]float64, n*n)
	for v := range met {
		met[v] = make([]float64, n)
		from, to := t.window(v)
		for z := from; z < to; z++ {
			met[v][class[z]] += t.meet(v, z)
		}
		for c, x := range met[v] {
			edges[class[v]*n+c] += x
		}
		for a, x := range met[v] {
			if x == 0 {
				continue
			}
			for b, y := range met[v] { // v in the middle
				p.sums[at(a, class[v], b)] += x * y
				p.sums[at(class[v], a, b)] += x * y
				p.sums[at(a, b, class[v])] += x * y
			}
		}
	}
	for a := range n {
		for b := range n {
			for c := range n {
				p.sums[at(a, b, c)] += count[a]*count[b]*count[c] + count[a]*edges[b*n+c] + count[b]*edges[a*n+c] + count[c]*edges[a*n+b]
			}
		}
	}
	p.triangles(t, class, n)
	volume := math.Pow(float64(t.length), 3)
	for i := range p.sums {
		p.sums[i] /= volume
	}
	return p
}

// classes returns the class of each place, and the number of places in each class. Places beyond
// the run are in class 0, which meets nothing.
func (p *placeTriples) classes(t *pairTable) (class []int, count []float64) {
	number := map[[2]int]int{{0, 0}: 0}
	p.head, p.tail, count = []int{0}, []int{0}, []float64{float64(t.length - t.places)}
	for v := range t.places {
		groups := [2]int{p.at(v), 0}
		if age := t.age(v); age > 0 {
			groups[1] = p.at(age - 1)
		}
		c, known := number[groups]
		if !known {
			c = len(count)
			number[groups] = c
			p.head, p.tail, count = append(p.head, groups[0]), append(p.tail, groups[1]), append(count, 0)
		}
		class, count[c] = append(class, c), count[c]+1
	}
	return class, count
}

// triangles adds f(u,v)f(v,z)f(u,z) in all orders of the three, from u ≤ v ≤ z.
func (p *placeTriples) triangles(t *pairTable, class []int, n int) {
	ordered := make([]float64, len(p.sums))
	for u := range t.places {
		_, to := t.window(u)
		for v := u; v < to; v++ {
			row := ordered[(class[u]*n+class[v])*n:][:n]
			pair := t.meet(u, v)
			for z := v; z < to; z++ {
				weight := pair * t.meet(u, z) * t.meet(v, z)
				switch { // in how many orders of six it is the same
				case u == v && v == z:
					weight /= 6
				case u == v || v == z:
					weight /= 2
				}
				row[class[z]] += weight
			}
		}
	}
	for a := range n {
		for b := range n {
			for c := range n {
				x := ordered[(a*n+b)*n+c]
				if x == 0 {
					continue
				}
				for _, i := range [...][3]int{{a, b, c}, {a, c, b}, {b, a, c}, {b, c, a}, {c, a, b}, {c, b, a}} {
					p.sums[(i[0]*n+i[1])*n+i[2]] += x
				}
			}
		}
	}
}

// before is the table before the period, by the groups of three ages, from the one after it.
func (p *placeTriples) before(later []float64, meets [][]float64) []float64 {
	n, ages, next := len(p.head), len(meets), p.number
	if len(later) == 1 { // after the last period
		next = 0
	}
	weights := make([]float64, len(p.sums))
	for a := range n {
		for b := range n {
			for c := range n {
				weights[(a*n+b)*n+c] = p.sums[(a*n+b)*n+c] * later[(p.tail[a]*next+p.tail[b])*next+p.tail[c]]
			}
		}
	}
	// met[a] is γ of the ages of group a and the class.
	met := make([][]float64, ages)
	for a := range met {
		for _, head := range p.head {
			met[a] = append(met[a], meets[a][head])
		}
	}
	out := make([]float64, ages*ages*ages)
	pairs, rows := make([]float64, n*n), make([]float64, n)
	for b := range ages {
		for c := range b + 1 { // the first replica meets the others, of ages b and c
			clear(pairs)
			for i := range n {
				x := met[b][i] * met[c][i]
				for j, w := range weights[i*n*n : (i+1)*n*n] {
					pairs[j] += x * w
				}
			}
			for a := range ages {
				for j := range n {
					rows[j] = 0
					for k, w := range pairs[j*n : (j+1)*n] {
						rows[j] += w * met[a][k] * met[b][k] // the third
					}
				}
				sum := 0.0
				for j, w := range rows {
					sum += w * met[a][j] * met[c][j] // the second
				}
				out[(a*ages+b)*ages+c], out[(a*ages+c)*ages+b] = sum, sum
			}
		}
	}
	return out
}
