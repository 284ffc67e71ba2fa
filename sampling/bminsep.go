package sampling

import (
	"fmt"

	"minsep/internal/param"
)

// BMinSep is b-min-sep subsampling of each example on its own: at each step an example that did not
// take part in the last MinSep-1 steps takes part with probability Prob, independently of all else
// (arXiv 2602.09338, Algorithms 1 and 2; F3).
//
// # Formal guarantees
//
// Two participations of one copy of an example are at least MinSep steps apart. Copies and examples
// are independent of each other, so an owner of several examples may take part more often; the
// accounting includes this (F4.2). With WarmStart every step has the participation rate p0 =
// 1/(MinSep-1+1/Prob). Without it every example is available at the first step, with a rate of
// Prob, and the rate approaches p0 over the next steps. MinSep 1 is [Poisson]; Prob 1 with
// WarmStart is [BallsInBins]. Under zero-out adjacency of one example (one copy) the participation
// vector follows this distribution whatever the others do, as F3.2 (arXiv 2602.09338, Theorem 5.1)
// needs.
type BMinSep struct {
	Prob      float64 `json:"prob"`       // probability of an available example at a step, 2^-53 to 1
	Steps     int     `json:"steps"`      // 1 to MaxSteps
	MinSep    int     `json:"min_sep"`    // least distance in steps of two participations, 1 to MaxSteps
	WarmStart bool    `json:"warm_start"` // every step has the same rate; otherwise all examples are available at the first step
}

var bMinSepKind = Kind{
	Name: "b-min-sep",
	Help: `each example by itself at random, at least B steps apart; every step has the same
rate, unless --cold begins with all examples available`,
	Takes: []string{"cold"},
	check: Params.checkSeparated,
	spec: func(p Params, of Population) (Spec, error) {
		s, err := BMinSep{Prob: p.Prob, Steps: p.Steps, MinSep: p.MinSep, WarmStart: !p.Cold}, error(nil)
		if p.Prob == 0 {
			s, err = s.WithBatchSize(p.BatchSize, of.Examples)
		}
		return Spec{BMinSep: &s}, err
	},
	scheme: func(s Spec) Scheme { return orNil(s.BMinSep) },
}

// Name returns "b-min-sep".
func (BMinSep) Name() string { return "b-min-sep" }

// NumSteps returns Steps.
func (s BMinSep) NumSteps() int { return s.Steps }

// Separation returns MinSep.
func (s BMinSep) Separation() int { return s.MinSep }

// Validate returns every fault of the parameters, joined.
func (s BMinSep) Validate() error {
	c := param.Checker{}
	checkProb(&c, s.Prob)
	checkSteps(&c, s.Steps, s.MinSep)
	return c.Err()
}

func checkProb(c *param.Checker, p float64) {
	c.Require(p >= leastProb && p <= 1, "prob", p, "must be from 2^-53 to 1")
}

// Process implements [Independent].
func (s BMinSep) Process() Process {
	r := &renewal{gap: geometric(s.Prob, s.Steps), lead: s.MinSep, stride: 1, steps: s.Steps}
	r.first = r.gap
	if s.WarmStart {
		r.first = stationary(s.Prob, s.MinSep, s.Steps)
	}
	return r
}

// Rate is the stationary participation rate p0 of one example, per step (F3.1).
func (s BMinSep) Rate() float64 { return s.Prob / (1 + float64(float64(s.MinSep-1)*s.Prob)) }

// ExpectedBatchSize is examples times [BMinSep.Rate]; a cold start reaches it after the first
// steps.
func (s BMinSep) ExpectedBatchSize(examples int64) float64 { return float64(examples) * s.Rate() }

// WithBatchSize returns the scheme with the probability that gives the expected batch size in the
// stationary state: p = p0/(1-p0(b-1)), p0 = batch/examples (F3.1). A batch size with p0·MinSep > 1
// is an [InfeasibleError].
func (s BMinSep) WithBatchSize(batch float64, examples int64) (BMinSep, error) {
	if err := checkBatch(batch, examples); err != nil {
		return s, err
	}
	d, b := float64(examples), float64(s.MinSep)
	if float64(batch*b) > d {
		return s, infeasible(batch, d/b, fmt.Sprintf("examples / min-sep = %d / %d", examples, s.MinSep))
	}
	s.Prob = min(1, batch/(d-float64(batch*(b-1))))
	return s, s.Validate()
}
