package sampling

import (
	"fmt"
	"maps"
	"math"
	"slices"

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
	return newBatchSizePolynomial(neighborhoods, s.MinSep).value(s.Prob)
}

// WithBatchSize returns the scheme with the smallest probability that gives the expected batch
// size. A size that no probability reaches is an [InfeasibleError].
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
	f := newBatchSizePolynomial(neighborhoods, s.MinSep)
	p, ok := f.reach(batch)
	if !ok {
		return s, infeasible(
			batch,
			f.largest(),
			fmt.Sprintf("no probability gives these neighbourhoods more at min-sep %d", s.MinSep),
		)
	}
	s.Prob = p
	return s, s.Validate()
}

// batchSizePolynomial is f(p) = Σ_m count_m p (1-p)^{k_m} with k_m = (b-1) m.
type batchSizePolynomial struct{ counts, powers []float64 }

func newBatchSizePolynomial(neighborhoods Neighborhoods, minSep int) batchSizePolynomial {
	var f batchSizePolynomial
	for _, size := range slices.Sorted(maps.Keys(neighborhoods)) { // a fixed order gives sums with the same bits
		f.counts = append(f.counts, float64(neighborhoods[size]))
		f.powers = append(f.powers, float64(minSep-1)*float64(size))
	}
	return f
}

func (f batchSizePolynomial) value(p float64) float64 {
	sum := 0.0
	for i, c := range f.counts {
		sum += c * p * math.Pow(1-p, f.powers[i])
	}
	return sum
}

// slope bounds f'(p) = Σ_m count_m (1-p)^{k_m-1} (1-(k_m+1)p) over low ≤ p ≤ high.
func (f batchSizePolynomial) slope(low, high float64) (least, most float64) {
	for i, c := range f.counts {
		k := f.powers[i]
		if k == 0 {
			least, most = least+c, most+c
			continue
		}
		big, small := math.Pow(1-low, k-1), math.Pow(1-high, k-1)
		up, down := 1-(k+1)*low, 1-(k+1)*high // up ≥ down
		if up >= 0 {
			most += c * up * big
		} else {
			most += c * up * small
		}
		if down >= 0 {
			least += c * down * small
		} else {
			least += c * down * big
		}
	}
	return least, most
}

// monotone divides [low, high] into pieces on which f only rises or only falls, and calls visit for
// them from left to right until it returns true. A piece around a turning point is divided until it
// is a few ulps wide.
func (f batchSizePolynomial) monotone(low, high float64, visit func(low, high float64) bool) bool {
	least, most := f.slope(low, high)
	mid := low + (high-low)/2
	if least >= 0 || most <= 0 || high-low <= 1e-15*high || mid == low || mid == high {
		return visit(low, high)
	}
	return f.monotone(low, mid, visit) || f.monotone(mid, high, visit)
}

// reach returns the smallest p with f(p) ≥ value.
func (f batchSizePolynomial) reach(value float64) (p float64, ok bool) {
	ok = f.monotone(0, 1, func(low, high float64) bool {
		if f.value(high) < value { // f(low) < value, or an earlier piece would have ended here
			return false
		}
		for {
			mid := low + (high-low)/2
			if mid == low || mid == high {
				p = high
				return true
			}
			if f.value(mid) >= value {
				high = mid
			} else {
				low = mid
			}
		}
	})
	return p, ok
}

// largest returns the maximum of f over [0, 1].
func (f batchSizePolynomial) largest() float64 {
	best := 0.0
	f.monotone(0, 1, func(_, high float64) bool {
		best = max(best, f.value(high))
		return false
	})
	return best
}
