package calibration

import (
	"slices"
	"time"

	"minsep/internal/accounting"
	"minsep/internal/param"
)

// ParamError is a parameter with a value that breaks a rule.
type ParamError = param.Error

// Problem is a claim to be verified: (Epsilon, Delta)-differential privacy of a run.
type Problem struct {
	Run     accounting.Run  // the run that privacy is claimed for
	Unit    accounting.Unit // "" for accounting.UnitOwner
	Epsilon float64         // finite, at least 0
	Delta   float64         // at least 1e-299 and below 1

	// NoiseMultiplier is the only candidate; 0 looks for the smallest.
	NoiseMultiplier float64

	// The budget of estimates and verification, over all candidates and both directions, in samples or
	// in time of processors. With neither it is DefaultCPUTime, or less if a part of it reaches 0.9 of
	// δ. A time is a limit: proofs, tables and samples count. It is turned into samples by the speed at
	// which this machine makes the estimates, before there is a protocol. A number of samples makes the
	// same protocol on every machine, and bounds no time.

	Samples uint64        // 0 for none given
	CPUTime time.Duration // of one processor; 0 for none given

	// AlsoEpsilon are additional ε at which δ is certified for the same run at the noise multiplier
	// that is released for (Epsilon, Delta). The δ of each is fixed with the protocol, from estimates;
	// an ε with a δ above 1/2 is left out. Their samples are on top of the budget.
	AlsoEpsilon []float64

	Earlier     []accounting.Earlier // protocols with samples that were seen, for whatever claim
	CodeVersion string               // of minsep, for the protocol
	PlanSHA256  string               // of the parameters of the batches, 64 hexadecimal digits; "" if not known

	// Watch, if not nil, is told each phase of the work, from one goroutine.
	Watch func(Phase)

	// Workers is the number of goroutines for estimates, 0 for one a processor. It changes no result.
	Workers int
}

// MostEpsilon is the largest ε of a claim.
const MostEpsilon = 1e4

// MostTruncation is the part of δ that truncation may cost at most.
const MostTruncation = 0.5

// MostAlso is the largest number of additional ε of a protocol.
const MostAlso = 16

// The least δ for which a noise multiplier is sought: by compositions well above the tails that
// pld.Options cut off; by samples at which neither they nor moments prove anything.
const leastComposed, leastSampled = 1e-18, 1e-40

// ValidateClaim reports every fault of the claim and of its budget, which can be seen without the
// run.
func (p Problem) ValidateClaim() error {
	c := param.Checker{}
	c.Require(p.Epsilon >= 0 && p.Epsilon <= MostEpsilon, "epsilon", p.Epsilon, "must be from 0 to 10,000: more protects nobody")
	c.Require(p.Delta >= 1e-299 && p.Delta <= 0.99, "delta", p.Delta, "must be from 1e-299 to 0.99: more protects nobody")
	c.Requiref(len(p.AlsoEpsilon) <= MostAlso, "also epsilon", len(p.AlsoEpsilon), "must be at most %d numbers", MostAlso)
	for i, epsilon := range p.AlsoEpsilon {
		c.Require(epsilon >= 0 && epsilon <= MostEpsilon, "also epsilon", epsilon, "must be numbers from 0 to 10,000")
		c.Requiref(
			epsilon != p.Epsilon,
			"also epsilon",
			epsilon,
			"must be other numbers than epsilon, each once: take %g out, or, if epsilon was changed after minsep plan wrote the list, write an eighth, a quarter, half and three quarters of the new one",
			epsilon,
		)
		twice := slices.Contains(p.AlsoEpsilon[:i], epsilon)
		c.Requiref(!twice, "also epsilon", epsilon, "must be other numbers than epsilon, each once: take one %g out", epsilon)
	}
	c.Require(p.Samples == 0 || p.CPUTime == 0, "samples and cpu-time", nil, "only one of them may be given")
	c.Require(p.CPUTime >= 0, "cpu-time", p.CPUTime, "must be above 0")
	if p.NoiseMultiplier != 0 {
		c.Positive("noise multiplier", p.NoiseMultiplier)
	}
	return c.Err()
}

// Validate reports every fault. It does not say whether the combination can be accounted for.
func (p Problem) Validate() error {
	c := param.Checker{}
	c.Add(p.Run.Validate())
	c.Add(p.ValidateClaim())
	method, err := p.Run.Method()
	switch {
	case p.NoiseMultiplier != 0:
	case err != nil: // is told by Plan
	case method == accounting.PLD:
		c.Requiref(
			p.Delta >= leastComposed,
			"delta",
			p.Delta,
			"must be at least %g with this sampler: the mass that its privacy loss distributions cut off counts as a loss of all privacy",
			leastComposed,
		)
	case method == accounting.MonteCarlo || method == accounting.Unproven:
		c.Requiref(
			p.Delta >= leastSampled,
			"delta",
			p.Delta,
			"must be at least %g with this sampler: no number of samples and no bound proves a smaller one; independent noise with scheme fixed has a closed form",
			leastSampled,
		)
	}
	if c.Err() == nil && err == nil && !WithoutSamples(method) {
		c.Requiref(
			p.room() > 0,
			"delta",
			p.Delta,
			"must be above %.3g, the probability that one of the %d earlier protocols errs, whatever they are for, which is a part of it; "+
				"give a larger delta or, if those were for another training or for claims with a larger delta, another --out",
			p.claim().Earlier,
			len(p.Earlier),
		)
	}
	return c.Err()
}

// claim is the δ of the first point, with the failure probabilities that it must share.
func (p Problem) claim() accounting.Claim {
	c := accounting.Claim{Delta: p.Delta}
	for _, e := range p.Earlier {
		c.Earlier += e.FailureProbability
	}
	if len(p.AlsoEpsilon) > 0 {
		c.MostFailure = p.failureOfPoint()
		c.Earlier += float64(len(p.AlsoEpsilon)) * c.MostFailure
	}
	return c
}

// room is the part of δ that failure probabilities fixed before leave.
func (p Problem) room() float64 { return p.Delta - p.claim().Earlier }

// Phase is the work in progress before there is a protocol, for people who wait for it.
type Phase struct {
	Text string // such as "estimating σ, candidate 4"

	// Left is how many seconds of processors this work may still take, with the work that shares its
	// part of the budget; 0 if nothing limits it.
	Left float64
}

// PhaseTables is the text of a phase in which tables are made.
const PhaseTables = "tables"

// leastDelta is the smallest δ of an additional ε: the claim's δ below the claim's ε, else a
// negligible part of the claim's δ. Every point counts the failure probabilities of all points, so a
// smaller δ would take samples from each of them.
func (p Problem) leastDelta(epsilon float64) float64 {
	if epsilon < p.Epsilon {
		return p.Delta
	}
	return max(1e-300, Negligible*p.Delta)
}

// failureOfPoint is the failure probability of each point of a protocol with additional ε: the union
// of all of them costs each point a negligible part of its δ at most (F5.11). It is known before
// there are estimates.
func (p Problem) failureOfPoint() float64 {
	least := p.Delta
	for _, epsilon := range p.AlsoEpsilon {
		least = min(least, p.leastDelta(epsilon))
	}
	return Negligible * least / float64(1+len(p.AlsoEpsilon))
}
