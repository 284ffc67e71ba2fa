package sampling

import (
	"fmt"
	"slices"
	"strings"

	"minsep/internal/param"
)

// OwnerSampling makes a scheme sample owners in place of examples (F4.9). Each example must
// have exactly one owner.
//
// # Formal guarantees
//
// Whatever a scheme guarantees for an example holds for an owner: the law of its participations,
// their distance, and the independence of all other owners. Each time an owner takes part it brings
// ExamplesPerOwner of its examples, or all if it has fewer. They are a uniformly random subset,
// drawn afresh each time, independent of the participations and of all other draws. Probabilities,
// batch sizes and maximum batch sizes count owners.
//
// The trainer averages the gradients of an owner's drawn examples and clips the mean, once for each
// owner. The owner's participation vector then follows the distribution of the scheme whichever
// examples are drawn, so the accounting is the one of a single example, however many an owner has.
type OwnerSampling struct {
	ExamplesPerOwner int `json:"examples_per_owner"` // G, 1 to 2^20
}

// maxDrawn is the largest number of examples that an owner may bring.
const maxDrawn = 1 << 20

// The values of [Params.Sample].
const (
	SampleExamples = "examples" // the default
	SampleOwners   = "owners"
)

// Validate reports every fault of the parameters, joined.
func (o OwnerSampling) Validate() error {
	c := param.Checker{}
	checkExamplesPerOwner(&c, o.ExamplesPerOwner)
	return c.Err()
}

func checkExamplesPerOwner(c *param.Checker, g int) {
	c.Requiref(g >= 1 && g <= maxDrawn, "examples per owner", g, "must be from 1 to %d", maxDrawn)
}

// OwnerSizes is a histogram: for each number of examples above 0, the number of owners with so
// many.
type OwnerSizes map[int64]int64

// Total is the number of owners.
func (o OwnerSizes) Total() (owners int64) {
	for _, count := range o {
		owners += count
	}
	return owners
}

// Drawn is the number of examples that all owners together bring if each takes part once, with at
// most most examples.
func (o OwnerSizes) Drawn(most int) (examples int64) {
	for size, count := range o {
		examples += min(size, int64(most)) * count
	}
	return examples
}

// ofOwners returns the population of owners, for a scheme that samples them.
func (of Population) ofOwners() Population {
	n := of.Owners.Total()
	return Population{Examples: n, Neighborhoods: Neighborhoods{1: n}}
}

// Draw appends to dst, which must be empty, the examples that an owner brings at a step, as ascending
// numbers in 0 … owned-1. They are a uniformly random subset, to 2^-64. The words must be fresh for
// every owner and step.
func (o OwnerSampling) Draw(dst []int, words Words, owned int) []int {
	drawn := min(owned, o.ExamplesPerOwner)
	if drawn == owned { // nothing is left to chance
		for i := range owned {
			dst = append(dst, i)
		}
		return dst
	}
	// Floyd's method: after round j all subsets of 0 … j of the size of dst are equally likely.
	for j := owned - drawn; j < owned; j++ {
		i := below(words, j+1)
		if at, there := slices.BinarySearch(dst, i); there {
			dst = append(dst, j) // larger than all others
		} else {
			dst = slices.Insert(dst, at, i)
		}
	}
	return dst
}

// checkSample checks the unit of sampling.
func (p Params) checkSample(c *param.Checker, kind Kind) {
	known := p.Sample == "" || p.Sample == SampleExamples || p.Sample == SampleOwners
	c.Require(known, "sample", fmt.Sprintf("%q", p.Sample), "must be examples or owners")
	if p.Sample != SampleOwners {
		c.Require(
			p.ExamplesPerOwner == 0 || !known,
			"examples per owner",
			p.ExamplesPerOwner,
			"needs sample owners: without it, examples take part one by one",
		)
		return
	}
	checkExamplesPerOwner(c, p.ExamplesPerOwner)
	c.Require(kind.examplesOnly == "", "sample", p.Sample, kind.examplesOnly)
	c.Require(p.Scheme != cyclicPoissonKind.Name || p.SecretPartition, "sample", p.Sample, publicPartsOfRows)
}

// publicPartsOfRows is the reason why owners cannot follow a public partition.
const publicPartsOfRows = "needs secret-partition with cyclic-poisson: the public partition is one of rows, and an owner may have several"

// checkOwners checks that owners can follow the scheme.
func (s Spec) checkOwners(c *param.Checker, scheme Scheme) {
	c.Add(s.Owners.Validate())
	kind, _ := kindOf(scheme.Name())
	c.Require(kind.examplesOnly == "", "sample", SampleOwners, kind.examplesOnly)
	c.Require(s.CyclicPoisson == nil || s.CyclicPoisson.SecretPartition, "sample", SampleOwners, publicPartsOfRows)
}

// inOwners rewords a fault of examples as a fault of owners.
func inOwners(bad *param.Error) {
	if bad.Param == "examples" {
		bad.Param = "owners"
	}
	bad.Rule = strings.NewReplacer("an example", "an owner", "examples / ", "owners / ", "examples", "owners").
		Replace(bad.Rule)
}
