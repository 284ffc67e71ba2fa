package accounting

import (
	"fmt"
	"math"

	"minsep/internal/bisect"
	"minsep/internal/param"
)

// Goal is the result that estimates predict for a trial. It decides the number of samples that the
// trial gets; no claim depends on it.
type Goal struct {
	Bound float64 // M, finite and at least 0: the largest value, or with Proven a bound of the divergence
	// Proven says that Bound bounds the divergence. The trial then takes no samples, and δ_v must
	// be at least Bound.
	Proven bool
	// Mean is the expected mean of the values, an average over Seen samples (0 if it is exact).
	// Errors is the wanted distance from Mean up to the accepted mean, in standard errors of the
	// trial and, with Seen, of Mean itself. A negative Errors puts the accepted mean below Mean;
	// few samples are then more likely to be accepted.
	Mean, Errors, Seen float64
	// Cost is added to the divergence of the trial (F3.11): its threshold is δ_v - Cost.
	Cost float64
}

// mostErrors is the largest absolute value of Goal.Errors.
const mostErrors = 100

// Test is the number of samples that a trial draws and the mean that it accepts.
type Test struct {
	Samples uint64  // at least 1; 0 for a proof
	Accept  float64 // δ' of this trial, 0 to its threshold; 0 for a proof
}

// Allocate returns the thresholds and the tests that reach the goals with the fewest samples in
// total. Each test has its own accepted mean, so that a direction, or a noise multiplier, whose
// divergence is far below δ takes few samples. The Accept of the thresholds is the largest of these
// means. The error wraps ErrTooFewSamples where a mean is too close to δ for any number of samples.
func (c Claim) Allocate(goals []Goal) (Thresholds, []Test, error) {
	check := param.Checker{}
	c.check(&check)
	check.Require(len(goals) > 0, "goals", len(goals), "must not be empty")
	proven := 0.0
	for _, g := range goals {
		check.Require(
			g.Bound >= 0 && !math.IsInf(g.Bound, 1),
			"bound of the values",
			g.Bound,
			"must be finite and at least 0",
		)
		check.Require(g.Cost >= 0, "cost", g.Cost, "must be at least 0")
		check.Require(
			g.Mean >= 0 && math.Abs(g.Errors) <= mostErrors && g.Seen >= 0,
			"expected mean",
			g.Mean,
			"must be at least 0",
		)
		if g.Proven {
			proven = max(proven, g.Bound+g.Cost)
		}
	}
	check.Requiref(proven <= c.Delta, "proven bound", proven, "must be at most delta, %g", c.Delta)
	if err := check.Err(); err != nil {
		return Thresholds{}, nil, err
	}
	least, free := proven, true
	for _, g := range goals {
		if !g.Proven {
			free = false
			if g.Errors >= 0 {
				least = max(least, min(g.Mean, g.Bound)+g.Cost)
			}
		}
	}
	if free {
		return Thresholds{Verify: c.Delta}, make([]Test, len(goals)), nil
	}
	if least >= c.most() {
		return Thresholds{}, nil, fmt.Errorf(
			"%w: a mean of %.4g is expected, where at most %.4g may be accepted",
			ErrTooFewSamples,
			least,
			c.most(),
		)
	}
	verify, total := c.leastCost(least, func(verify, q float64) (total float64) {
		for _, g := range goals {
			total += g.samples(verify, q)
		}
		return total
	})
	if total > maxSamples {
		return Thresholds{}, nil, fmt.Errorf(
			"%w: these means take %.3g samples, more than %.3g",
			ErrTooFewSamples,
			total,
			maxSamples,
		)
	}
	t := Thresholds{Verify: verify, FailureProbability: c.allowed(verify)}
	tests := make([]Test, len(goals))
	for i, g := range goals {
		tests[i].Samples = uint64(math.Ceil(g.samples(t.Verify, t.FailureProbability) * (1 + 1e-9)))
		if tests[i].Samples > 0 {
			tests[i].Accept = LargestAccept(tests[i].Samples, g.Bound, t.Verify-g.Cost, t.FailureProbability)
			t.Accept = max(t.Accept, tests[i].Accept)
		}
	}
	return t, tests, nil
}

// samples returns the number of samples that the goal takes: the smallest at which the accepted
// mean is Errors standard errors above Mean. The variance of values in [0, M] is at most M times
// their mean.
func (g Goal) samples(verify, q float64) float64 {
	verify -= g.Cost
	switch {
	case verify >= g.Bound:
		return 0
	case g.Proven || g.Mean >= verify && g.Errors >= 0:
		return math.Inf(1)
	}
	nats, seen := -math.Log(q), 0.0
	if g.Seen > 0 {
		seen = 1 / g.Seen
	}
	low, high := g.Mean, verify
	if g.Errors < 0 {
		low = 0
	}
	_, accept := bisect.Between(low, high, math.Ldexp(high-low, -60), func(accept float64) bool { // too near to Mean
		each := divergence(accept/g.Bound, verify/g.Bound)/nats + seen // 1/s, and 1/Seen
		return accept-g.Mean-g.Errors*math.Sqrt(g.Bound*g.Mean*each)-max(0, g.Errors)*g.Errors*g.Bound*each/3 < 0
	})
	return samplesFor(g.Bound, accept, verify, q)
}

// LargestAccept is the largest accepted mean for which the FailureProbability of samples values in
// [0, bound] is at most q. It is 0 where no mean above 0 has so small a probability.
func LargestAccept(samples uint64, bound, verify, q float64) float64 {
	accept, _ := bisect.Between(
		0,
		verify,
		math.Ldexp(verify, -100),
		func(accept float64) bool { return FailureProbability(samples, bound, accept, verify) <= q },
	)
	return accept
}
