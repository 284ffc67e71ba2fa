package planner

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"minsep/internal/accounting/calibration"
	"minsep/internal/stages"
	"minsep/mechanism"
	"minsep/sampling"
)

// budgetFor is the budget that a plan has for a certificate that takes so many seconds of
// processors, in whole minutes; 0 for the default one.
func budgetFor(seconds float64) time.Duration {
	if seconds <= calibration.DefaultCPUTime.Seconds() {
		return 0
	}
	return time.Duration(math.Ceil(seconds/60)) * time.Minute
}

// Time fills in the time that the certificate of the row with a rank takes on this machine, by tables
// and samples that it times, unless its tables take longer than the plan. Nothing else in a plan
// depends on the machine.
func (out *Result) Time(ctx context.Context, rank int) error {
	i := slices.IndexFunc(out.Rows, func(row *Row) bool { return row.Rank == rank })
	if i < 0 || out.Rows[i].Noise.Proven {
		return nil
	}
	row, p := out.Rows[i], out.planning
	if float64(p.Steps)*float64(row.Scheme.MinSep) > mostTables {
		return nil
	}
	p.say(row.Name() + ", the time of its certificate")
	c := p.claim(row)
	o, err := calibration.Problem{
		Run:         c.Run,
		Epsilon:     c.Epsilon,
		Delta:       c.Delta,
		AlsoEpsilon: further(p.Epsilon),
	}.Outlook(ctx, row.Noise.Multiplier)
	if err != nil {
		return err
	}
	row.CPU, row.needs = max(o.Expected, o.Ample), o.Ample
	return nil
}

// ErrNoForecast says that a forecast of a plan would take too long.
var ErrNoForecast = errors.New("the graph or the strategy is too large for a forecast of the certificate")

// ForecastPlan is about how many seconds of processors the certificate of a plan for minsep run takes,
// before it runs, with a
// strategy of [stages.Plan.QuickStrategy]. Its graph, of about so many edges, is bounded in memory
// for that.
func ForecastPlan(
	ctx context.Context,
	p stages.Plan,
	strategy *mechanism.Strategy,
	edges int64,
) (seconds float64, err error) {
	if edges > mostForecastEdges || strategy == nil {
		return 0, ErrNoForecast
	}
	of, err := populationOf(ctx, p)
	if err != nil {
		return 0, err
	}
	spec, err := p.Scheme.Spec(
		sampling.Population{
			Examples:      of.Examples,
			Owners:        sampling.OwnerSizes{1: of.Owners},
			Neighborhoods: sampling.Neighborhoods{1: of.Examples},
		},
	)
	if err != nil {
		return 0, err
	}
	problem := p.Problem(spec, strategy, of.Examples)
	if p.Scheme.Sample == sampling.SampleOwners {
		problem.Run.MaxExamplesPerOwner, problem.Run.Examples = 1, of.Owners
	}
	o, err := problem.Outlook(ctx, 0)
	if err != nil {
		return 0, err
	}
	return cmp.Or(o.Expected, o.Seconds), nil
}
