package verification

import (
	"fmt"
	"math"
	"slices"
	"time"

	"minsep/accounting"
	"minsep/internal/param"
)

// ParamError is a parameter with a value that breaks a rule.
type ParamError = param.Error

// Problem is a claim to be verified: (Epsilon, Delta)-differential privacy of a run.
type Problem struct {
	Run     accounting.Run  // the run that privacy is claimed for
	Unit    accounting.Unit // "" for accounting.UnitOwner
	Epsilon float64         // finite, at least 0
	Delta   float64         // at least 1e-300 and below 1

	// NoiseMultiplier is the only candidate; 0 looks for the smallest.
	NoiseMultiplier float64

	// The budget in samples or in time of processors. With neither, it is DefaultCPUTime, less
	// where a part of it reaches 0.9 of δ, and five times as much where tables leave no time
	// for samples. Estimates take a part of it, and the rest is for the verification, over all
	// candidates and both directions. A time is turned into samples once, by the speed at which
	// this machine makes the estimates, before there is a protocol. A number of samples bounds
	// no time: tables, and the search for a noise multiplier that needs no samples, come on
	// top. The samples that measure the speed for a given NoiseMultiplier do not count.

	Samples uint64        // over all candidates and both directions; 0 for none given
	CPUTime time.Duration // of one processor; 0 for none given

	// Accept, in place of a budget, is δ'/δ, the part of δ up to which means are accepted, however
	// many samples that takes. 0 leaves δ' to the budget.
	Accept float64

	// AlsoEpsilon are further ε at which δ is certified for the same run at the noise
	// multiplier that is released for (Epsilon, Delta). The δ of each is fixed with the
	// protocol, from estimates; an ε with a δ above 1/2 is left out. Their samples are on top
	// of the budget.
	AlsoEpsilon []float64

	Earlier     []accounting.Earlier // protocols with samples that were seen, for whatever claim
	CodeVersion string               // of minsep, for the protocol
	PlanSHA256  string               // of the parameters of the batches, 64 hexadecimal digits; "" if not known

	bought  uint64  // samples that the estimates leave for the verification
	weights weights // of them; zero where all count alike
	budget  string  // in words
	before  spent   // by a plan that was made before this one for the same budget
	byCost  bool    // a maximum batch size is accounted for by its cost in δ

	simulated simulation // nil outside of tests

	// Watch, if not nil, is told each phase of the work, from one goroutine.
	Watch func(Phase)

	doing string // the phase that estimates of a further point are in

	// Workers is the number of goroutines for estimates, 0 for one a processor. It changes no
	// result.
	Workers int
}

// protocolUnit is the unit as a protocol has it: nothing for the default.
func (p Problem) protocolUnit() accounting.Unit {
	if p.Unit == accounting.UnitOwner {
		return ""
	}
	return p.Unit
}

// Validate reports every fault. It does not say whether the combination can be accounted for.
func (p Problem) Validate() error {
	c := param.Checker{Package: "verification"}
	c.Add(p.Run.Validate())
	c.Require(p.Epsilon >= 0 && !math.IsInf(p.Epsilon, 1), "epsilon", p.Epsilon, "must be a finite number, at least 0")
	c.Require(p.Delta >= 1e-300 && p.Delta < 1, "delta", p.Delta, "must be at least 1e-300 and below 1")
	c.Require(p.Accept >= 0 && p.Accept < 1, "accept", p.Accept, "must be at least 0 and below 1")
	c.Require(len(p.AlsoEpsilon) <= MostAlso, "also epsilon", len(p.AlsoEpsilon), fmt.Sprintf("must be at most %d numbers", MostAlso))
	for i, epsilon := range p.AlsoEpsilon {
		c.Require(epsilon >= 0 && !math.IsInf(epsilon, 1), "also epsilon", epsilon, "must be finite numbers, at least 0")
		c.Require(epsilon != p.Epsilon && !slices.Contains(p.AlsoEpsilon[:i], epsilon), "also epsilon", epsilon, "must be other numbers than epsilon, each once")
	}
	given := 0
	for _, is := range []bool{p.Accept != 0, p.Samples != 0, p.CPUTime != 0} {
		if is {
			given++
		}
	}
	c.Require(given <= 1, "samples and cpu-time", nil, "only one of them may be given")
	c.Require(p.CPUTime >= 0, "cpu-time", p.CPUTime, "must be above 0")
	method, err := p.Run.Method()
	switch {
	case p.NoiseMultiplier != 0:
		c.Positive("noise multiplier", p.NoiseMultiplier)
	case err != nil: // has a place of its own
	case method == accounting.PLD:
		c.Require(p.Delta >= leastComposed, "delta", p.Delta, fmt.Sprintf("must be at least %g with this sampler: the mass that its privacy loss distributions cut off counts as a loss of all privacy", leastComposed))
	case method == accounting.MonteCarlo || method == accounting.Unproven:
		c.Require(p.Delta >= leastSampled, "delta", p.Delta, fmt.Sprintf("must be at least %g with this sampler: no number of samples and no bound proves a smaller one; independent noise with scheme fixed has a closed form", leastSampled))
	}
	return c.Err()
}

func (p Problem) steps() int { return p.Run.Sampler.Scheme().NumSteps() }

// protocol is one without candidates.
func (p Problem) protocol(t accounting.Thresholds) *accounting.Protocol {
	return &accounting.Protocol{Format: 1, Run: p.Run, Unit: p.protocolUnit(), CodeVersion: p.CodeVersion, PlanSHA256: p.PlanSHA256,
		Points: []accounting.Point{{Epsilon: p.Epsilon, Delta: p.Delta, Thresholds: t}}}
}

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
