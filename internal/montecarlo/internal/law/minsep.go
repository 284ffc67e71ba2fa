package law

import "math"

// MinSep is b-min-sep (F3.2): a free example takes part with probability p, and then waits for
// b-1 steps. Label r has r steps to wait.
type MinSep struct {
	Plain
	sep   int     // b, at least 1
	prob  float64 // p, 0 < p ≤ 1
	warm  bool
	quiet float64 // ln (1-p)
}

// NewMinSep is the law of a min-sep of at least 1 and a probability above 0. With warm the
// first wait is distributed as in a chain without beginning.
func NewMinSep(sep int, prob float64, warm bool) MinSep {
	return MinSep{Plain{}, sep, prob, warm, math.Log1p(-prob)}
}

func (l MinSep) Labels() int { return l.sep }

func (l MinSep) Free(r int) bool { return r == 0 }

// Starts is the stationary distribution of a warm start (arXiv 2602.09338, Algorithm 2).
func (l MinSep) Starts() (starts []Start, drawn bool) {
	if !l.warm {
		return []Start{{0, 1, 0, 0}}, false
	}
	total, log := 1+float64(l.sep-1)*l.prob, math.Log1p(float64(l.sep-1)*l.prob)
	starts = []Start{{0, 1 / total, -log, 0}}
	for r := 1; r < l.sep; r++ {
		starts = append(starts, Start{r, l.prob / total, -log, math.Log(l.prob)})
	}
	return starts, true
}

func (l MinSep) Hazard(_, _ int) float64 { return l.prob }

func (l MinSep) Quiet(_, from, to int) float64 {
	return math.Exp(float64(to-from) * l.quiet)
}

func (l MinSep) Age(r int) int {
	if r == 0 {
		return 0
	}
	return l.sep - r
}

func (l MinSep) Enter(r, _ int, takes bool) int {
	if takes {
		return l.sep - 1
	}
	return max(0, r-1)
}

func (l MinSep) FreeAt(r, step int) int { return step + r }

func (l MinSep) Pass(r, from, to int) int { return max(0, r-to+from) }

func (l MinSep) Unmet(i int) (from, to int) { return i + l.sep, i + l.sep + 1 }
