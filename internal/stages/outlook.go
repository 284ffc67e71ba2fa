package stages

import (
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
	if strategy.WorkloadFile() != "" || strategy.Seconds() > quickStrategy {
		return nil, nil
	}
	return strategy.Make(ctx, nil)
}

// Problem returns the claim of the plan's account, for a sampler, a strategy and the number of
// examples, or of owners where they are sampled.
func (p Plan) Problem(spec sampling.Spec, strategy *mechanism.Strategy, units int64) calibration.Problem {
	a := p.AccountParams()
	run := accounting.Run{Sampler: spec, Strategy: strategy, MaxExamplesPerOwner: max(1, a.MaxPerOwner), Examples: units}
	return calibration.Problem{Run: run, Epsilon: a.Epsilon, Delta: a.Delta, NoiseMultiplier: a.NoiseMultiplier, Samples: a.Samples, CPUTime: a.CPUTime, AlsoEpsilon: a.AlsoEpsilon}
}

// Outlook forecasts the samples of the plan's account before it runs, with a strategy of
// QuickStrategy. It returns nil if no samples are needed, or if the scheme, the strategy or the
// number of examples are not known before the data. watch, if not nil, is told of its progress.
func (p Plan) Outlook(ctx context.Context, strategy *mechanism.Strategy, watch func(calibration.Phase)) (*calibration.Outlook, error) {
	if strategy == nil || p.Scheme.Prob == 0 && p.Scheme.BatchSize != 0 && p.numbered() == 0 && !p.Scheme.Kind().ExactBatchSize {
		return nil, nil
	}
	if p.Scheme.MaxBatchSize > 0 && p.numbered() == 0 {
		return nil, nil
	}
	spec, err := p.foreseen()
	if err != nil {
		return nil, err
	}
	problem := p.Problem(spec, strategy, p.numbered())
	if problem.Run.Examples == 0 {
		problem.Run.Examples = unknownExamples
	}
	problem.Watch = watch
	o, err := problem.Outlook(ctx)
	if err != nil || !o.Samples {
		return nil, err
	}
	return o, nil
}
