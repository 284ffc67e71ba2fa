package law

import "math"

// Once is participation at most once in a run (F3.10): at step i with probability a_i = a_0
// ratio^i. Label r = 1 … w-1 has a column that overlaps with the columns of the next r steps,
// and label w with no other. None of them is free again.
type Once struct {
	steps, bands        int
	first, ratio, never float64
}

// NewOnce is the law of a run of so many steps, with columns that overlap within so many bands,
// at least 1. The ratio is 1, or 1 - first as with coins that are alike; never is 1 - Σ a_i
// without cancellation.
func NewOnce(steps, bands int, first, ratio, never float64) Once {
	return Once{steps, bands, first, ratio, never}
}

// left is the probability of no participation before step i.
func (l Once) left(i int) float64 {
	if l.ratio < 1 {
		return math.Pow(l.ratio, float64(i))
	}
	return l.never + float64(l.steps-i)*l.first
}

func (l Once) Labels() int { return l.bands + 1 }

func (l Once) Free(r int) bool { return r == 0 }

func (l Once) Starts() (starts []Start, drawn bool) { return []Start{{0, 1}}, false }

func (l Once) Hazard(_, step int) float64 {
	if l.ratio < 1 {
		return l.first
	}
	return min(1, l.first/l.left(step))
}

func (l Once) Quiet(_, from, to int) float64 { return l.left(to) / l.left(from) }

func (l Once) Age(r int) int {
	if r == 0 || r == l.bands {
		return 0
	}
	return l.bands - r
}

func (l Once) Kind(int) (kind, kinds int) { return 0, 1 }

func (l Once) Enter(r, _ int, takes bool) int {
	switch {
	case takes:
		r = l.bands - 1
	case r == 0 || r == l.bands:
		return r
	default:
		r--
	}
	if r == 0 {
		return l.bands
	}
	return r
}

func (l Once) FreeAt(r, step int) int {
	if r == 0 {
		return step
	}
	return l.steps
}

// Pass frees everybody at the end of the run, where nothing is left to do.
func (l Once) Pass(r, from, to int) int {
	switch {
	case r == 0 || to >= l.steps:
		return 0
	case r == l.bands || r <= to-from:
		return l.bands
	}
	return r - (to - from)
}

func (l Once) FreeUntil(int) int { return math.MaxInt }

func (l Once) AllFreeAt(int) int { return l.steps }

func (l Once) Unmet(i int) (from, to int) { return i + 1, i + 2 }
