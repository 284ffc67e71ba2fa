package tilt

// inTriples says whether the pass of order 3 computes the state of the labels 0, c and d, d ≤ c. It
// does where c and d are waits below min-sep, and both count down by one before a step of the kind.
func (t *tuples) inTriples(kind, c, d int) bool {
	return d > 0 && c < t.gram.sep && t.law.Enter(c, kind, false) == c-1 && t.law.Enter(d, kind, false) == d-1
}

// tile is the number of rows of a slice that triples computes together. States with neighbouring c
// read neighbouring entries of a later slice, and this number of rows stays in the cache.
const tile = 32

// triples evaluates the recursion for nearly all states of order 3 of a law with one free label. It
// gives the values of the general pass in a third of the time. State (c, d), d ≤ c, has the labels
// 0, c and d, and the number c(c+1)/2 + d. When the free replica takes part at a step, the time
// until a replica is free again depends on d alone, and is at most d steps: see [law.Law].
func (t *tuples) triples(dst []float64, i int, x *transitions) {
	b := t.gram.sep
	first := func(c int) int { return c * (c + 1) / 2 }
	none, one := t.coef[t.groupAt[1]][0]*t.factor[1], t.coef[t.groupAt[1]][1]
	if t.rows == nil {
		t.rows = make([]tripleRow, b)
	}
	for d := x.from; d < b; d++ {
		t.rows[d] = t.tripleRow(i, d)
	}
	next, gammas := t.ahead[1], t.gamma
	for from := 1; from < b; from += tile {
		to := min(from+tile, b)
		for d := x.from; d < to; d++ {
			row := &t.rows[d]
			c := max(from, d)
			mine, at, factor := gammas[d], first(c)+d, row.factor // from is at - c - 1
			if c <= row.wait {                                    // all of them are free then
				v := row.v[0]
				for end := min(to, row.wait+1); c < end; c++ {
					dst[at] = none*next[at-c-1] + one*(gammas[c]*mine)*factor*v
					at += c + 1
				}
			}
			if c == to {
				continue
			}
			along(dst, next, gammas[c:to], row.v[c-row.wait:to-row.wait], c, at, none, one, mine, factor)
		}
	}
}

// along evaluates the states (c, d), (c+1, d), …, the first with the number at. It is a
// function of its own so that all it needs stays in registers.
func along(dst, next, gamma, v []float64, c, at int, none, one, mine, factor float64) {
	gamma = gamma[:len(v)]
	for j, y := range v {
		dst[at] = none*next[at-c-1] + one*(gamma[j]*mine)*factor*y
		c++
		at += c
	}
}

// tripleRow has V after the free replica took part, for the states (c, d) of one d: v[max(0,
// c-wait)] times factor, in the scale of the step.
type tripleRow struct {
	wait   int
	factor float64
	v      []float64
}

func (t *tuples) tripleRow(i, d int) tripleRow {
	wait := d
	if !t.fixedWaits {
		wait = 1 + t.waits[d-1]
	}
	left := max(0, t.gram.sep-wait) // of the one that takes part
	left = left * (left + 1) / 2
	if wait <= t.lags {
		return tripleRow{wait, t.factor[wait], t.ahead[wait][left:]}
	}
	at := t.level(min(i+wait, t.steps), false)
	return tripleRow{wait, at.over(level{exp2: t.exp2[i], ln: t.ln[i]}), at.slice[left:]}
}
