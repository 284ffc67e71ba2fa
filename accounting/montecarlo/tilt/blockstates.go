package tilt

import "slices"

// stateList has the multisets of θ out of a number of cells, in the order of their numbers. cell
// and times, from begins[s] up to begins[s+1], have the cells of state s and the replicas in each.
type stateList struct {
	begins []int32
	cell   []uint16
	times  []uint8
}

func (l *stateList) of(state int) (cells []uint16, times []uint8) {
	from, to := l.begins[state], l.begins[state+1]
	return l.cell[from:to], l.times[from:to]
}

// listMoves numbers the states before a block of the shape, and those after.
func (t *blocks) listMoves(s *shape) {
	if most := max(len(s.cells), len(s.next)); len(t.binomial) <= most {
		t.binomial = newMultisets(2*most, t.theta+1)
	}
	s.states = t.statesOf(len(s.cells))
	states := len(s.states.begins) - 1
	s.place, s.row = make([]int32, states+1), make([]int32, states)
	after := &cellCounts{}
	counts, took := make([]int, len(s.sorts)), make([]int, len(s.sorts))
	for state := range states {
		cells, times := s.states.of(state)
		width := s.acting(state, func(k, count, _ int) { counts[k] = count })
		s.place[state], s.row[state] = int32(len(s.after)), -1
		if width > 1 {
			s.row[state] = int32(s.size)
			s.size += width
		}
		clear(took)
		for range width {
			s.leave(after, cells, times, took)
			s.after = append(s.after, int32(after.rank(t.binomial)))
			for k := range took {
				if took[k]++; took[k] <= counts[k] {
					break
				}
				took[k] = 0
			}
		}
	}
	s.place[states] = int32(len(s.after))
}

// acting calls f for each sort, with its place k in sorts, the count of the state's replicas of the
// sort, and the stride in a row from an entry to the entry with one more participation of the sort.
// It returns the width of a row, which is its number of entries.
func (s *shape) acting(state int, f func(k, count, stride int)) (width int) {
	cells, times := s.states.of(state)
	width = 1
	for k := range s.sorts {
		count := 0
		for n, z := range cells {
			if s.actor[z] == k {
				count += int(times[n])
			}
		}
		f(k, count, width)
		width *= count + 1
	}
	return width
}

// leave sets after to the counts of the next block's cells. They follow from the replicas in the
// cells of this block, and from took, the number of replicas of each sort that took part. All free
// labels of a sort are alike, so the participants may be taken from the cells that become free
// first. These are the first cells in the order of compareCells.
func (s *shape) leave(after *cellCounts, cells []uint16, times []uint8, took []int) {
	after.reset(len(s.next))
	for n, z := range cells {
		after.add(s.into[z], int(times[n]))
	}
	for k, left := range took {
		if left == 0 {
			continue
		}
		after.add(s.fresh[k], left)
		for n, z := range cells {
			if s.actor[z] == k {
				gone := min(left, int(times[n]))
				after.add(s.into[z], -gone)
				left -= gone
			}
		}
	}
}

// cellCounts has the number of replicas in each cell. There are far more cells than replicas, so
// listed has the cells that were counted.
type cellCounts struct {
	of     []int
	listed []int // in rising order
}

// reset sets the number of cells, and makes all of them empty.
func (c *cellCounts) reset(cells int) {
	for _, z := range c.listed {
		c.of[z] = 0
	}
	c.of, c.listed = slices.Grow(c.of[:0], cells)[:cells], c.listed[:0]
}

// add adds more, which may be negative, to the number of replicas in a cell.
func (c *cellCounts) add(cell, more int) {
	c.of[cell] += more
	if at, known := slices.BinarySearch(c.listed, cell); !known {
		c.listed = slices.Insert(c.listed, at, cell)
	}
}

// rank is the number of the state with m_j replicas in cell j: Σ_j C(m_1+…+m_j + j-1, j) over all
// cells but the last. Over the empty cells j = a+1 … b after m replicas, the sum is C(m+b, b) -
// C(m+a, a).
func (c *cellCounts) rank(binomial multisets) (number int) {
	seen, from, last := 0, 0, len(c.of)-1
	for _, z := range c.listed {
		if z == last {
			break
		}
		number += binomial[z][seen+1] - binomial[from][seen+1]
		seen, from = seen+c.of[z], z
	}
	return number + binomial[last][seen+1] - binomial[from][seen+1]
}

// count is the number of states that a number of cells has.
func (t *blocks) count(cells int) float64 { return countStates(cells, t.theta+1) }

// statesOf lists the states of a number of cells in order. The order is by the number of replicas
// in all cells but the last, then by the number in all but the last two, and so on.
func (t *blocks) statesOf(cells int) *stateList {
	if l := t.lists[cells]; l != nil {
		return l
	}
	l := &stateList{begins: make([]int32, 1, int(t.count(cells)+.5)+1)}
	sums := make([]int, cells) // of the replicas in all cells, in all but the last, …
	sums[0] = t.theta
	eachDescending(sums[1:], t.theta, func() {
		before := 0
		for z := range sums {
			sum := sums[cells-1-z]
			if sum > before {
				l.cell, l.times = append(l.cell, uint16(z)), append(l.times, uint8(sum-before))
			}
			before = sum
		}
		l.begins = append(l.begins, int32(len(l.cell)))
	})
	t.lists[cells] = l
	return l
}
