package stages

import (
	"cmp"
	"context"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/mechanism"
	"minsep/sampling"
)

// quickStrategy is the largest time in seconds of making a strategy for a dry run.
const quickStrategy = 5

// QuickStrategy makes the strategy of a plan for a dry run. It returns nil if that takes long or
// reads a file.
func (p Plan) QuickStrategy(ctx context.Context) (*mechanism.Strategy, error) {
	strategy := p.Strategy
	strategy.Steps = p.Scheme.Steps
	if strategy.ScheduleFile() != "" || strategy.Seconds() > quickStrategy {
		return nil, nil
	}
	return strategy.Make(ctx, nil)
}

// Outlook forecasts the samples of the plan's account before it runs, with a strategy of
// QuickStrategy. It returns nil if no samples are needed, or if the scheme, the strategy or the
// number of examples are not known before the data. watch, if not nil, is told of its progress.
func (p Plan) Outlook(
	ctx context.Context,
	strategy *mechanism.Strategy,
	watch func(calibration.Phase),
) (*calibration.Outlook, error) {
	if strategy == nil ||
		p.Scheme.Prob == 0 && p.Scheme.BatchSize != 0 && p.numbered() == 0 && !p.Scheme.Kind().ExactBatchSize {
		return nil, nil
	}
	if p.Scheme.MaxBatchSize > 0 && p.numbered() == 0 {
		return nil, nil
	}
	run, err := p.run(strategy)
	if err != nil {
		return nil, err
	}
	problem := AccountOf(p).problem(run)
	problem.Watch = watch
	o, err := problem.Outlook(ctx, 0)
	if err != nil || !o.Samples {
		return nil, err
	}
	return o, nil
}

// Preflight returns the refusals that need no data and that are not the fault of a single field: a
// batch size that the examples cannot give, if their number is known, and a combination of scheme,
// strategy and examples per owner without an analysis. They come before the first byte is written,
// and in a dry run. The plan's fields must be valid.
func (p Plan) Preflight() error {
	strategy := p.Strategy.StandIn()
	run, err := p.run(strategy)
	if err != nil {
		return InPlan("batches", err)
	}
	if strategy == nil {
		return nil // it is known once it is made
	}
	return InPlan("privacy", AccountOf(p).checkMost(run))
}

// run returns the run that the account is for, as far as it is known before the examples are.
func (p Plan) run(strategy *mechanism.Strategy) (accounting.Run, error) {
	spec, err := p.foreseen()
	return accounting.Run{
		Sampler:             spec,
		Strategy:            strategy,
		MaxExamplesPerOwner: max(1, AccountOf(p).MaxPerOwner),
		Examples:            cmp.Or(p.numbered(), unknownExamples),
	}, err
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
	return s.WithoutExamples().
		Spec(sampling.Population{Examples: unknownExamples, Neighborhoods: sampling.Neighborhoods{1: unknownExamples},
			Owners: sampling.OwnerSizes{1: unknownExamples}})
}

// PlanEstimate is the expected output of a stage. It follows from the plan and from the tables that
// are there, all of which is public. No outcome of chance is in it.
type PlanEstimate struct {
	Rows  int64 `json:"rows,omitempty"`  // of batches: participations; of noise: values
	Files int   `json:"files,omitempty"` // without the index
	Bytes int64 `json:"bytes,omitempty"` // of these files, at least 0

	Sampled bool `json:"sampled,omitempty"` // an account that draws samples: it may end without a certificate

	// Outlook is a forecast of the samples of an account before they are drawn; nil where
	// there is nothing to say.
	Outlook *calibration.Outlook `json:"outlook,omitempty"`

	// SuggestedMaxBatchSize, of account, is the smallest maximum batch size that adds at most
	// accounting.SuggestedShare to delta at any noise multiplier; 0 where none is known.
	SuggestedMaxBatchSize int `json:"suggested_max_batch_size,omitempty"`
}

// Estimate returns the expected output of a stage.
func (p Plan) Estimate(stage string) PlanEstimate { return Named(stage).estimate(p) }

// Product returns the product of counts above 0, or 2^62 if it is larger: no disk has such sizes.
func Product(counts ...int64) int64 {
	const most = 1 << 62
	product := int64(1)
	for _, n := range counts {
		if n > 0 && product > most/n {
			return most
		}
		product *= n
	}
	return product
}
