package kernel

import (
	"math"

	"minsep/internal/montecarlo/internal/likelihood"
)

// pairTable holds the values of b+1 steps of two examples: one is free, and the other took part
// t = 1 … b steps ago.
type pairTable struct {
	b     int
	table []Row // step i at line i mod (b+1), of b+1 entries, the first unused
	jumps []Row // L of a few steps
}

func newPairTable(b, steps int) pairTable {
	return pairTable{b, make([]Row, (b+1)*(b+1)), make([]Row, min(64, steps))}
}

// line is where the values of step i are.
func (p *pairTable) line(i int) []Row {
	size := p.b + 1
	at := i % size * size
	return p.table[at : at+size]
}

// each goes through a block of steps, which begins at step first, from its last step down. It calls
// step with the number i of each and with its L_i = 2^(t+a_i), until step returns false.
func (p *pairTable) each(first int, t []Row, a []float64, step func(i int, jump *Row) bool) bool {
	for end := len(t); end > 0; {
		from := max(0, end-len(p.jumps))
		jumps := p.jumps[:end-from]
		exp2Rows(jumps, t[from:end], a[first+from:])
		for k := len(jumps) - 1; k >= 0; k-- {
			if !step(first+from+k, &jumps[k]) {
				return false
			}
		}
		end = from
	}
	return true
}

// logRatio averages over two independent first waits of the probabilities start, where line 0 is of
// the first step. Let r be the shorter wait, and d the difference. The value is entry b-d of step r
// times q^d; entry b is for both free. The longer wait belongs to an example that participated
// before the first step.
func (p *pairTable) logRatio(dst *Row, start []float64, q float64, log2 *Row) {
	var sum Row
	for i, at := range start {
		for d := 0; i+d < len(start); d++ {
			weight := at * start[i+d]
			if d > 0 {
				weight = 2 * weight * math.Pow(q, float64(d))
			}
			for l, v := range p.line(i)[p.b-d] {
				sum[l] += float64(weight * v)
			}
		}
	}
	for l, v := range sum {
		dst[l] = math.Log(v) + log2[l]*math.Ln2
	}
}

// diagonal sets entries t in [from, end) of step i to stay times entry t+1 of step i+1, plus
// weights[t]·jump times entry b-t of step i+b-t: the values of a participation at i.
func (p *pairTable) diagonal(i, from, end int, weights []float64, jump *Row, stay float64) {
	b, place := p.b, i%(p.b+1)
	next, out := p.line(i+1), p.line(i)
	// Entry s of step i+s is b+2 rows of the table after entry s-1 of the step before, except where
	// the table starts again between them.
	if around := min(end, place); from < around {
		pairRow(
			out[from:],
			next[from+1:],
			p.table,
			(place-from-1)*(b+1)+b-from,
			b+2,
			weights[from:around],
			jump,
			stay,
		)
		from = around
	}
	if from < end {
		pairRow(
			out[from:],
			next[from+1:],
			p.table,
			(place+b-from)*(b+1)+b-from,
			b+2,
			weights[from:end],
			jump,
			stay,
		)
	}
}

// weights has, for each step, the factors of a second participation by its lag t. Steps with equal
// factors share a row.
type weights struct {
	rows  [][]float64
	index []int32
}

// newWeights takes the logarithm of the factor at a lag, from which the overlap is subtracted. An
// example that participated before the first step left none.
func newWeights(g *likelihood.Gram, minSep int, alone func(t int) float64) *weights {
	w := &weights{index: make([]int32, g.Steps)}
	for i := range w.index {
		if i < minSep || i >= g.Alike() {
			row := make([]float64, minSep)
			for t := 1; t < minSep; t++ {
				row[t] = math.Exp(alone(t) - g.Between(i, t))
			}
			w.rows = append(w.rows, row)
		}
		w.index[i] = int32(len(w.rows) - 1)
	}
	return w
}
