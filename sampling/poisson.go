package sampling

import (
	"minsep/internal/param"
)

// Poisson is Poisson subsampling: at each step each example takes part with probability Prob.
//
// # Formal guarantees
//
// All participations are independent Bernoulli(Prob) draws. It is [BMinSep] with MinSep 1.
type Poisson struct {
	Prob  float64 `json:"prob"`  // probability of an example at a step, 2^-53 to 1
	Steps int     `json:"steps"` // 1 to MaxSteps
}

var poissonKind = Kind{
	Name: "poisson",
	Help: "each example at each step with the same probability",
	check: func(p Params, c *param.Checker) {
		c.Require(
			p.MinSep <= 1,
			"min-sep",
			p.MinSep,
			"must be left out for poisson: its participations have no least distance; for one, the scheme is b-min-sep",
		)
		p.checkRate(c)
	},
	spec: func(p Params, of Population) (Spec, error) {
		s, err := Poisson{Prob: p.Prob, Steps: p.Steps}, error(nil)
		if p.Prob == 0 {
			s, err = s.WithBatchSize(p.BatchSize, of.Examples)
		}
		return Spec{Poisson: &s}, err
	},
	scheme: func(s Spec) Scheme { return orNil(s.Poisson) },
}

func (s Poisson) asBMinSep() BMinSep { return BMinSep{Prob: s.Prob, Steps: s.Steps, MinSep: 1} }

// Name returns "poisson".
func (Poisson) Name() string { return "poisson" }

// NumSteps returns Steps.
func (s Poisson) NumSteps() int { return s.Steps }

// Separation returns 1: nothing is guaranteed.
func (Poisson) Separation() int { return 1 }

// Validate returns every fault of the parameters, joined.
func (s Poisson) Validate() error { return s.asBMinSep().Validate() }

// Process implements [Independent].
func (s Poisson) Process() Process { return s.asBMinSep().Process() }

// ExpectedBatchSize is examples times Prob.
func (s Poisson) ExpectedBatchSize(examples int64) float64 { return float64(examples) * s.Prob }

// WithBatchSize returns the scheme with Prob = batch/examples. The error may be an
// [InfeasibleError].
func (s Poisson) WithBatchSize(batch float64, examples int64) (Poisson, error) {
	b, err := s.asBMinSep().WithBatchSize(batch, examples)
	s.Prob = b.Prob
	return s, err
}

// BallsInBins gives each example a uniform step of the first Period steps, and repeats that step
// with the period.
//
// # Formal guarantees
//
// Two participations of one copy of an example are exactly Period steps apart. The first steps are
// independent, uniform to 2^-64, and secret. Every step has participation rate exactly 1/Period.
type BallsInBins struct {
	Steps  int `json:"steps"`  // 1 to MaxSteps
	Period int `json:"period"` // T, the epoch in steps, 1 to MaxSteps
}

var ballsInBinsKind = Kind{
	Name: "balls-in-bins",
	Help: "each example once in every epoch of B steps, at the same place of every epoch",
	check: func(p Params, c *param.Checker) {
		const rule = "must be left out for balls-in-bins: the epoch (min-sep) gives examples / min-sep"
		c.AtLeast("min-sep", p.MinSep, 1)
		c.Require(p.BatchSize == 0, "batch size", p.BatchSize, rule)
		c.Require(p.Prob == 0, "prob", p.Prob, rule)
	},
	spec: func(p Params, _ Population) (Spec, error) {
		return Spec{BallsInBins: &BallsInBins{Steps: p.Steps, Period: p.MinSep}}, nil
	},
	scheme: func(s Spec) Scheme { return orNil(s.BallsInBins) },
}

func (s BallsInBins) asBMinSep() BMinSep {
	return BMinSep{Prob: 1, Steps: s.Steps, MinSep: s.Period, WarmStart: true}
}

// Name returns "balls-in-bins".
func (BallsInBins) Name() string { return "balls-in-bins" }

// NumSteps returns Steps.
func (s BallsInBins) NumSteps() int { return s.Steps }

// Separation returns Period.
func (s BallsInBins) Separation() int { return s.Period }

// Validate returns every fault of the parameters, joined.
func (s BallsInBins) Validate() error {
	c := param.Checker{}
	c.Requiref(s.Steps >= 1 && s.Steps <= MaxSteps, "steps", s.Steps, "must be from 1 to %d", MaxSteps)
	c.Requiref(
		s.Period >= 1 && s.Period <= MaxSteps,
		"period",
		s.Period,
		"must be from 1 to %d", MaxSteps,
	)
	return c.Err()
}

// Process implements [Independent].
func (s BallsInBins) Process() Process { return s.asBMinSep().Process() }

// ExpectedBatchSize is examples / Period; no other parameter changes it.
func (s BallsInBins) ExpectedBatchSize(examples int64) float64 {
	return float64(examples) / float64(s.Period)
}
