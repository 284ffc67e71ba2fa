package law

import (
	"math"
	"slices"
)

// Chain is a law unrolled over the steps of a run, for one example. A free example takes part at a
// step or not, and is free again at a later step. The rows are the free labels that may take part,
// in ascending order from row 1 on. Row 0 is for an example that never takes part any more. A Chain
// is read-only and may be shared.
type Chain struct {
	Law    Law
	Steps  int
	Rows   int     // row 0 included
	Reach  int     // the most steps of the run from a turn to the next, or from step 0 to the first
	Starts []First // by the step at which they are first free
	Drawn  bool    // see [Law]
	Alike  bool    // the turns of all steps are alike
	One    bool    // one label is free

	labels []int  // of rows 1, 2, …
	turns  []Turn // of these rows, of each step or of one for all
	mask   int    // of the steps of turns
}

// Turn is the two ways on of an example that is free at a step.
type Turn struct {
	Out, In float64 // ln of the probabilities that it does not take part, and that it does
	Then            // after it took part
}

// Then is where an example is free the next time. That may be after the run.
type Then struct {
	Ahead int32 // steps from the turn, or from step 0
	Row   int32
}

// First is a start, and where it leads to.
type First struct {
	Start
	Then
}

// LogProb is the logarithm of its probability.
func (f First) LogProb() float64 { return f.Log + f.Rest }

// NewChain is for a run of at least one step.
func NewChain(l Law, steps int) *Chain {
	c := &Chain{Law: l, Steps: steps, Rows: 1, Reach: 1, Alike: Alike(l, steps)}
	rows, free := make([]int, l.Labels()), 0
	for x := range rows {
		if !l.Free(x) {
			continue
		}
		free++
		for i := range steps {
			if l.Hazard(x, i) > 0 {
				rows[x], c.labels = c.Rows, append(c.labels, x)
				c.Rows++
				break
			}
		}
	}
	c.One = free == 1
	fixed, last := fixedWaits(l), 0
	if !c.Alike {
		c.mask, last = -1, steps-1
	}
	thens := make([]Then, len(c.labels))
	c.turns = make([]Turn, 0, (last+1)*len(c.labels))
	for i := range last + 1 {
		kind, _ := l.Kind(i + 1)
		for k, x := range c.labels {
			if i == 0 || !fixed {
				thens[k] = c.then(rows, l.Enter(x, kind, true), i+1, i)
			}
			h := l.Hazard(x, i)
			c.turns = append(c.turns, Turn{math.Log1p(-h), math.Log(h), thens[k]})
		}
	}
	starts, drawn := l.Starts()
	starts, c.Drawn = slices.Clone(starts), drawn
	slices.SortStableFunc(starts, func(a, b Start) int { return l.FreeAt(a.Label, 0) - l.FreeAt(b.Label, 0) })
	for _, s := range starts {
		c.Starts = append(c.Starts, First{s, c.then(rows, s.Label, 0, 0)})
	}
	return c
}

// fixedWaits says that the time until a label is free is the same at every step.
func fixedWaits(l Law) bool {
	_, kinds := l.Kind(0)
	return kinds == 1 && l.AllFreeAt(0) < 0
}

// Alike says that a law is the same at all steps of a run.
func Alike(l Law, steps int) bool {
	if !fixedWaits(l) {
		return false
	}
	for x := range l.Labels() {
		for i := 1; l.Free(x) && i < steps; i++ {
			if l.Hazard(x, i) != l.Hazard(x, 0) {
				return false
			}
		}
	}
	return true
}

// then is the Then of a turn, for an example with the label before step.
func (c *Chain) then(rows []int, label, step, turn int) Then {
	at := c.Law.FreeAt(label, step)
	ahead := min(at-turn, math.MaxInt32)
	c.Reach = max(c.Reach, min(ahead, c.Steps-turn))
	return Then{int32(ahead), int32(rows[c.Law.Pass(label, step, at)])}
}

// Turns are the turns of rows 1, 2, … at a step.
func (c *Chain) Turns(step int) []Turn {
	size := len(c.labels)
	return c.turns[(step&c.mask)*size:][:size]
}

// Turn is the turn of a row, above 0, at a step.
func (c *Chain) Turn(row, step int) *Turn { return &c.Turns(step)[row-1] }

// Hazard is the probability that an example with the label of a row, above 0, takes part at a step.
func (c *Chain) Hazard(row, step int) float64 { return c.Law.Hazard(c.labels[row-1], step) }

// At is the step at which an example is free again after a turn, at most the end of the run.
func (c *Chain) At(t Then, turn int) int { return min(c.Steps, turn+int(t.Ahead)) }

// Free are the probabilities, by row, that an example is free before each step.
func (c *Chain) Free() [][]float64 {
	free := make([][]float64, c.Rows)
	for row := range free {
		free[row] = make([]float64, c.Steps+1)
	}
	for _, s := range c.Starts {
		free[s.Row][c.At(s.Then, 0)] += s.Prob
	}
	for i := range c.Steps {
		for k, turn := range c.Turns(i) {
			in := free[k+1][i] * c.Hazard(k+1, i)
			free[k+1][i+1] += free[k+1][i] - in
			free[turn.Row][c.At(turn.Then, i)] += in
		}
	}
	return free
}

// Rates are the probabilities of a participation at each step.
func (c *Chain) Rates() []float64 {
	rates := make([]float64, c.Steps)
	for row, free := range c.Free() {
		for i := 0; row > 0 && i < c.Steps; i++ {
			rates[i] += free[i] * c.Hazard(row, i)
		}
	}
	return rates
}

// Never is the logarithm of the probability that an example takes part at no step, rounded
// downward.
func (c *Chain) Never() float64 {
	never := math.Inf(-1)
	for _, s := range c.Starts {
		log := s.LogProb()
		if at := c.At(s.Then, 0); s.Row > 0 && at < c.Steps {
			if c.Alike {
				log += float64(c.Steps-at) * c.Turn(int(s.Row), at).Out
			} else {
				log += math.Log(c.Law.Quiet(c.labels[s.Row-1], at, c.Steps))
			}
		}
		if top := max(never, log); top > math.Inf(-1) {
			never = top + math.Log(math.Exp(never-top)+math.Exp(log-top))
		}
	}
	rounding := 1e-12 * (1 + math.Abs(never)) // of an exponent
	if !c.Alike {
		rounding += float64(c.Steps) * 0x1p-51 // of a product over the steps
	}
	return never - rounding
}
