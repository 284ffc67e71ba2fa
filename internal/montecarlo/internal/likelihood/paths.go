package likelihood

import (
	"math"
	"sort"
)

// Uniforms gives independent numbers in (0, 1).
type Uniforms interface{ Float64() float64 }

// Paths draws the participations of one example given an output. It is not safe for concurrent use.
//
// Turns that follow each other without a participation are one stretch. alive is ln F of a turn and
// the logarithm of the probability of no participation from the beginning of its stretch up to it.
// So a difference of alive is the logarithm of Pr[no participation between two turns | y], and one
// number finds the turn of the next participation, by bisection.
type Paths struct {
	*Points
	turns []int     // of each place: its turn; the place after a stretch has the turn that follows
	place []int     // of each turn
	last  []int     // of each place: the place after its stretch
	quiet []float64 // of each place: ln Pr[no participation] since the beginning of its stretch
	alive []float64 // of each place
	from  []float64 // partial sums of the probabilities of the starts given y
}

// NewPaths takes over the ratio.
func NewPaths(p *Points) *Paths {
	paths := &Paths{Points: p, place: make([]int, len(p.Turns)+1)}
	for k := range paths.place {
		paths.place[k] = -1
	}
	for k := range p.Turns {
		if paths.place[k] < 0 {
			paths.addStretch(k)
		}
	}
	return paths.Fork()
}

// addStretch adds the turns from turn k on that are in no stretch yet.
func (p *Paths) addStretch(k int) {
	begin, quiet := len(p.turns), 0.0
	for k < len(p.Turns) && p.place[k] < 0 && !math.IsInf(quiet, -1) {
		p.place[k] = len(p.turns)
		p.turns, p.quiet = append(p.turns, k), append(p.quiet, quiet)
		quiet += p.Turns[k].Stay
		k = p.Turns[k].Out
	}
	end := len(p.turns)
	p.turns, p.quiet = append(p.turns, k), append(p.quiet, quiet)
	for range end + 1 - begin {
		p.last = append(p.last, end)
	}
}

// Fork has an output of its own.
func (p *Paths) Fork() *Paths {
	fork := *p
	fork.Points = p.Points.Fork().(*Points)
	fork.alive, fork.from = make([]float64, len(p.turns)), make([]float64, len(p.Starts))
	return &fork
}

// Given takes y through u(i) = ⟨c_i, y⟩/σ².
func (p *Paths) Given(u func(i int) float64) {
	p.Reset()
	for i := p.Steps - 1; i >= 0; i-- {
		p.Step(i, u(i))
	}
	for at, k := range p.turns {
		p.alive[at] = p.logF[k] + p.quiet[at]
	}
	logF, sum := p.LogRatio(), 0.0
	for k, at := range p.Starts {
		sum += math.Exp(math.Log(p.Probs[k]) + p.logF[at] - logF)
		p.from[k] = sum
	}
}

// Draw appends the steps of participations.
func (p *Paths) Draw(steps []int, u Uniforms) []int {
	k := p.Starts[0]
	if last := len(p.Starts) - 1; last > 0 {
		level := u.Float64() * p.from[last]
		k = p.Starts[min(last, sort.SearchFloat64s(p.from, level))]
	}
	for k < len(p.Turns) {
		at := p.place[k]
		end := p.last[at]
		if math.IsInf(p.quiet[at+1], -1) { // the example takes part for sure
			end = at
		} else if level := p.alive[at] + math.Log(u.Float64()); p.alive[end] < level {
			// The last place that is alive.
			end = at + sort.Search(end-at, func(n int) bool { return p.alive[at+n+1] < level })
		}
		if k = p.turns[end]; end < p.last[at] {
			steps = append(steps, p.Turns[k].Step)
			k = p.Turns[k].In
		}
	}
	return steps
}
