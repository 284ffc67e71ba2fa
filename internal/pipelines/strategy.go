package pipelines

import (
	"context"
	"encoding/json"
	"io"

	"minsep/internal/manifest"
	"minsep/internal/stages"
	"minsep/mechanism"
)

// Strategy is the stage that makes a strategy in the run directory. It needs no job.
type Strategy struct {
	Params mechanism.Params // which strategy
}

// Validate reports every fault of the parameters.
func (s Strategy) Validate() error { return s.Params.Validate() }

// init registers the stage for plans.
func init() {
	inPlans["strategy"] = InPlan{Run: func(ctx context.Context, p stages.Plan, o Options, _ *Figures) error {
		return Strategy{Params: p.Strategy}.Run(ctx, o)
	}}
}

// Run makes the strategy.
func (s Strategy) Run(ctx context.Context, o Options) error {
	w, err := o.begin(ctx, beginning{stage: s})
	if err != nil {
		return err
	}
	defer w.end()
	index := manifest.Index{Format: manifest.StrategyFormat}
	if index.Params, index.ParamsSHA256, err = manifest.Params(s.Params); err != nil {
		return err
	}
	return w.write(
		anew(manifest.StrategyFolder, false, s.Params),
		func(_ manifest.Run, stage *manifest.Stage) (manifest.Index, error) {
			strategy, err := stages.MakeStrategy(ctx, s.Params)
			if err != nil {
				return index, err
			}
			file, err := stage.Write(
				manifest.StrategyFile,
				func(w io.Writer) error { return json.NewEncoder(w).Encode(strategy) },
			)
			index.Files = []manifest.File{file}
			return index, err
		},
	)
}
