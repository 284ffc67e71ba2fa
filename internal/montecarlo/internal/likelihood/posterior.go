package likelihood

import "math"

// Posterior is the distribution of the participations of one example given an output (F5.8), by a
// pass backward over the turns of a table and one forward. It is not safe for concurrent use.
type Posterior struct {
	*Points
	reached []float64 // Pr[the example comes to a turn | y], and to the end
}

// NewPosterior takes over the ratio.
func NewPosterior(p *Points) *Posterior { return &Posterior{p, make([]float64, len(p.Turns)+1)} }

// LogNever is the logarithm of the probability that an example takes part at no step, rounded
// downward: the probability is a sum of products of at most one factor a step.
func (p *Posterior) LogNever() float64 {
	return math.Log(p.Never) - 1e-12 - float64(p.Steps)*0x1p-50
}

// Given takes u_i = ⟨c_i, y⟩/σ², sets participates to the probability that each step has a
// participation, and returns ln f(y).
func (p *Posterior) Given(u, participates []float64) (logF float64) {
	p.Reset()
	for i := p.Steps - 1; i >= 0; i-- {
		p.Step(i, u[i])
	}
	logF = p.LogRatio()
	clear(p.reached)
	for k, at := range p.Starts {
		p.reached[at] += math.Exp(math.Log(p.Probs[k]) + p.logF[at] - logF)
	}
	clear(participates)
	for k := range p.Turns {
		at := p.reached[k]
		if at == 0 {
			continue
		}
		x := &p.Turns[k]
		in := at * math.Exp(x.Join+u[x.Step]+p.logF[x.In]-p.logF[k])
		out := at - in
		if in > at/2 { // the difference would cancel
			out = at * math.Exp(x.Stay+p.logF[x.Out]-p.logF[k])
		}
		participates[x.Step] += in
		p.reached[x.In] += in
		p.reached[x.Out] += out
	}
	return logF
}
