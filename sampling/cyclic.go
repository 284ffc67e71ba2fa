package sampling

import (
	"fmt"

	"minsep/internal/param"
)

// CyclicPoisson divides the examples into MinSep parts and goes through the parts in turn: at step
// i the examples of part i mod MinSep take part with probability Prob each.
//
// # Formal guarantees
//
// An example takes part only in steps congruent to its part modulo MinSep, hence at least
// MinSep steps apart, and there with independent probability Prob: Poisson subsampling of its
// turns, with either partition (F3.5). The public partition is row mod MinSep; its parts differ
// in size by at most one when MinSep does not divide the examples. The secret partition draws
// each copy's part uniformly (to 2^-64) from its own stream, so that parts have random sizes
// and every step has participation rate exactly Prob/MinSep.
type CyclicPoisson struct {
	Prob            float64 `json:"prob"`             // probability of an example at a step of its part, 2^-53 to 1
	Steps           int     `json:"steps"`            // 1 to MaxSteps
	MinSep          int     `json:"min_sep"`          // number of parts, 1 to MaxSteps
	SecretPartition bool    `json:"secret_partition"` // parts are drawn at random; otherwise the part is the row modulo MinSep
}

var cyclicPoissonKind = Kind{
	Name:  "cyclic-poisson",
	Help:  "B parts of the examples take turns; --secret-partition draws the parts at random",
	Takes: []string{"secret-partition"},
	check: Params.checkSeparated,
	spec: func(p Params, of Population) (Spec, error) {
		s, err := CyclicPoisson{
			Prob:            p.Prob,
			Steps:           p.Steps,
			MinSep:          p.MinSep,
			SecretPartition: p.SecretPartition,
		}, error(
			nil,
		)
		if p.Prob == 0 {
			s, err = s.WithBatchSize(p.BatchSize, of.Examples)
		}
		return Spec{CyclicPoisson: &s}, err
	},
	scheme: func(s Spec) Scheme { return orNil(s.CyclicPoisson) },
}

// Name returns "cyclic-poisson".
func (CyclicPoisson) Name() string { return "cyclic-poisson" }

// NumSteps returns Steps.
func (s CyclicPoisson) NumSteps() int { return s.Steps }

// Separation returns MinSep.
func (s CyclicPoisson) Separation() int { return s.MinSep }

// Validate returns every fault of the parameters, joined.
func (s CyclicPoisson) Validate() error {
	c := param.Checker{}
	checkProb(&c, s.Prob)
	checkSteps(&c, s.Steps, s.MinSep)
	return c.Err()
}

// Process implements [Independent].
func (s CyclicPoisson) Process() Process {
	turns := (s.Steps + s.MinSep - 1) / s.MinSep
	gap := geometric(s.Prob, turns)
	return &renewal{
		first:  gap,
		gap:    gap,
		stride: s.MinSep,
		lead:   1,
		steps:  s.Steps,
		parts:  s.MinSep,
		secret: s.SecretPartition,
	}
}

// ExpectedBatchSize is examples·Prob/MinSep. This is exact for every step of a secret partition.
// Parts of a public one differ from examples/MinSep by less than one example.
func (s CyclicPoisson) ExpectedBatchSize(examples int64) float64 {
	return float64(examples) * s.Prob / float64(s.MinSep)
}

// WithBatchSize returns the scheme with Prob = MinSep·batch/examples. The error may be an
// [InfeasibleError].
func (s CyclicPoisson) WithBatchSize(batch float64, examples int64) (CyclicPoisson, error) {
	if err := checkBatch(batch, examples); err != nil {
		return s, err
	}
	s.Prob = batch * float64(s.MinSep) / float64(examples)
	if s.Prob > 1 {
		return s, infeasible(
			batch,
			float64(examples)/float64(s.MinSep),
			fmt.Sprintf("examples / min-sep = %d / %d", examples, s.MinSep),
		)
	}
	return s, s.Validate()
}

// publicMoments returns mean and variance of the number of participations of all examples under the
// public partition: the rows must be 0 to examples-1, one copy each.
func (s CyclicPoisson) publicMoments(examples int64) (mean, variance float64) {
	b, turns := s.MinSep, 0.0 // of all examples
	for part := range min(b, s.Steps) {
		size := max(0, (examples-int64(part)+int64(b)-1)/int64(b))
		turns += float64(size) * float64((s.Steps-part+b-1)/b)
	}
	return s.Prob * turns, s.Prob * (1 - s.Prob) * turns
}
