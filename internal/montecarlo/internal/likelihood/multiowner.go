package likelihood

import (
	"math"

	"minsep/sampling"
)

// PublishedOwner is the published likelihood ratio of Algorithm 3 with a number of examples per
// owner, from a cold start (F4.1; arXiv 2602.09338, Theorem 6.1). It is not proven: see the package
// that serves it. It is that of b-min-sep sampling of the owner, with the weights of 1, 2, …
// participants in place of one.
type PublishedOwner struct {
	*Points
	norms []float64 // ‖c_i‖²/σ²
	log   []float64 // ln Pr[Binom(k, p) = m]
	some  float64   // ln Pr[Binom(k, p) ≥ 1]
	terms []float64
}

// NewPublishedOwner takes 1/σ².
func NewPublishedOwner(s sampling.MultiOwner, c *Columns, examples int, factor float64) (*PublishedOwner, error) {
	some := -math.Expm1(float64(examples) * math.Log1p(-s.Prob))
	table, err := sampling.BMinSep{Prob: some, Steps: s.Steps, MinSep: s.MinSep}.Law().Tabulate(s.Steps)
	if err != nil {
		return nil, err
	}
	points, err := NewPoints(table, c, factor)
	if err != nil {
		return nil, err
	}
	return &PublishedOwner{
		points,
		c.SquaredNorms(factor),
		logBinomials(examples, s.Prob),
		math.Log(some),
		make([]float64, examples),
	}, nil
}

// Fork shares the tables.
func (o *PublishedOwner) Fork() Ratio {
	fork := *o
	fork.Points, fork.terms = o.Points.Fork().(*Points), make([]float64, len(o.terms))
	return &fork
}

// Step implements [Ratio].
func (o *PublishedOwner) Step(i int, u float64) {
	participants(o.terms, o.log, u, o.norms[i])
	o.Points.Step(i, logSum(o.terms)-o.some+o.norms[i]/2)
}

// participants sets terms to the logarithms of the weights of 1, 2, … participants.
func participants(terms, logs []float64, u, norm float64) {
	for j := range terms {
		m := float64(j + 1)
		terms[j] = logs[j+1] + m*u - m*m*norm/2
	}
}

// logBinomials are ln Pr[Binom(n, p) = k] for k = 0 … n.
func logBinomials(n int, p float64) (logs []float64) {
	choose := 0.0
	for k := range n + 1 {
		if k > 0 {
			choose += math.Log(float64(n-k+1)) - math.Log(float64(k))
		}
		logs = append(logs, choose+timesLog(k, math.Log(p))+timesLog(n-k, math.Log1p(-p)))
	}
	return logs
}

// timesLog returns k·x with 0·(-∞) = 0.
func timesLog(k int, x float64) float64 {
	if k == 0 {
		return 0
	}
	return float64(k) * x
}

// SampledOwner is the likelihood ratio of Algorithm 3 on the examples of one owner alone
// (F4.4): in every step Binom(k, p) of them are sampled, and they participate unless one was
// sampled in the b-1 steps before. The coins begin b-1 steps before the first step. It is not proven
// to bound the privacy of the whole mechanism: see the package that serves it.
type SampledOwner struct {
	minSep int
	norms  []float64 // ‖c_i‖²/σ²
	log    []float64 // ln Pr[Binom(k, p) = j]
	ring   []float64
	next   float64
	terms  []float64
}

// NewSampledOwner takes 1/σ².
func NewSampledOwner(s sampling.MultiOwner, c *Columns, examples int, factor float64) *SampledOwner {
	o := &SampledOwner{minSep: s.MinSep, norms: c.SquaredNorms(factor), log: logBinomials(examples, s.Prob)}
	return o.Fork().(*SampledOwner)
}

// Fork shares the tables.
func (o *SampledOwner) Fork() Ratio {
	fork := *o
	fork.ring, fork.terms = make([]float64, o.minSep), make([]float64, len(o.log)-1)
	return &fork
}

// Reset implements [Ratio].
func (o *SampledOwner) Reset() {
	clear(o.ring)
	o.next = 0
}

// Step: F_i = F_{i+1} + q^{b-1} F_{i+b} (A_i - (1-q)).
func (o *SampledOwner) Step(i int, u float64) {
	participants(o.terms, o.log, u, o.norms[i])
	logA := logSum(o.terms)
	slot := &o.ring[i%o.minSep]
	weight := timesLog(o.minSep-1, o.log[0]) + *slot - o.next
	logSampled := log1mexp(o.log[0])
	switch {
	case math.IsInf(weight, -1):
	case logA >= logSampled:
		o.next += LogSum(0, weight+logA+log1mexp(logSampled-logA))
	default:
		o.next += math.Log1p(-math.Exp(weight + logSampled + log1mexp(logA-logSampled)))
	}
	*slot = o.next
}

// LogRatio implements [Ratio].
func (o *SampledOwner) LogRatio() float64 { return o.next }

// log1mexp returns ln(1 - e^x) for x < 0.
func log1mexp(x float64) float64 {
	if x > -math.Ln2 {
		return math.Log(-math.Expm1(x))
	}
	return math.Log1p(-math.Exp(x))
}
