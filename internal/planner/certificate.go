package planner

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"minsep/internal/accounting/calibration"
	"minsep/internal/stages"
	"minsep/mechanism"
	"minsep/sampling"
)

// Only [calibration.Problem] knows the time that a certificate takes: it makes tables for
// the noise multiplier, and times samples. It is asked for the rows that [Result.Time] looks at,
// and by dry runs of a plan or of an account. The times of the other rows of a plan follow from
// these rows, by the figures below.

// Seconds of one processor: of a step's tables, and of a step of a sample, by scheme.
const tableSeconds = 25e-3

// stepSeconds is the time of a sample for each of its steps: at a small ε, where orders are high,
// up to three times as much.
var stepSeconds = map[string]float64{
	"b-min-sep":     0.12e-6,
	"epoch-min-sep": 0.12e-6,
	"rotation":      0.015e-6,
	"balls-in-bins": 0.04e-6,
}

// budgetFor is the budget that a plan has for a certificate that takes so many seconds of
// processors, in whole minutes; 0 for the default one.
func budgetFor(seconds float64) time.Duration {
	if seconds <= calibration.DefaultCPUTime.Seconds() {
		return 0
	}
	return time.Duration(math.Ceil(seconds/60)) * time.Minute
}

// kind is the common part of rows whose certificates take time alike.
type kind struct {
	scheme string
	owner  int
}

func (row *Row) kind() kind { return kind{row.Scheme.Scheme, row.run.MaxExamplesPerOwner} }

// toForecast returns the rows of a ranking that get a forecast: the first, and the best of each
// kind.
func toForecast(rows []*Row) (list []*Row) {
	seen := map[kind]bool{}
	for _, row := range rows {
		if row.Refused == "" && !row.Noise.Proven && !seen[row.kind()] {
			list = append(list, row)
			seen[row.kind()] = true
		}
	}
	return list
}

// Time fills in the times that the certificates of the rows take on this machine, by tables and
// samples that it times. Nothing else in a plan depends on the machine. Without Time, the times
// follow from figures of another machine.
func (out *Result) Time(ctx context.Context) error {
	return out.planning.forecast(ctx, out.Rows)
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
	if f, ok := calibration.ForecastProven(problem.Run); ok {
		return f.Seconds, nil
	}
	o, err := problem.Outlook(ctx)
	if err != nil {
		return 0, err
	}
	return cmp.Or(o.Expected, o.Seconds), nil
}
