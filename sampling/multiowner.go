package sampling

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"minsep/internal/bisect"
	"minsep/internal/param"
)

// MultiOwner is b-min-sep subsampling of examples with several owners, as published (arXiv
// 2602.09338, Algorithm 3). Each example flips a coin at every step, blocked or not, and is sampled
// with probability Prob. A sampled example takes part unless some example that shares an owner with
// it, itself included, was sampled in the last MinSep-1 steps. The coins begin MinSep-1 steps
// before the first step, so that the batches are stationary from the first step on.
//
// # Formal guarantees
//
// Two participations of examples of one owner (other than at the same step) are at least MinSep
// steps apart. The published accounting (arXiv 2602.09338, Theorem 6.1) is not proven: who is
// blocked depends on the neighbours' coins, which an adversary knows, and there are graphs for
// which it fails. Use [BMinSep] for a certificate; this scheme never gets one.
type MultiOwner struct {
	Prob   float64 `json:"prob"`    // probability of a coin, 2^-53 to 1
	Steps  int     `json:"steps"`   // 1 to MaxSteps
	MinSep int     `json:"min_sep"` // least distance in steps of two participations of one owner, 1 to MaxSteps
}

var multiOwnerKind = Kind{
	Name: "multi-owner",
	Help: `Algorithm 3 of arXiv 2602.09338: examples that share an owner keep B steps apart;
its accounting is not proven`,
	Owners: OwnersNeeded,
	check:  Params.checkSeparated,
	spec: func(p Params, of Population) (Spec, error) {
		s, err := MultiOwner{Prob: p.Prob, Steps: p.Steps, MinSep: p.MinSep}, error(nil)
		if p.Prob == 0 {
			s, err = s.WithBatchSize(p.BatchSize, of.Neighborhoods)
		}
		return Spec{MultiOwner: &s}, err
	},
	examplesOnly: "is not for multi-owner, where examples have several owners",
	scheme:       func(s Spec) Scheme { return orNil(s.MultiOwner) },
}

// Neighborhoods is the histogram of neighbourhood sizes |N(e)| over the copies of examples: for
// each size, the number of copies. N(e) holds all copies of examples that share an owner with e, e
// included.
type Neighborhoods map[int]int64

// Name returns "multi-owner".
func (MultiOwner) Name() string { return "multi-owner" }

// NumSteps returns Steps.
func (s MultiOwner) NumSteps() int { return s.Steps }

// Separation returns MinSep, for the examples of one owner together.
func (s MultiOwner) Separation() int { return s.MinSep }

// Validate returns every fault of the parameters, joined.
func (s MultiOwner) Validate() error {
	c := param.Checker{}
	checkProb(&c, s.Prob)
	checkSteps(&c, s.Steps, s.MinSep)
	return c.Err()
}

// Coins returns the process of one copy's coins: independent Bernoulli(Prob) draws at the steps
// from 1-MinSep, which may be negative, to Steps-1. [MultiOwner.Exclude] turns coins into
// participations.
func (s MultiOwner) Coins() Process {
	gap := geometric(s.Prob, s.Steps+s.MinSep-1)
	return &renewal{first: gap, gap: gap, start: 1 - s.MinSep, lead: 1, stride: 1, steps: s.Steps}
}

// ExpectedBatchSize is E|B_i| = Σ_e p (1-p)^{(b-1)|N(e)|} at every step.
func (s MultiOwner) ExpectedBatchSize(neighborhoods Neighborhoods) float64 {
	sum := 0.0
	for _, m := range slices.Sorted(maps.Keys(neighborhoods)) { // a fixed order gives sums with the same bits
		sum += float64(neighborhoods[m]) * s.Prob * math.Pow(1-s.Prob, float64(s.MinSep-1)*float64(m))
	}
	return sum
}

// WithBatchSize returns the scheme with the smallest probability that gives the expected batch
// size. A size that no probability reaches, or only within 1e-4 of the largest one, is an
// [InfeasibleError].
func (s MultiOwner) WithBatchSize(batch float64, neighborhoods Neighborhoods) (MultiOwner, error) {
	c := param.Checker{}
	c.Positive("batch size", batch)
	c.Requiref(
		s.MinSep >= 1 && s.MinSep <= MaxSteps,
		"min-sep",
		s.MinSep,
		"must be from 1 to %d", MaxSteps,
	)
	for size, count := range neighborhoods {
		c.Require(
			size >= 1 && count >= 0,
			"neighbourhood size and count",
			[2]int64{int64(size), count},
			"must be at least 1 and 0",
		)
	}
	if err := c.Err(); err != nil {
		return s, err
	}
	at := s
	size := func(p float64) float64 {
		at.Prob = p
		return at.ExpectedBatchSize(neighborhoods)
	}
	// Up to one over the largest power every term rises, and from there on the size is looked at in
	// steps of one per cent.
	most := slices.Max(append(slices.Collect(maps.Keys(neighborhoods)), 0))
	low, largest := 0.0, 0.0
	for p := 1 / (1 + float64(s.MinSep-1)*float64(most)); ; p = min(1, 1.01*p) {
		largest = max(largest, size(p))
		if largest >= batch {
			_, s.Prob = bisect.Between(low, p, 0, func(p float64) bool { return size(p) < batch })
			return s, s.Validate()
		}
		if low = p; p == 1 {
			break
		}
	}
	return s, infeasible(
		batch,
		largest,
		fmt.Sprintf("no probability gives these neighbourhoods more at min-sep %d", s.MinSep),
	)
}
