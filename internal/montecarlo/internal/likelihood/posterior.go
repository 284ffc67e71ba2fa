package likelihood

import (
	"math"

	"minsep/internal/montecarlo/internal/law"
)

// Posterior is the distribution of one example's participations given an output.
type Posterior interface {
	// Given takes u_i = ⟨c_i, y⟩/σ², sets participates to the probability that each step has a
	// participation, and returns ln f(y).
	Given(u, participates []float64) (logF float64)
	// Fork has buffers of its own.
	Fork() Posterior
}

// OwnerUpper is an upper bound of P/Q for an owner of k independent examples of one distribution
// (F4.3), for direction P only: the overlaps between them are dropped.
type OwnerUpper struct {
	One      Ratio
	Examples int
}

func (o *OwnerUpper) Reset()                { o.One.Reset() }
func (o *OwnerUpper) Step(i int, u float64) { o.One.Step(i, u) }
func (o *OwnerUpper) LogRatio() float64     { return float64(o.Examples) * o.One.LogRatio() }
func (o *OwnerUpper) Fork() Ratio           { return &OwnerUpper{o.One.Fork(), o.Examples} }

// OwnerLower is a lower bound of P/Q for an owner of k independent examples of one distribution
// (F4.6), for direction Q only:
//
//	ln f_k ≥ k ln f - k(k-1)/2 · ‖E[Cx | y]‖²/σ².
type OwnerLower struct {
	posterior       Posterior
	examples        int
	norms           []float64
	cross           *Cross
	u, participates []float64
}

// NewOwnerLower is for any columns; factor is 1/σ².
func NewOwnerLower(p Posterior, examples int, c *Columns, factor float64) *OwnerLower {
	o := &OwnerLower{posterior: p, examples: examples, norms: c.SquaredNorms(factor), cross: NewCross(c, c.Bands, factor)}
	return o.Fork().(*OwnerLower)
}

// Fork shares the tables.
func (o *OwnerLower) Fork() Ratio {
	fork := *o
	fork.posterior = o.posterior.Fork()
	fork.u, fork.participates = make([]float64, len(o.norms)), make([]float64, len(o.norms))
	return &fork
}

func (o *OwnerLower) Reset() {}

func (o *OwnerLower) Step(i int, u float64) { o.u[i] = u }

func (o *OwnerLower) LogRatio() float64 {
	k, square := float64(o.examples), 0.0
	logF := o.posterior.Given(o.u, o.participates)
	for i, p := range o.participates {
		sum := p * o.norms[i]
		row := o.cross.Row(i)
		for t := 1; t < min(len(row), i+1); t++ {
			sum += 2 * o.participates[i-t] * row[t]
		}
		square += p * sum
	}
	return k*logF - k*(k-1)/2*square
}

// ChainPosterior is the posterior of one example of any law (F5.8), by a pass backward and one
// forward.
type ChainPosterior struct {
	*law.Chain
	Backward
	forward []float64 // Pr[free before step i | y], as logF
}

// NewChainPosterior is for a law and ‖c_i‖²/σ² of every step of a run.
func NewChainPosterior(l law.Law, norms []float64) *ChainPosterior {
	b := NewBackward(law.NewChain(l, len(norms)), norms)
	return &ChainPosterior{b.chain, b, make([]float64, len(b.logF))}
}

// Fork has buffers of its own.
func (p *ChainPosterior) Fork() Posterior {
	return &ChainPosterior{p.Chain, p.Backward.Fork(), make([]float64, len(p.logF))}
}

func (p *ChainPosterior) Given(u, participates []float64) float64 {
	p.Pass(func(i int) float64 { return u[i] })
	total := math.Inf(-1)
	for _, s := range p.Starts {
		total = LogSum(total, s.LogProb()+p.After(s.Then, 0))
	}
	clear(p.forward)
	for _, s := range p.Starts {
		at := math.Exp(s.Log + p.After(s.Then, 0) + s.Rest - total)
		if !p.One { // values have the bits of these two forms
			at = s.Prob * math.Exp(p.After(s.Then, 0)-total)
		}
		p.add(s.Then, 0, at)
	}
	size := p.Rows - 1
	for i := range p.Steps {
		f, forward := p.logF[i*size:][:2*size], p.forward[i*size:][:2*size] // of this step and the next
		sum, turns := 0.0, p.Turns(i)
		for row := range turns {
			at := forward[row]
			if at == 0 {
				continue
			}
			turn := &turns[row]
			in := at * math.Exp(turn.In+u[i]-p.norms[i]/2+p.After(turn.Then, i)-f[row])
			out := at - in
			if !p.Alike { // the difference cancels where a free example must take part
				out = at * math.Exp(turn.Out+f[size+row]-f[row])
			}
			sum += in
			forward[size+row] += out
			p.add(turn.Then, i, in)
		}
		participates[i] = sum
	}
	return total
}

// add adds to forward where an example is free again after a turn.
func (p *ChainPosterior) add(t law.Then, turn int, prob float64) {
	if t.Row > 0 {
		p.forward[p.At(t, turn)*(p.Rows-1)+int(t.Row)-1] += prob
	}
}

// Backward holds ln F of [Chain] for all steps.
type Backward struct {
	chain *law.Chain
	norms []float64
	logF  []float64 // of rows 1, 2, … before each step; 0 at the end of the run
}

// NewBackward takes ‖c_i‖²/σ².
func NewBackward(c *law.Chain, norms []float64) Backward {
	return Backward{c, norms, make([]float64, (c.Steps+1)*(c.Rows-1))}
}

// Fork has rows of its own.
func (b *Backward) Fork() Backward { return NewBackward(b.chain, b.norms) }

// Pass computes ln F for u(i) = ⟨c_i, y⟩/σ².
func (b *Backward) Pass(u func(i int) float64) {
	size := b.chain.Rows - 1
	for i := b.chain.Steps - 1; i >= 0; i-- {
		u, half, f := u(i), b.norms[i]/2, b.logF[i*size:][:2*size]
		turns := b.chain.Turns(i)
		for row := range turns {
			turn := &turns[row]
			f[row] = LogSum(turn.Out+f[size+row], turn.In+u-half+b.After(turn.Then, i))
		}
	}
}

// LogF is ln F of a row, above 0, before a step.
func (b *Backward) LogF(row, step int) float64 { return b.logF[step*(b.chain.Rows-1)+row-1] }

// After is ln F where an example is free again after a turn.
func (b *Backward) After(t law.Then, turn int) float64 {
	if t.Row == 0 {
		return 0
	}
	return b.LogF(int(t.Row), b.chain.At(t, turn))
}
