package tilt

import (
	"math"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/law"
	"minsep/internal/montecarlo/internal/likelihood"
)

// onePath draws participations of one example of any law given y. A stretch is the successive steps
// of a row up to one at which a free example surely takes part, or up to the end of the run.
type onePath struct {
	*law.Chain
	likelihood.Backward
	certain []bool      // by row: a free example takes part, at every step
	end     [][]int32   // by row, of each step: the end of its stretch
	quiet   [][]float64 // ln Pr[no participation] from the first step of a stretch up to each; at the end of the run, up to it
	alive   [][]float64 // ln F_i + quiet: differences in a stretch are ln Pr[none between | y]
	starts  []float64   // partial sums over the starts given y
}

// newOnePath is for a spec with a law, and columns of squared norms ‖c_i‖²/σ².
func newOnePath(s montecarlo.Spec, norms []float64) *onePath {
	c := law.NewChain(s.Law(), s.Steps)
	p := &onePath{Chain: c, Backward: likelihood.NewBackward(c, norms), certain: make([]bool, c.Rows), end: make([][]int32, c.Rows), quiet: make([][]float64, c.Rows)}
	for row := 1; row < c.Rows; row++ {
		p.certain[row], p.end[row], p.quiet[row] = true, make([]int32, c.Steps), make([]float64, c.Steps+1)
		from := 0
		for i := range c.Steps {
			out := c.Turn(row, i).Out
			if c.Alike {
				p.quiet[row][i+1] = float64(i+1-from) * out
			} else {
				p.quiet[row][i+1] = p.quiet[row][i] + out
			}
			must := math.IsInf(out, -1)
			p.certain[row] = p.certain[row] && must
			if !must && i < c.Steps-1 {
				continue
			}
			for ; from <= i; from++ {
				p.end[row][from] = int32(i + 1)
			}
			if must && from < c.Steps {
				p.quiet[row][from] = 0
			}
		}
	}
	return p.fork()
}

// fork has buffers of its own.
func (p *onePath) fork() *onePath {
	fork := *p
	fork.Backward = p.Backward.Fork()
	fork.alive, fork.starts = make([][]float64, p.Rows), make([]float64, len(p.Starts))
	for row := 1; row < p.Rows; row++ {
		fork.alive[row] = make([]float64, p.Steps)
	}
	return &fork
}

// given takes y through t(i) = log2(e)·⟨c_i, y⟩/σ².
func (p *onePath) given(t func(i int) float64) {
	p.Pass(func(i int) float64 { return t(i) * math.Ln2 })
	for row := 1; row < p.Rows; row++ {
		alive, quiet := p.alive[row], p.quiet[row]
		for i := range alive {
			alive[i] = p.LogF(row, i) + quiet[i]
		}
	}
	top, sum := math.Inf(-1), 0.0
	for _, s := range p.Starts {
		top = max(top, s.LogProb()+p.After(s.Then, 0))
	}
	for k, s := range p.Starts {
		sum += math.Exp(s.LogProb() + p.After(s.Then, 0) - top)
		p.starts[k] = sum
	}
}

// draw appends participations.
func (p *onePath) draw(hits []int, u *uniforms) []int {
	at := p.Starts[0].Then
	if len(p.Starts) > 1 || p.Drawn {
		at = p.Starts[pick(p.starts, u.Float64())].Then
	}
	for i := 0; ; {
		row := int(at.Row)
		if i = p.At(at, i); row == 0 || i == p.Steps {
			return hits
		}
		if !p.certain[row] {
			if i = p.next(row, i, u); i == p.Steps {
				return hits
			}
		}
		hits = append(hits, i)
		at = p.Turn(row, i).Then
	}
}

// next returns the step of the next participation from a step on, or the end of the run. alive
// never rises in a stretch.
func (p *onePath) next(row, i int, u *uniforms) int {
	alive, end := p.alive[row], int(p.end[row][i])
	level := alive[i] + math.Log(u.Float64())
	if math.IsInf(p.Turn(row, end-1).Out, -1) || p.quiet[row][end] < level {
		return lastAlive(i, end, func(k int) bool { return k < end && alive[k] >= level })
	}
	return end
}

// lastAlive returns the last step from i to end at which alive holds, by bisection. It holds at i,
// and at no step after one at which it does not.
func lastAlive(i, end int, alive func(step int) bool) int {
	if alive(end) {
		return end
	}
	lo, hi := i, end // alive at lo
	for hi-lo > 1 {
		if mid := int(uint(lo+hi) >> 1); alive(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}
