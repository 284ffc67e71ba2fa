package sampling

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"minsep/internal/param"
)

// DefaultScheme is the scheme of commands that are given none.
const DefaultScheme = "b-min-sep"

// Params are a scheme and its parameters as a user gives them, in flags or in a plan. A zero value
// stands for a parameter that is not given: either the batch size or the probability may be.
// [Kinds] lists the schemes and the parameters of each. The tags flag and help of a field have the name
// of its flag, which errors write with spaces and plans with underscores, and a line of help.
// [Params.Spec] returns the scheme to run.
type Params struct {
	Scheme            string  `json:"scheme" flag:"scheme" help:"sampling scheme: the rule by which examples take part in steps"`                                                                            // a name of [Kinds]
	Steps             int     `json:"steps" flag:"steps" help:"number of training steps"`                                                                                                                    // n, 1 to MaxSteps
	Sample            string  `json:"sample,omitempty" flag:"sample" help:"the unit that takes part in steps: examples, the default, or owners; an owner then brings examples of its own"`                   // unit that takes part: SampleExamples, the default, or SampleOwners
	ExamplesPerOwner  int     `json:"examples_per_owner,omitempty" flag:"examples-per-owner" help:"with --sample owners: the number of examples that an owner brings each time it takes part, drawn afresh"` // number that an owner brings each time, 1 to 2^20; with SampleOwners
	MinSep            int     `json:"min_sep,omitempty" flag:"min-sep" help:"least number of steps from one participation to the next; for balls-in-bins: steps of an epoch"`                                // b in steps, at least 1; the epoch T of balls-in-bins; not for poisson
	EpochSteps        int     `json:"epoch_steps,omitempty" flag:"epoch-steps" help:"for epoch-min-sep and rotation: steps of an epoch, in place of a batch size, which is then examples / epoch-steps"`     // T of epoch-min-sep and rotation, at least MinSep, instead of BatchSize
	BatchSize         float64 `json:"batch_size,omitempty" flag:"batch-size" help:"expected batch size, in examples, or in owners with --sample owners; for fixed, the exact size"`                          // expected, in copies of examples, or in owners with SampleOwners, above 0; exact for fixed
	Prob              float64 `json:"prob,omitempty" flag:"prob" help:"probability that an available example takes part in a step, in place of a batch size"`                                                // p in (0, 1], instead of BatchSize
	Cold              bool    `json:"cold,omitempty" flag:"cold" help:"for b-min-sep: begin with all examples available (arXiv 2602.09338, Algorithm 1)"`                                                    // b-min-sep from Algorithm 1 of arXiv 2602.09338 in place of Algorithm 2
	SecretPartition   bool    `json:"secret_partition,omitempty" flag:"secret-partition" help:"for cyclic-poisson: draw the part of each example at random; without it, the example's row decides"`          // draw the parts of cyclic-poisson at random
	MaxBatchSize      int     `json:"max_batch_size,omitempty" flag:"max-batch-size" help:"cut larger batches to a random subset of this size, in owners with --sample owners"`                              // truncate batches to this many entries, at least 1; 0 for no truncation
	Pad               bool    `json:"pad,omitempty" flag:"pad" help:"with --max-batch-size: fill smaller batches up to that size with rows of -1; the trainer counts their gradients as zero"`               // fill batches up to MaxBatchSize
	Law               *Table  `json:"law,omitempty" flag:"law" help:"for the scheme law: file of a law of a program of your own, a sampling.Table as JSON"`                                                  // with LawScheme only
	MaxParticipations int     `json:"max_participations,omitempty" flag:"max-participations" help:"for fixed: let nobody take part more often than this"`                                                    // of one example or owner, at least 1; 0 for as many as MinSep allows
}

// Population holds the facts about the examples that turn a batch size into a probability.
type Population struct {
	Examples      int64         // number of copies, at least 1; of one pool where the kind has Pools
	Neighborhoods Neighborhoods // of the copies; used only where the kind's Owners are OwnersNeeded
	Owners        OwnerSizes    // used only with SampleOwners
}

// Kind is the kind of scheme that p names, or a zero Kind if the name is unknown.
func (p Params) Kind() Kind {
	k, _ := kindOf(p.Scheme)
	return k
}

