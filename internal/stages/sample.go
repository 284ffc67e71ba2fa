package stages

import (
	"fmt"

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

// checkSample refuses to sample owners in a table with examples of several owners, or with copies
// of examples.
func (s Source) checkSample(p sampling.Params) error {
	if p.Sample != sampling.SampleOwners {
		return nil
	}
	bad := &ParamError{Param: "sample", Value: p.Sample}
	if s.Table == nil {
		bad.Rule = "needs a bounded table, which names the owners of examples: give --bounded"
		return bad
	}
	bound, err := s.Table.Index.Bound()
	if err != nil {
		return fmt.Errorf("%s: %w", s.Table.Dir, err)
	}
	switch of := s.Table.Summary; {
	case Shared(of):
		bad.Rule = fmt.Sprintf(
			"needs one owner for each example, and the bounded table has %d examples with %d owners in all: sample examples (leave --sample out), or keep one owner of each in the graph",
			of.Kept,
			of.KeptEdges,
		)
	case Copied(of):
		bad.Rule = "needs a table without copies of examples: bound without --duplicates (in a plan: bound.duplicates)"
	case p.ExamplesPerOwner > bound.MaxExamplesPerOwner:
		bad.Param, bad.Value = "examples per owner", p.ExamplesPerOwner
		bad.Rule = fmt.Sprintf(
			"must be at most %d: the table was bounded to so many for each owner; bound with a larger --max-per-owner",
			bound.MaxExamplesPerOwner,
		)
	default:
		return nil
	}
	return bad
}

// checkPlanPools refuses a table with pools for a scheme without them, since an owner may have many
// examples in all pools together. It also refuses rotation without pools.
func (s Source) checkPools(p sampling.Params) error {
	ofPools := s.Table != nil && s.Table.OfPools()
	switch {
	case p.Kind().Pools && !ofPools:
		return param.Fault(
			"scheme",
			p.Scheme,
			"needs a table of pools: bound with --pools N, one for each period or fewer (in a plan: bound.pools)",
		)
	case !p.Kind().Pools && ofPools:
		return param.Fault(
			"scheme",
			p.Scheme,
			"must not be given with a table of pools, which are for rotation: bound without --pools (in a plan: bound.pools)",
		)
	}
	return nil
}

// sampled returns the number of owners for a sampler of owners, and of examples for others, and the
// word for them: batch sizes count them.
func (of Examples) sampled(s sampling.Spec) (n int64, what string) {
	if s.Owners != nil {
		return of.Owners, "owners"
	}
	return of.Copies, "examples"
}
