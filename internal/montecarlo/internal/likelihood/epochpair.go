package likelihood

import (
	"math"

	"minsep/internal/montecarlo/internal/law"
)

// EpochPair is the likelihood ratio of an owner of two examples, each in a process of epoch min-sep
// of its own, for at most MinSep bands (F4.7), exact. It is F_i with both free at step i and not
// yet taken in the epoch. It is H_{i,t} with one free and the other having taken part t < b steps
// ago, and W_i with the other waiting for the next epoch:
//
//	F_i = (1-η)² F_{i+1} + 2η(1-η) L_i H_{i+1,1} + η² L_i² e^{-s_i} F_{next(i)},   s_i = ‖c_i‖²/σ²,
//	H_{i,t} = (1-η) H_{i+1,t+1} + η L_i e^{-⟨c_{i-t},c_i⟩/σ²} Z,   W_i = (1-η) W_{i+1} + η L_i Z,
//
// Z being the value where the first of the two is free again. H_{i,b} is F_i if an epoch began
// since the participation, else W_i; W is F at the first step of an epoch. The history of a
// participation at step s is H_{s+t,t} for t = b … 1, a line.
type EpochPair struct {
	Steps, MinSep, Epoch int

	law law.Epochs
	crossed

	lines [][]float64 // of step s at s mod b, b+1 entries
	free  float64     // F_{i+1}
	waits float64     // W_{i+1}
	after float64     // F at the first step of the next epoch
}

// NewEpochPair prepares the ratio for epochs of epoch steps; factor is 1/σ².
func NewEpochPair(minSep, epoch int, c *Columns, factor float64) *EpochPair {
	return &EpochPair{Steps: c.Steps, MinSep: minSep, Epoch: epoch, law: law.NewEpochs(c.Steps, minSep, epoch), crossed: newCrossed(c, minSep, factor)}
}

// Hazard is η of a step.
func (p *EpochPair) Hazard(i int) float64 { return p.law.Hazard(0, i) }

// LogWaits returns the log probabilities of the waits 0 … b-1 before the first step at which an
// example is free.
func (p *EpochPair) LogWaits() []float64 { return logWaits(p.law) }

// Fork shares the tables.
func (p *EpochPair) Fork() Ratio {
	fork := *p
	fork.lines = nil
	return &fork
}

func (p *EpochPair) Reset() {
	if p.lines == nil {
		p.lines = make([][]float64, p.MinSep)
		for s := range p.lines {
			p.lines[s] = make([]float64, p.MinSep+1)
		}
	}
	for _, line := range p.lines {
		clear(line)
	}
	p.free, p.waits, p.after = 0, 0, 0
}

// Both returns the entry of the line of step i with the value where both examples are busy. One
// took part at a place, and the other t steps before, where t = 0 is the same step. Entry 0 stands
// for the first step of the next epoch. For t = 0 the entry is b where b steps later is after that
// first step.
func (p *EpochPair) Both(place, t int) int {
	switch left := p.Epoch - place; { // steps to the next epoch
	case t > place: // the other one took part in the epoch before
		return p.MinSep - t
	case p.MinSep-t > left:
		return p.MinSep - t
	case p.MinSep > left:
		return left
	}
	return 0
}

func (p *EpochPair) Step(i int, u float64) {
	b, place := p.MinSep, i%p.Epoch
	if place == p.Epoch-1 {
		p.after, p.waits = p.free, p.free
	}
	take, stay := math.Log(p.Hazard(i)), math.Log1p(-p.Hazard(i))
	line := p.lines[i%b]
	ahead := func(t int) float64 {
		if k := p.Both(place, t); k > 0 {
			return line[k]
		}
		return p.after
	}
	one := take + u - p.norms[i]/2
	free := LogSum(2*stay+p.free, math.Ln2+stay+one+line[1])
	free = LogSum(free, 2*take+2*u-2*p.norms[i]+ahead(0))
	if place >= b {
		p.waits = LogSum(stay+p.waits, one+ahead(b))
	}
	for t := 1; t < b; t++ {
		other := p.lines[((i-t)%b+b)%b]
		other[t] = LogSum(stay+other[t+1], one-p.cross.At(i, t)+ahead(t))
	}
	line[b] = free
	if place >= b {
		line[b] = p.waits
	}
	p.free = free
}

func (p *EpochPair) LogRatio() float64 {
	total, waits := math.Inf(-1), p.LogWaits()
	for r, first := range waits {
		for d := 0; r+d < len(waits); d++ {
			weight, t := first+waits[r+d], p.MinSep-d
			if d > 0 {
				weight += math.Ln2
			}
			total = LogSum(total, weight+p.lines[((r-t)%p.MinSep+p.MinSep)%p.MinSep][t])
		}
	}
	return total
}
