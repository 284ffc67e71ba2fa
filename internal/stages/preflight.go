package stages

import (
	"minsep/internal/accounting"
	"minsep/sampling"
)

// Preflight returns the refusals that need no data and that are not the fault of a single field: a
// batch size that the examples cannot give, if their number is known, and a combination of scheme,
// strategy and examples per owner without an analysis. They come before the first byte is written,
// and in a dry run. The plan's fields must be valid.
func (p Plan) Preflight() error {
	spec, err := p.foreseen()
	if err != nil {
		return InPlan("batches", err)
	}
	strategy := p.Strategy.StandIn()
	if strategy == nil {
		return nil // it is known once it is made
	}
	run := accounting.Run{Sampler: spec, Strategy: strategy, MaxExamplesPerOwner: 1, Examples: p.numbered()}
	if p.Bound != nil && spec.Owners == nil {
		run.MaxExamplesPerOwner = p.Bound.MaxExamplesPerOwner
	}
	if run.Examples == 0 {
		run.Examples = unknownExamples
	}
	return InPlan("privacy", p.AccountParams().checkMost(run))
}

// unknownExamples stands for an unknown number of examples. No refusal depends on it.
const unknownExamples = 1 << 30

// numberedPopulation is n examples, each its own owner.
func numberedPopulation(n int64) sampling.Population {
	return sampling.Population{Examples: n, Neighborhoods: sampling.Neighborhoods{1: n}}
}

// foreseen returns the scheme that will run. Its probability is arbitrary if it depends on a graph.
func (p Plan) foreseen() (sampling.Spec, error) {
	s := p.Scheme
	if n := p.numbered(); n > 0 {
		return s.Spec(numberedPopulation(n))
	}
	return s.WithoutExamples().Spec(sampling.Population{Examples: unknownExamples, Neighborhoods: sampling.Neighborhoods{1: unknownExamples},
		Owners: sampling.OwnerSizes{1: unknownExamples}})
}
