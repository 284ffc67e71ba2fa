package pld

import "minsep/internal/binomial"

// group is a range of the number r of other sampled examples, first to last. All of them are at
// least MaxBatchSize, so that the batch is truncated.
type group struct {
	first, last int
	probability float64
}

// groups divides the distribution of r ~ Binom(Others, prob): below is the probability of r <
// MaxBatchSize, list has at most 24 groups of larger r, and rest, below 1e-25, is the tail beyond.
func (t Truncation) groups(prob float64) (below float64, list []group, rest float64) {
	if t.Others < t.MaxBatchSize {
		return 1, nil, 0
	}
	// The survival probability changes by less than a thousandth within a group, or the group is a
	// 24th of the range that matters.
	n := t.Others
	last := t.MaxBatchSize
	above := 0.0
	mean := float64(n) * prob
	for ; last <= n; last++ {
		m := binomial.Mass(n, prob, last)
		if float64(last) > mean && m < 1e-30 {
			break
		}
		above += m
	}
	last--
	if last < t.MaxBatchSize { // even r = MaxBatchSize hardly ever happens
		rest = binomial.UpperTail(n, prob, t.MaxBatchSize)
		return 1 - rest, nil, rest
	}
	width := max(1, (last-t.MaxBatchSize)/24+1)
	for from := t.MaxBatchSize; from <= last; from += width {
		g := group{first: from, last: min(from+width-1, last)}
		for r := g.first; r <= g.last; r++ {
			g.probability += binomial.Mass(n, prob, r)
		}
		if g.probability > 0 {
			list = append(list, g)
		}
	}
	if last < n {
		rest = binomial.UpperTail(n, prob, last+1)
	}
	return max(0, 1-above), list, rest
}
