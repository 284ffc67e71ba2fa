package pipelines

import (
	"fmt"
	"slices"
	"strings"

	"minsep/internal/param"
	"minsep/sampling"
)

// Schemes are the names of the schemes, as commands and plans take them.
var Schemes = []string{"b-min-sep", "poisson", "balls-in-bins", "cyclic-poisson", "multi-owner", "fixed"}

// SchemeParams are a scheme's parameters as a user gives them: a batch size or a probability, whichever
// is known. Zero values stand for what is not given.
type SchemeParams struct {
	Scheme            string  `json:"scheme"`
	Steps             int     `json:"steps"`
	MinSep            int     `json:"min_sep,omitempty"`            // b; the epoch T of balls-in-bins; not for poisson
	BatchSize         float64 `json:"batch_size,omitempty"`         // expected; exact for fixed
	Prob              float64 `json:"prob,omitempty"`               // instead of BatchSize
	Cold              bool    `json:"cold,omitempty"`               // b-min-sep: Algorithm 1 of arXiv 2602.09338 instead of 2
	SecretPartition   bool    `json:"secret_partition,omitempty"`   // cyclic-poisson: draw the parts
	MaxBatchSize      int     `json:"max_batch_size,omitempty"`     // truncate
	Pad               bool    `json:"pad,omitempty"`                // fill batches up to MaxBatchSize
	MaxParticipations int     `json:"max_participations,omitempty"` // fixed
}

// Population is what a scheme needs to know of the examples to turn a batch size into a probability.
type Population struct {
	Examples      int64                  // copies count
	Neighborhoods sampling.Neighborhoods // of the copies; only multi-owner looks at it
}

// Validate reports every fault that can be seen without the examples.
func (s SchemeParams) Validate() error {
	c := param.Checker{Package: "pipelines"}
	known := slices.Contains(Schemes, s.Scheme)
	c.Require(known, "scheme", fmt.Sprintf("%q", s.Scheme), "must be one of "+strings.Join(Schemes, ", "))
	c.AtLeast("steps", s.Steps, 1)
	if s.Scheme == "poisson" {
		c.Require(s.MinSep <= 1, "min-sep", s.MinSep, "must be left out for poisson, whose participations have no least distance; for one, the scheme is b-min-sep")
	} else if known {
		c.AtLeast("min-sep", s.MinSep, 1)
	}
	switch s.Scheme {
	case "balls-in-bins":
		c.Require(s.BatchSize == 0, "batch size", s.BatchSize, "must be left out for balls-in-bins: the epoch (min-sep) gives examples / min-sep")
		c.Require(s.Prob == 0, "prob", s.Prob, "must be left out for balls-in-bins: the epoch (min-sep) gives examples / min-sep")
	case "fixed":
		c.Require(s.Prob == 0, "prob", s.Prob, "must be left out for fixed")
		c.Require(s.BatchSize >= 1 && s.BatchSize == float64(int(s.BatchSize)), "batch size", s.BatchSize, "must be a whole number of at least 1 for fixed")
	default:
		given := 0
		if s.Prob != 0 {
			given++
			c.Probability("prob", s.Prob)
		}
		if s.BatchSize != 0 {
			given++
			c.Positive("batch size", s.BatchSize)
		}
		c.Require(given < 2, "batch size and prob", nil, "only one of them may be given")
		c.Require(given > 0, "batch size and prob", nil, "one of them must be given")
	}
	c.Require(!s.Cold || s.Scheme == "b-min-sep", "cold", s.Cold, "is for b-min-sep only")
	c.Require(!s.SecretPartition || s.Scheme == "cyclic-poisson", "secret partition", s.SecretPartition, "is for cyclic-poisson only")
	c.Require(s.MaxParticipations == 0 || s.Scheme == "fixed", "max participations", s.MaxParticipations, "is for fixed only")
	c.Require(s.MaxParticipations >= 0, "max participations", s.MaxParticipations, "must be at least 1")
	c.Require(s.MaxBatchSize >= 0, "max batch size", s.MaxBatchSize, "must be at least 1")
	c.Require(s.MaxBatchSize == 0 || s.Scheme != "fixed", "max batch size", s.MaxBatchSize, "is not for fixed, whose batches have one size")
	c.Require(!s.Pad || s.MaxBatchSize > 0, "pad", s.Pad, "needs a max batch size to pad to")
	return c.Err()
}

// Spec solves for the probability and returns the scheme that is run. A batch size that the examples cannot give is a
// [sampling.InfeasibleError].
func (s SchemeParams) Spec(of Population) (sampling.Spec, error) {
	var spec sampling.Spec
	if err := s.Validate(); err != nil {
		return spec, err
	}
	var err error
	switch s.Scheme {
	case "b-min-sep":
		v := sampling.BMinSep{Prob: s.Prob, Steps: s.Steps, MinSep: s.MinSep, WarmStart: !s.Cold}
		if s.Prob == 0 {
			v, err = v.WithBatchSize(s.BatchSize, of.Examples)
		}
		spec.BMinSep = &v
	case "poisson":
		v := sampling.Poisson{Prob: s.Prob, Steps: s.Steps}
		if s.Prob == 0 {
			v, err = v.WithBatchSize(s.BatchSize, of.Examples)
		}
		spec.Poisson = &v
	case "balls-in-bins":
		spec.BallsInBins = &sampling.BallsInBins{Steps: s.Steps, Period: s.MinSep}
	case "cyclic-poisson":
		v := sampling.CyclicPoisson{Prob: s.Prob, Steps: s.Steps, MinSep: s.MinSep, SecretPartition: s.SecretPartition}
		if s.Prob == 0 {
			v, err = v.WithBatchSize(s.BatchSize, of.Examples)
		}
		spec.CyclicPoisson = &v
	case "multi-owner":
		v := sampling.MultiOwner{Prob: s.Prob, Steps: s.Steps, MinSep: s.MinSep}
		if s.Prob == 0 {
			v, err = v.WithBatchSize(s.BatchSize, of.Neighborhoods)
		}
		spec.MultiOwner = &v
	case "fixed":
		spec.Fixed = &sampling.Fixed{BatchSize: int(s.BatchSize), Steps: s.Steps, MinSep: s.MinSep, MaxParticipations: s.MaxParticipations}
	}
	if err != nil {
		return sampling.Spec{}, err
	}
	if s.MaxBatchSize > 0 {
		spec.Truncation = &sampling.Truncation{MaxBatchSize: s.MaxBatchSize, Pad: s.Pad}
	}
	return spec, spec.Validate()
}
