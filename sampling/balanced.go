package sampling

import (
	"fmt"
	"math"

	"minsep/internal/param"
	"minsep/sampling/balanced"
	"minsep/sampling/stream"
)

// BalancedMinSep lets each example take part a fixed number of times in the whole run, at least
// MinSep steps apart, with the same rate at every step and otherwise as randomly as can be (F3.9).
// Make one with [NewBalancedMinSep].
//
// # Formal guarantees
//
// Two participations of one copy of an example are at least MinSep steps apart. A copy takes part
// exactly κ = Participations times if κ is whole; otherwise ⌈κ⌉ times with probability κ-⌊κ⌋, and
// ⌊κ⌋ times with the rest. Every step has the rate κ/Steps, to a relative 1e-12. The distribution
// follows the hazards of package balanced to 2^-60; Hazards is their digest. Copies and examples
// are independent of each other.
type BalancedMinSep struct {
	Steps          int     `json:"steps"`          // 1 to MaxSteps
	MinSep         int     `json:"min_sep"`        // least distance in steps of two participations, 1 to MaxSteps
	Participations float64 `json:"participations"` // κ, participations in a run; see [balanced.Check]
	Hazards        string  `json:"hazards"`        // digest of the integers that define the distribution
}

var balancedMinSepKind = Kind{
	Name: "balanced-min-sep",
	Help: `each example exactly K times in the run, at least B steps apart, and at
random otherwise, with the same rate at every step; --participations K, or --batch-size X for
K = X steps / examples`,
	Takes: []string{"participations"},
	check: func(p Params, c *param.Checker) {
		c.AtLeast("min-sep", p.MinSep, 1)
		c.Require(p.Prob == 0, "prob", p.Prob, "must be left out for balanced-min-sep: the batch size is then examples times participations / steps")
		given := (p.BatchSize != 0) != (p.Participations != 0)
		c.Require(given, "batch size and participations", nil, "exactly one of them must be given for balanced-min-sep")
		if p.BatchSize != 0 {
			c.Positive("batch size", p.BatchSize)
		}
		if p.Participations != 0 {
			balanced.Check(c, p.Steps, p.MinSep, p.Participations)
		}
	},
	spec: func(p Params, of Population) (Spec, error) {
		participations, err := p.Participations, error(nil)
		if participations == 0 {
			participations, err = balancedParticipations(p.BatchSize, p.Steps, p.MinSep, of.Examples)
		}
		if err != nil {
			return Spec{}, err
		}
		s, err := NewBalancedMinSep(p.Steps, p.MinSep, participations)
		return Spec{BalancedMinSep: &s}, err
	},
	scheme: func(s Spec) Scheme { return orNil(s.BalancedMinSep) },
}

// balancedParticipations returns κ = batch·steps/examples, rounded to a whole number where only
// rounding separates the two. A κ that is out of range is an [InfeasibleError].
func balancedParticipations(batch float64, steps, minSep int, examples int64) (float64, error) {
	if err := checkBatch(batch, examples); err != nil {
		return 0, err
	}
	n, d := float64(steps), float64(examples)
	participations := batch * n / d
	if whole := math.Round(participations); math.Abs(participations-whole) < 1e-12*participations {
		participations = whole
	}
	if most := max(1, balanced.MaxPacking*n/float64(minSep)); participations > most*(1+1e-12) {
		return 0, infeasible(batch, most*d/n, fmt.Sprintf("%g participations an example, for which participations times min-sep, %d, is %g of steps", most, minSep, balanced.MaxPacking))
	}
	return participations, nil
}

// NewBalancedMinSep solves for the distribution and returns the scheme with its digest.
// Participations must be from 1e-6 to Steps, and at most 1 or 0.9·Steps/MinSep.
func NewBalancedMinSep(steps, minSep int, participations float64) (BalancedMinSep, error) {
	s := BalancedMinSep{Steps: steps, MinSep: minSep, Participations: participations}
	if err := s.checkNumbers(); err != nil {
		return s, err
	}
	distribution, err := balanced.New(steps, minSep, participations)
	if err == nil {
		s.Hazards = distribution.Digest()
	}
	return s, err
}

// Name returns "balanced-min-sep".
func (BalancedMinSep) Name() string { return "balanced-min-sep" }

// NumSteps returns Steps.
func (s BalancedMinSep) NumSteps() int { return s.Steps }

// Separation returns MinSep.
func (s BalancedMinSep) Separation() int { return s.MinSep }

func (s BalancedMinSep) checkNumbers() error {
	c := param.Checker{Package: "sampling"}
	checkSteps(&c, s.Steps, s.MinSep)
	balanced.Check(&c, s.Steps, s.MinSep, s.Participations)
	return c.Err()
}

// Validate returns every fault of the parameters, joined. Hazards that do not belong to the other
// fields are a fault.
func (s BalancedMinSep) Validate() error {
	if err := s.checkNumbers(); err != nil {
		return err
	}
	distribution, err := balanced.New(s.Steps, s.MinSep, s.Participations)
	if err != nil {
		return err
	}
	c := param.Checker{Package: "sampling"}
	c.Require(s.Hazards == distribution.Digest(), "hazards", fmt.Sprintf("%q", s.Hazards), "must be the digest of the hazards of the scheme: "+distribution.Digest())
	return c.Err()
}

// distribution returns the distribution of a valid scheme.
func (s BalancedMinSep) distribution() *balanced.Distribution {
	distribution, err := balanced.New(s.Steps, s.MinSep, s.Participations)
	if err != nil {
		panic(err)
	}
	return distribution
}

// ExpectedBatchSize is examples · Participations / Steps, at every step.
func (s BalancedMinSep) ExpectedBatchSize(examples int64) float64 {
	return float64(examples) * s.Participations / float64(s.Steps)
}

// TotalMoments implements [Independent].
func (s BalancedMinSep) TotalMoments(examples int64) (mean, variance float64) {
	more := s.Participations - math.Floor(s.Participations)
	return float64(examples) * s.Participations, float64(examples) * more * (1 - more)
}

// Process implements [Independent].
func (s BalancedMinSep) Process() Process { return balancedProcess{s.distribution()} }

type balancedProcess struct{ *balanced.Distribution }

// balancedSampler draws from a distribution.
type balancedSampler struct {
	*balanced.Distribution
	words *stream.Stream
}

// Sampler implements [Process].
func (p balancedProcess) Sampler(src *stream.Source) Sampler {
	return &balancedSampler{p.Distribution, src.Stream(stream.Address{})}
}

// Append implements [Sampler].
func (s *balancedSampler) Append(dst []int32, addr stream.Address, _ int64) []int32 {
	s.words.Reset(addr)
	step := 0
	for left := s.First(s.words.Uint64()); left > 0; left-- {
		step = s.Next(left, step, s.words.Uint64())
		dst = append(dst, int32(step))
		step += s.MinSep
	}
	return dst
}
