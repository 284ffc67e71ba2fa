package law

import "math"

// Once is participation at most once in a run (F3.10): at step i with probability a_i = a_0
// ratio^i. Label r = 1 … w-1 has a column that overlaps with the columns of the next r steps,
// and label w with no other. None of them is free again.
type Once struct {
	Plain
	steps, bands int
	Single
}

// NewOnce is the law of a run of a number of steps, with columns of at least one band.
func NewOnce(steps, bands int, s Single) Once { return Once{Plain{}, steps, bands, s} }

// Single is participation at most once in a run: at step i with probability First·Ratio^i, and at
// no step with probability Never. The ratio is 1, or 1 - First as with equal coins.
type Single struct {
	First, Ratio float64
	Never        float64 // 1 - Σ a_i without cancellation
}

// Lone is a law that may be a Single in a run of a given number of steps.
type Lone interface {
	Law
	Single(steps int) (s Single, ok bool)
}

// Single is for a min-sep b of at least n steps, the length of the run. With a warm start, an
// example takes part at no step with probability (1-p + (b-n)p)/(1+(b-1)p), by its first wait and
// the coins after it.
func (l MinSep) Single(steps int) (s Single, ok bool) {
	n, b, p := float64(steps), float64(l.sep), l.prob
	if !l.warm {
		return Single{p, 1 - p, math.Exp(n * math.Log1p(-p))}, b >= n
	}
	total := 1 + (b-1)*p
	return Single{p / total, 1, (1 - p + (b-n)*p) / total}, b >= n
}

// Single is for epochs of at least n steps, the length of the run. The probabilities are the same
// as under a warm b-min-sep with b = n and p/(1+(n-1)p) = 1/T.
func (l Epochs) Single(steps int) (s Single, ok bool) {
	if l.steps < steps {
		return s, false
	}
	return NewMinSep(steps, 1/float64(l.steps-steps+1), true).Single(steps)
}

// left is the probability of no participation before step i.
func (l Once) left(i int) float64 {
	if l.Ratio < 1 {
		return math.Pow(l.Ratio, float64(i))
	}
	return l.Never + float64(l.steps-i)*l.First
}

func (l Once) Labels() int { return l.bands + 1 }

func (l Once) Free(r int) bool { return r == 0 }

func (l Once) Starts() (starts []Start, drawn bool) { return []Start{{0, 1, 0, 0}}, false }

func (l Once) Hazard(_, step int) float64 {
	if l.Ratio < 1 {
		return l.First
	}
	return min(1, l.First/l.left(step))
}

func (l Once) Quiet(_, from, to int) float64 { return l.left(to) / l.left(from) }

func (l Once) Age(r int) int {
	if r == 0 || r == l.bands {
		return 0
	}
	return l.bands - r
}

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

func (l Once) AllFreeAt(int) int { return l.steps }

func (l Once) Unmet(i int) (from, to int) { return i + 1, i + 2 }
