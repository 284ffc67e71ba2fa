package planrun

import (
	"context"

	"minsep/internal/manifest"
	"minsep/internal/pipelines"
	"minsep/internal/stages"
)

// planStage is a stage of the plan with its result.
type planStage struct {
	stages.Result
	inPlan pipelines.InPlan
}

// stageOf returns the stage of a name.
func (r *planRun) stageOf(name string) planStage {
	return planStage{r.Result(name), pipelines.StageInPlan(name)}
}

// report takes the figures of a finished result, and returns the number of its files.
func (r *planRun) report(ctx context.Context, s planStage) (files int, err error) {
	if s.inPlan.Report != nil {
		if err := s.inPlan.Report(ctx, r.Directory, &r.result.Figures); err != nil {
			return 0, err
		}
	}
	if s.Formats == nil {
		return 1, nil
	}
	ix, err := manifest.Read(ctx, s.Path())
	if err != nil {
		return 0, err
	}
	return len(ix.Files), nil
}
