package stages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"minsep/internal/leave"
	"minsep/internal/manifest"
	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/mechanism"
)

// ReadScheduleFile reads the learning rates of a strategy's parameters, if they name a file, which
// may be an object. Otherwise it returns nil.
func ReadScheduleFile(ctx context.Context, p mechanism.Params) ([]float64, error) {
	path := p.ScheduleFile()
	if path == "" {
		return nil, nil
	}
	f, err := store.Open(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, scheduleFault(p, noSuchFile)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", scheduleFault(p, ""), err)
	}
	defer f.Close()
	rates, err := mechanism.ReadRates(io.LimitReader(store.Text(f), maxText))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", param.Fault("schedule", path, "cannot be used"), err)
	}
	return rates, nil
}

// FindScheduleFile returns the fault of parameters that name a file which is not there: mostly it
// is a misspelt name of a schedule. It reads nothing, so that commands can tell this fault beside
// all others; a file that cannot be used is left to [ReadScheduleFile].
func FindScheduleFile(ctx context.Context, p mechanism.Params) error {
	if path := p.ScheduleFile(); path != "" {
		if _, err := store.Stat(ctx, path); errors.Is(err, fs.ErrNotExist) {
			return scheduleFault(p, noSuchFile)
		}
	}
	return nil
}

const noSuchFile = "; there is no such file"

func scheduleFault(p mechanism.Params, why string) error {
	rule := "must be a file, or one of " + strings.Join(mechanism.Schedules, ", ") + why
	return &ParamError{Param: "schedule", Value: p.Schedule, Rule: rule}
}

// MakeStrategy makes the strategy of parameters. If it is too large to make, the fault is of the
// parameters.
func MakeStrategy(ctx context.Context, p mechanism.Params) (*mechanism.Strategy, error) {
	rates, err := ReadScheduleFile(ctx, p)
	if err != nil {
		return nil, err
	}
	s, err := leave.Behind(ctx, func() (*mechanism.Strategy, error) { return p.Make(ctx, rates) })
	if errors.Is(err, mechanism.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", param.Fault("strategy", p.Kind, "must be smaller"), err)
	}
	return s, err
}

// strategyStage is the strategy in plans, run directories and inspections.
var strategyStage = Stage{
	Name:    "strategy",
	Group:   "strategy",
	Results: []string{manifest.StrategyFolder},
	Formats: []string{manifest.StrategyFormat},
	Reads:   []string{"strategy", "scheme.steps", "inputs.schedule"},
	faults: func(p Plan) error {
		c := param.Checker{}
		strategy := p.Strategy
		if strategy.Steps == p.Scheme.Steps && strategy.Steps < 1 {
			strategy.Steps = 1 << 14 // the scheme's fault; other faults can be seen at any number of steps
		}
		c.Requiref(
			strategy.Steps == p.Scheme.Steps || p.Scheme.Steps < 1,
			"steps of the strategy",
			p.Strategy.Steps,
			"must be %d, as the scheme has, or left out", p.Scheme.Steps,
		)
		c.Add(ofScheme(p, InPlan("strategy", strategy.Validate())))
		return c.Err()
	},
	estimate: func(Plan) PlanEstimate { return PlanEstimate{Files: 1} },
}

// strategyPath returns the path of the run's strategy.
func strategyPath(p Plan) string {
	return store.Join(p.Out, manifest.StrategyFolder, manifest.StrategyFile)
}

// ofScheme blames the scheme's field for a fault of the strategy's steps if the two are equal: a
// plan gives them there.
func ofScheme(p Plan, err error) error {
	param.Each(err, func(bad *param.Error) {
		if bad.Field == "strategy.steps" && p.Strategy.Steps == p.Scheme.Steps {
			bad.Field = "scheme.steps"
		}
	})
	return err
}
