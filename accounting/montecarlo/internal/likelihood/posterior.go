package likelihood

import (
	"math"

	"minsep/sampling/balanced"
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

// EpochPosterior is the posterior of epoch min-sep (F5.8).
type EpochPosterior struct {
	Epochs
	norms   []float64 // ‖c_i‖²/σ²
	logF    []float64 // ln f_i, and 0 beyond the last step
	forward []float64 // Pr[free and not yet in before step i | y]
}

// NewEpochPosterior takes ‖c_i‖²/σ².
func NewEpochPosterior(e Epochs, norms []float64) *EpochPosterior {
	return &EpochPosterior{Epochs: e, norms: norms, logF: make([]float64, e.Steps+1), forward: make([]float64, max(e.Steps, e.MinSep)+1)}
}

// Fork has buffers of its own.
func (p *EpochPosterior) Fork() Posterior { return NewEpochPosterior(p.Epochs, p.norms) }

func (p *EpochPosterior) Given(u, participates []float64) float64 {
	n := p.Steps
	join := func(i int) float64 {
		return math.Log(p.Hazard(i)) + u[i] - p.norms[i]/2 + p.logF[min(n, p.Next(i))]
	}
	for i := n - 1; i >= 0; i-- {
		p.logF[i] = LogSum(math.Log1p(-p.Hazard(i))+p.logF[i+1], join(i))
	}
	total := math.Inf(-1)
	waits := p.LogWaits()
	for r, wait := range waits {
		total = LogSum(total, wait+p.logF[min(r, n)])
	}
	clear(p.forward)
	for r, wait := range waits {
		p.forward[r] = math.Exp(wait + p.logF[min(r, n)] - total)
	}
	for i := range n {
		participates[i] = p.forward[i] * math.Exp(join(i)-p.logF[i])
		// Not the difference, which cancels where an epoch ends.
		p.forward[i+1] += p.forward[i] * math.Exp(math.Log1p(-p.Hazard(i))+p.logF[i+1]-p.logF[i])
		if next := p.Next(i); next < n {
			p.forward[next] += participates[i]
		}
	}
	return total
}

// ClassPosterior is the posterior of balanced min-sep (F5.8).
type ClassPosterior struct {
	*balanced.Distribution
	norms         []float64   // ‖c_i‖²/σ²
	logIn, logOut [][]float64 // ln η_i^j and ln (1 - η_i^j)
	logF          [][]float64 // ln F_i^j; 0 beyond the last step
	forward       [][]float64 // Pr[free before step i with j left | y]
}

// NewClassPosterior takes ‖c_i‖²/σ².
func NewClassPosterior(l *balanced.Distribution, norms []float64) *ClassPosterior {
	p := &ClassPosterior{Distribution: l, norms: norms, logIn: make([][]float64, l.Steps), logOut: make([][]float64, l.Steps)}
	for i := range p.logIn {
		p.logIn[i], p.logOut[i] = make([]float64, l.Most+1), make([]float64, l.Most+1)
		for j := 1; j <= l.Most; j++ {
			p.logIn[i][j], p.logOut[i][j] = math.Log(l.Hazard(j, i)), math.Log1p(-l.Hazard(j, i))
		}
	}
	return p.Fork().(*ClassPosterior)
}

// Fork has buffers of its own.
func (p *ClassPosterior) Fork() Posterior {
	fork := *p
	fork.logF, fork.forward = nil, nil
	for range p.Steps + 1 {
		fork.logF, fork.forward = append(fork.logF, make([]float64, p.Most+1)), append(fork.forward, make([]float64, p.Most+1))
	}
	return &fork
}

func (p *ClassPosterior) Given(u, participates []float64) float64 {
	n := p.Steps
	join := func(i, j int) float64 {
		return p.logIn[i][j] + u[i] - p.norms[i]/2 + p.logF[min(n, i+p.MinSep)][j-1]
	}
	for i := n - 1; i >= 0; i-- {
		for j := 1; j <= p.Most; j++ {
			p.logF[i][j] = LogSum(p.logOut[i][j]+p.logF[i+1][j], join(i, j))
		}
	}
	most, less := p.Starts()
	total := LogSum(math.Log(most)+p.logF[0][p.Most], math.Log(less)+p.logF[0][p.Most-1])
	for i := range p.forward {
		clear(p.forward[i])
	}
	p.forward[0][p.Most] = most * math.Exp(p.logF[0][p.Most]-total)
	p.forward[0][p.Most-1] = less * math.Exp(p.logF[0][p.Most-1]-total)
	for i := range n {
		participates[i] = 0
		for j := 1; j <= p.Most; j++ {
			at := p.forward[i][j]
			if at == 0 {
				continue
			}
			in := at * math.Exp(join(i, j)-p.logF[i][j])
			participates[i] += in
			// Not the difference, which cancels where the last steps are.
			p.forward[i+1][j] += at * math.Exp(p.logOut[i][j]+p.logF[i+1][j]-p.logF[i][j])
			p.forward[min(n, i+p.MinSep)][j-1] += in
		}
	}
	return total
}
