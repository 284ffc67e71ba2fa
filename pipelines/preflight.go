package pipelines

import (
	"minsep/accounting"
	"minsep/mechanism"
	"minsep/sampling"
)

// preflight returns the refusals that need no data and that no single field is at fault for: a batch size that the examples cannot
// give, where their number is known, and a scheme, strategy and number of examples an owner for which no analysis is known. They come
// before the first byte is written, and in a dry run. The plan's fields must be valid.
func (p Plan) preflight() error {
	spec, err := p.foreseen()
	if err != nil {
		return inPlan("batches", err)
	}
	strategy := p.Strategy.standIn()
	if strategy == nil {
		return nil // what it will be is known when it is made
	}
	run := accounting.Run{Sampler: spec, Strategy: strategy, MaxExamplesPerOwner: 1, Examples: p.numbered()}
	if p.Bound != nil {
		run.MaxExamplesPerOwner = p.Bound.MaxExamplesPerOwner
	}
	if run.Examples == 0 {
		run.Examples = unknownExamples
	}
	_, err = run.Method()
	return inPlan("privacy", err)
}

// unknownExamples stands for a number of examples that is not known: no refusal depends on it.
const unknownExamples = 1 << 30

// foreseen is the scheme that is run, with any probability where that depends on a graph.
func (p Plan) foreseen() (sampling.Spec, error) {
	s := p.Scheme
	if n := p.numbered(); n > 0 {
		return s.Spec(sampling.Population{Examples: n, Neighborhoods: sampling.Neighborhoods{1: n}})
	}
	if !s.Kind().ExactBatchSize && s.BatchSize > 0 {
		s.BatchSize, s.Prob = 0, 1e-9
	}
	return s.Spec(sampling.Population{Examples: unknownExamples, Neighborhoods: sampling.Neighborhoods{1: unknownExamples}})
}

// standIn is a strategy of as many bands as the one that the parameters make; nil where that is not known before.
func (p StrategyParams) standIn() *mechanism.Strategy {
	bands := 0
	switch p.Kind {
	case mechanism.KindIdentity:
		bands = 1
	case mechanism.KindBandedToeplitz, mechanism.KindBanded, mechanism.KindOneParameter, mechanism.KindBSR, mechanism.KindBFR:
		bands = p.Bands
	case mechanism.KindToeplitz:
		return &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: p.Steps, Toeplitz: p.Column}
	}
	if bands == 0 || p.Stamps > 1 {
		return nil
	}
	column := make([]float64, bands)
	for i := range column {
		column[i] = 1
	}
	return &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: p.Steps, Toeplitz: column}
}
