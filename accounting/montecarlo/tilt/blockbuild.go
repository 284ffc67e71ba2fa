package tilt

import "math"

// build computes a layer from V̂ before the next block.
//
//	W_r(c) = max_F Σ_J Π_k Pr[Binom(F_k-c_k, η_k) = J_k] a_J,
//	a_J = e^{|J| G} e^{|J|(|J|-1)/2 ‖c‖²/σ²} W_{r+1}(c+J),
//	G = Σ_z m_z ρ(age of cell z) + |c| ρ(1) - Σ_k ρ of the replicas in F_k that are not free for sure
//
// over the numbers F of replicas of each sort k that can be free, whether they took part or not.
func (t *blocks) build(layer *blockLayer, s *shape, first int, after []float64) {
	b := newBuilder(t, s, first)
	for state := range s.row {
		moves := s.after[s.place[state]:]
		if s.row[state] < 0 {
			layer.start[state] = after[moves[0]]
			continue
		}
		b.begin(state)
		rows := layer.rows[int(s.row[state])*s.length:]
		next := rows[(s.length-1)*b.width : s.length*b.width]
		for c := range next {
			next[c] = after[moves[c]]
		}
		for r := s.length - 1; r >= 0; r-- {
			into := layer.start[state : state+1]
			if r > 0 {
				into = rows[(r-1)*b.width : r*b.width]
			}
			b.step(into, next, r)
			next = into
		}
	}
}

// builder computes the rows of one state.
type builder struct {
	t        *blocks
	s        *shape
	first    int     // step of the block
	adjacent float64 // e^ρ(1)

	cells []uint16
	times []uint8
	width int
	parts []builderSort

	share []float64 // by number of participants: the factor of their overlaps, also with one another
}

// builderSort counts a state's replicas of a sort, with those that took part earlier in the block.
// count of them may take part in the block. At the step, at least least and at most most of them
// are free. At the step before, at most seen of them were.
type builderSort struct {
	k, count, stride  int
	least, most, seen int
	relief            float64 // the largest e^-ρ, for each replica that is free beyond the least
	took, free        int     // of an entry
	chances           *chances
}

func newBuilder(t *blocks, s *shape, first int) *builder {
	return &builder{t: t, s: s, first: first, adjacent: math.Exp(t.reach[1]), share: make([]float64, t.theta+1)}
}

// begin turns to a state.
func (b *builder) begin(state int) {
	b.cells, b.times = b.s.states.of(state)
	b.parts = b.parts[:0]
	b.width = b.s.acting(state, func(k, count, stride int) {
		if count > 0 {
			b.parts = append(b.parts, builderSort{k: k, count: count, stride: stride})
		}
	})
}

// step computes the row before a step from the one after it.
func (b *builder) step(into, next []float64, r int) {
	at := &b.s.steps[r]
	x := 1.0
	for n, z := range b.cells {
		x *= at.gain[int(z)*(b.t.theta+1)+int(b.times[n])]
	}
	for p := range b.parts {
		part := &b.parts[p]
		part.chances = b.t.chances[b.first+r][b.s.sorts[part.k]]
		b.count(part, at)
		if part.seen = 0; r > 0 {
			part.seen = b.most(part.k, b.s.steps[r-1].free)
		}
	}
	if len(b.parts) == 1 {
		b.one(into, next, x, &b.parts[0])
		return
	}
	b.several(into, next, x, b.parts[0].chances.self)
}

// count sets the numbers of replicas of a sort that are free for sure and that may be free, and
// relief. Free replicas do not overlap.
func (b *builder) count(p *builderSort, at *shapeStep) {
	p.least, p.most, p.relief = 0, b.most(p.k, at.free), 0
	for n, z := range b.cells {
		if b.s.actor[z] != p.k {
			continue
		}
		switch at.free[z] {
		case isFree:
			p.least += int(b.times[n])
		case mayBeFree:
			p.relief = max(p.relief, 1/at.gain[int(z)*(b.t.theta+1)+1])
		}
	}
	if p.relief == 0 {
		p.relief = 1
	}
}

// most is how many replicas of a sort may be free.
func (b *builder) most(k int, free []freedom) (most int) {
	for n, z := range b.cells {
		if b.s.actor[z] == k && free[z] != isBlocked {
			most += int(b.times[n])
		}
	}
	return most
}

// one is step where one sort may act.
func (b *builder) one(into, next []float64, x float64, p *builderSort) {
	for c := range p.seen + 1 {
		high, each := 0.0, x
		for free := p.least; free <= p.most; free++ {
			if free >= c {
				high = max(high, polynomial(p.chances.weighted[free-c], next[c:], each))
			}
			each *= p.relief
		}
		into[c] = high
		x *= b.adjacent
	}
}

// several is step where more sorts may act.
func (b *builder) several(into, next []float64, x float64, self []float64) {
	for entry := range into {
		took, inside := 0, true
		for i := range b.parts {
			p := &b.parts[i]
			p.took = entry / p.stride % (p.count + 1)
			took += p.took
			inside = inside && p.took <= p.seen
		}
		if !inside {
			continue
		}
		into[entry] = b.worst(0, x*power(b.adjacent, took), self, next[entry:])
	}
}

// worst is the largest of the sums over participations, over the possible numbers of free replicas
// of the sorts from i on.
func (b *builder) worst(i int, x float64, self, next []float64) (high float64) {
	if i == len(b.parts) {
		product := 1.0
		for j := range b.share {
			b.share[j] = product * self[j]
			product *= x
		}
		return b.sum(0, 0, next)
	}
	p := &b.parts[i]
	for free := p.least; free <= p.most; free++ {
		if free >= p.took {
			p.free = free - p.took
			high = max(high, b.worst(i+1, x, self, next))
		}
		x *= p.relief
	}
	return high
}

// sum is the sum over the participations of the sorts from i on, after j participations of the
// sorts before.
func (b *builder) sum(i, j int, next []float64) (sum float64) {
	p := &b.parts[i]
	row := p.chances.binomial[p.free]
	for m, prob := range row {
		switch {
		case prob == 0:
		case i == len(b.parts)-1:
			sum += prob * b.share[j+m] * next[m*p.stride]
		default:
			sum += prob * b.sum(i+1, j+m, next[m*p.stride:])
		}
	}
	return sum
}

// polynomial is Σ_j coef[j] x^j value[j].
func polynomial(coef, value []float64, x float64) (sum float64) {
	value = value[:len(coef)]
	for j := len(coef) - 1; j >= 0; j-- {
		sum = sum*x + coef[j]*value[j]
	}
	return sum
}

// power is x^m.
func power(x float64, m int) float64 {
	product := 1.0
	for range m {
		product *= x
	}
	return product
}

// binomials appends Pr[Binom(m, h) = j], j = 0 … m, to dst[:0].
func binomials(dst []float64, m int, h float64) []float64 {
	dst = dst[:0]
	for range m + 1 {
		dst = append(dst, 0)
	}
	at, step, p, ratio := 0, 1, 1-h, h/(1-h)
	if h > .5 { // from the other end
		at, step, p, ratio = m, -1, h, (1-h)/h
	}
	x := power(p, m)
	for j := range m + 1 {
		dst[at] = x
		at += step
		x *= ratio * float64(m-j) / float64(j+1)
	}
	return dst
}
