package stages

import (
	"context"

	"minsep/accounting"
	"minsep/accounting/verification"
)

// outlookStrategy is how many seconds a strategy may take that is made for a dry run.
const outlookStrategy = 5

// Outlook is a forecast of the samples of the plan's account before it runs; nil where the
// scheme, the strategy or the number of examples that count are not known before the data, where a
// certificate is taken over, and where no samples are needed. watch, if not nil, is told of its
// progress.
func (p Plan) Outlook(ctx context.Context, watch func(verification.Phase)) (*verification.Outlook, error) {
	if p.Privacy.From != "" || p.Scheme.Prob == 0 && p.Scheme.BatchSize != 0 && p.numbered() == 0 && !p.Scheme.Kind().ExactBatchSize {
		return nil, nil
	}
	if p.Scheme.MaxBatchSize > 0 && p.numbered() == 0 || p.Strategy.WorkloadFile() != "" {
		return nil, nil
	}
	strategy := p.Strategy
	strategy.Steps = p.Scheme.Steps
	if strategy.Seconds() > outlookStrategy {
		return nil, nil
	}
	spec, err := p.foreseen()
	if err != nil {
		return nil, err
	}
	made, err := strategy.Make(ctx, nil)
	if err != nil {
		return nil, err
	}
	a := p.AccountParams()
	run := accounting.Run{Sampler: spec, Strategy: made, MaxExamplesPerOwner: max(1, a.MaxPerOwner), Examples: p.numbered()}
	if run.Examples == 0 {
		run.Examples = unknownExamples
	}
	o, err := verification.Problem{Run: run, Epsilon: a.Epsilon, Delta: a.Delta, NoiseMultiplier: a.NoiseMultiplier, Samples: a.Samples, CPUTime: a.CPUTime, Watch: watch}.Outlook(ctx)
	if err != nil || !o.Samples {
		return nil, err
	}
	return o, nil
}
