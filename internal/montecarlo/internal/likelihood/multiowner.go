package likelihood

import (
	"math"

	"gonum.org/v1/gonum/floats"

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
	o.Points.Step(i, floats.LogSumExp(o.terms)-o.some+o.norms[i]/2)
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
