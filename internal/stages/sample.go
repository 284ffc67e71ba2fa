package stages

import (
	"minsep/internal/accounting"
	"minsep/internal/ownergraph"
	"minsep/internal/param"
	"minsep/sampling"
)

// ownerSizes returns the owners of a bounded table by their numbers of examples.
func ownerSizes(s ownergraph.Summary) sampling.OwnerSizes {
	sizes := make(sampling.OwnerSizes)
	for _, bin := range s.KeptPerOwner {
		if bin.Value > 0 {
			sizes[bin.Value] = bin.Count
		}
	}
	return sizes
}

// Shared reports whether some example of a bounded table has several owners.
func Shared(s ownergraph.Summary) bool { return s.KeptEdges > s.Kept }

// fitsBound refuses a sampler, and a unit of a claim, that no table of a bound allows. A plan is checked so
// before its graph is bounded, and a table before it is used.
func fitsBound(p sampling.Params, unit string, b ownergraph.Bound) error {
	c := param.Checker{}
	c.Require(
		p.Kind().Pools || b.Pools == 0, // an owner may have many examples in all pools together
		"scheme",
		p.Scheme,
		"must not be given with a table of pools, which are for rotation: bound without --pools (in a plan: bound.pools)",
	)
	c.Require(
		!p.Kind().Pools || b.Pools > 0,
		"scheme",
		p.Scheme,
		"needs a table of pools: bound with --pools N, one for each period or fewer (in a plan: bound.pools, or scheme.epoch_steps)",
	)
	copies := b.Duplicates && b.MaxExamplesPerOwner > 1
	c.Require(
		!copies || unit != string(accounting.UnitExample),
		"unit",
		unit,
		"must be owner: the table may have copies of examples, and each copy takes part on its own; for a claim for single examples bound without --duplicates (in a plan: bound.duplicates)",
	)
	if p.Sample == sampling.SampleOwners {
		c.Require(
			!copies,
			"sample",
			p.Sample,
			"needs a table without copies of examples: bound without --duplicates (in a plan: bound.duplicates)",
		)
		c.Requiref(
			p.ExamplesPerOwner <= b.MaxExamplesPerOwner,
			"examples per owner",
			p.ExamplesPerOwner,
			"must be at most %d, to which an owner's examples are bounded; bound with a larger --max-per-owner (in a plan: bound.max_examples_per_owner)",
			b.MaxExamplesPerOwner,
		)
	}
	return c.Err()
}

// fits refuses a sampler, and a unit of a claim, that the table does not allow.
func (s Source) fits(p sampling.Params, unit string) error {
	if s.Table == nil {
		return nil
	}
	if of := s.Table.Summary; p.Sample == sampling.SampleOwners && Shared(of) {
		return param.Fault(
			"sample",
			p.Sample,
			"needs one owner for each example, and the bounded table has %d examples with %d owners in all: sample examples (leave --sample out), or keep one owner of each in the graph",
			of.Kept,
			of.KeptEdges,
		)
	}
	return fitsBound(p, unit, s.Table.Bound)
}

// sampled returns the number of owners for a sampler of owners, and of examples for others, and the
// word for them: batch sizes count them.
func (of Examples) sampled(s sampling.Spec) (n int64, what string) {
	if s.Owners != nil {
		return of.Owners, "owners"
	}
	return of.Copies, "examples"
}
