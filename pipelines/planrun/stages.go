package planrun

import (
	"context"

	"minsep/accounting"
	"minsep/manifest"
	"minsep/pipelines"
	"minsep/planner"
	"minsep/stages"
)

// planStage is a stage as a plan runs it.
type planStage interface {
	stages.Result
	run(ctx context.Context, o pipelines.Options) error
	// report takes the figures to report from a finished result, and returns the number of its
	// files.
	report(ctx context.Context) (files int, err error)
}

func (r *planRun) stageOf(name string) planStage {
	s := planResult{r.Result(name), r}
	switch name {
	case "bound":
		return boundStage{s}
	case "strategy":
		return strategyStage{s}
	case "account":
		return accountStage{s}
	case "form":
		return formStage{s}
	case "materialize":
		return materializeStage{s}
	}
	return noiseStage{s}
}

// planResult is the part of a stage that all have in common.
type planResult struct {
	stages.Result
	r *planRun
}

// report counts the files of a folder with an index.
func (s planResult) report(ctx context.Context) (int, error) {
	ix, err := manifest.Read(ctx, s.Path())
	if err != nil {
		return 0, err
	}
	return len(ix.Files), nil
}

type boundStage struct{ planResult }

func (s boundStage) run(ctx context.Context, o pipelines.Options) error {
	_, err := pipelines.Bound(s.r.Plan.BoundParams()).Run(ctx, o)
	return err
}

func (s boundStage) report(ctx context.Context) (int, error) {
	b, err := manifest.OpenBounded(ctx, s.Path())
	if err != nil {
		return 0, err
	}
	s.r.result.Examples, s.r.result.Copies = b.Rows, b.Summary.KeptCopies
	s.r.result.Kept = stages.KeptText(b.Summary, s.r.Plan.BoundParams().Bound)
	s.r.protected = b.Summary.Owners - b.Summary.KeptPerOwner.Of(0)
	return s.planResult.report(ctx)
}

type strategyStage struct{ planResult }

func (s strategyStage) run(ctx context.Context, o pipelines.Options) error {
	return pipelines.Strategy{Params: s.r.Plan.Strategy, Inputs: s.Inputs()}.Run(ctx, o)
}

type accountStage struct{ planResult }

func (s accountStage) run(ctx context.Context, o pipelines.Options) error {
	account := pipelines.Account(s.r.Plan.AccountParams())
	result, err := account.Run(ctx, o)
	if err != nil {
		result.Out, result.Epsilon, result.Delta = o.Out, account.Epsilon, account.Delta
		s.r.result.NotCertified = &result
		return err
	}
	s.r.result.Beside = planner.BesideClaim(result.Certificate, s.r.Plan.Strategy, planner.RMSE)
	return nil
}

func (s accountStage) report(ctx context.Context) (int, error) {
	c, err := stages.ReadCertificate(ctx, s.r.Out)
	if err != nil {
		return 0, err
	}
	to := &s.r.result
	to.NoiseMultiplier, to.Epsilon, to.Delta = c.NoiseMultiplier, c.Epsilon, c.Delta
	to.Status, to.Reason, to.Protects = string(c.Status), c.Reason, c.Protected()
	protected := s.r.protected
	switch {
	case s.r.Plan.Examples > 0:
		protected = s.r.Plan.Examples
	case c.Unit == accounting.UnitExample:
		protected = to.Copies
	}
	to.Protected, to.Weak = protected, c.Guarantee().Weak(protected)
	to.WithoutSamples = s.r.Plan.Privacy.NoiseMultiplier == 0 && s.r.Plan.Privacy.From == "" && c.WithoutSamples()
	return 1, nil
}

type formStage struct{ planResult }

func (s formStage) run(ctx context.Context, o pipelines.Options) error {
	_, err := pipelines.Form(s.r.Plan.FormParams()).Run(ctx, o)
	return err
}

func (s formStage) report(ctx context.Context) (int, error) {
	f, _, err := s.r.Plan.FormParams().Planned(ctx)
	if err != nil {
		return 0, err
	}
	s.r.result.Examples, s.r.result.Copies, s.r.result.ExpectedBatchSize = f.Examples, f.Copies, f.ExpectedBatchSize
	s.r.result.Owners, s.r.result.ExpectedExamples = f.Owners, f.ExpectedExamples
	return s.planResult.report(ctx)
}

type noiseStage struct{ planResult }

func (s noiseStage) run(ctx context.Context, o pipelines.Options) error {
	c, err := stages.ReadCertificate(ctx, s.r.Out)
	if err != nil {
		return err
	}
	_, err = pipelines.Noise(s.r.Plan.NoiseParams(c.NoiseMultiplier)).Run(ctx, o)
	return err
}

type materializeStage struct{ planResult }

func (s materializeStage) run(ctx context.Context, o pipelines.Options) error {
	_, err := pipelines.Materialize(s.r.Plan.MaterializeParams()).Run(ctx, o)
	return err
}