// Validate reports every fault that can be found without the examples.
func (p Params) Validate() error {
	c := param.Checker{}
	kind, known := kindOf(p.Scheme)
	c.Require(known, "scheme", fmt.Sprintf("%q", p.Scheme), "must be one of "+strings.Join(KindNames(), ", "))
	c.AtLeast("steps", p.Steps, 1)
	if known {
		kind.check(p, &c)
	} else {
		p.checkRate(&c)
	}
	p.checkTaken(&c)
	p.checkSample(&c, kind)
	c.Require(p.MaxParticipations >= 0, "max participations", p.MaxParticipations, "must be at least 1")
	c.Require(p.MaxBatchSize >= 0, "max batch size", p.MaxBatchSize, "must be at least 1")
	c.Require(p.MaxBatchSize == 0 || kind.untruncated == "", "max batch size", p.MaxBatchSize, kind.untruncated)
	c.Require(
		!p.Pad || p.MaxBatchSize > 0,
		"pad",
		nil,
		"fills batches up to the max batch size, which is not given: give --max-batch-size, or leave --pad out",
	)
	return c.Err()
}

// checkTaken refuses parameters that belong to other schemes.
func (p Params) checkTaken(c *param.Checker) {
	for field, value := range reflect.ValueOf(p).Fields() {
		var takers []string
		name := field.Tag.Get("flag")
		for _, k := range Kinds {
			if slices.Contains(k.Takes, name) {
				takers = append(takers, k.Name)
			}
		}
		if takers != nil && !value.IsZero() {
			c.Require(
				slices.Contains(takers, p.Scheme),
				strings.ReplaceAll(name, "-", " "),
				value.Interface(),
				"is for "+strings.Join(takers, " and ")+" only",
			)
		}
	}
}

// checkSeparated checks the parameters of a scheme with a least distance and a probability.
func (p Params) checkSeparated(c *param.Checker) {
	c.AtLeast("min-sep", p.MinSep, 1)
	p.checkRate(c)
}

// checkRate requires a batch size or a probability.
func (p Params) checkRate(c *param.Checker) {
	given := 0
	if p.Prob != 0 {
		given++
		c.Probability("prob", p.Prob)
	}
	if p.BatchSize != 0 {
		given++
		c.Positive("batch size", p.BatchSize)
	}
	c.Require(given < 2, "batch size and prob", nil, "only one of them may be given")
	c.Require(given > 0, "batch size and prob", nil, "one of them must be given")
}

// WithoutExamples returns parameters of the same scheme that need no number of examples: an
// arbitrary probability or epoch replaces the batch size. Facts about the
// scheme that do not depend on the examples, such as the method of its accounting, are the same for
// both.
func (p Params) WithoutExamples() Params {
	switch {
	case p.Kind().ExactBatchSize || p.BatchSize <= 0:
	case p.Scheme == epochMinSepKind.Name || p.Scheme == rotationKind.Name:
		p.BatchSize, p.EpochSteps = 0, max(p.MinSep, p.Steps)
	default:
		p.BatchSize, p.Prob = 0, 1e-9
	}
	return p
}

// Spec solves for the probability and returns the scheme to run. A batch size that the examples
// cannot give is an [InfeasibleError].
func (p Params) Spec(of Population) (Spec, error) {
	if err := p.Validate(); err != nil {
		return Spec{}, err
	}
	owners := p.Sample == SampleOwners
	if owners {
		of = of.ofOwners()
	}
	spec, err := p.Kind().spec(p, of)
	if err == nil {
		if owners {
			spec.Owners = &OwnerSampling{ExamplesPerOwner: p.ExamplesPerOwner}
		}
		if p.MaxBatchSize > 0 {
			spec.Truncation = &Truncation{MaxBatchSize: p.MaxBatchSize, Pad: p.Pad}
		}
		err = spec.Validate()
	}
	if p.BatchSize != 0 {
		param.Each(err, p.blameBatchSize)
	}
	if owners {
		param.Each(err, inOwners)
	}
	if err != nil {
		return Spec{}, err
	}
	return spec, nil
}

// blameBatchSize makes a fault of a computed probability, which the user did not give, a fault of
// the batch size.
func (p Params) blameBatchSize(bad *param.Error) {
	if bad.Param == "prob" {
		bad.Param, bad.Rule = "batch size", fmt.Sprintf(
			"makes an example take part with probability %v, which %s",
			bad.Value,
			bad.Rule,
		)
		bad.Value = p.BatchSize
	}
}
