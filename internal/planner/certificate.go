package planner

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"minsep/internal/accounting/calibration"
	"minsep/internal/montecarlo/tilt"
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

// roughTime is the time that the certificate of a row takes of one processor, in seconds, by
// figures that do not depend on its tables.
func (r *Request) roughTime(row *Row) float64 {
	if f, ok := calibration.ForecastProven(row.run); ok {
		return f.Seconds
	}
	each := stepSeconds[row.Scheme.Scheme] * float64(r.Steps)
	if row.run.MaxExamplesPerOwner > 1 {
		each *= calibration.OwnersFactor * float64(row.run.MaxExamplesPerOwner)
	}
	return tableSeconds*float64(r.Steps) + calibration.VerifySamples*row.Noise.Effort*each
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
	if err := out.planning.forecast(ctx, out.Rows); err != nil {
		return err
	}
	note := out.Note
	out.Why = nil
	out.explain()
	out.Note = note
	return nil
}

// forecast fills in the times of the certificates of a ranking's rows.
func (p *planning) forecast(ctx context.Context, rows []*Row) error {
	scales, used, first := map[kind]float64{}, 0.0, 1.0
	for i, row := range toForecast(rows) {
		// The tables of a forecast may take longer than the plan: rows beyond the limit get a scaled
		// time.
		if used > dear || float64(p.Steps)*float64(row.Scheme.MinSep) > mostTables {
			continue
		}
		p.say(row.Name() + ", the time of its certificate")
		c, rough := p.claim(row), p.roughTime(row)
		problem := calibration.Problem{
			Run:         c.Run,
			Epsilon:     c.Epsilon,
			Delta:       c.Delta,
			AlsoEpsilon: further(p.Epsilon),
		}
		f, err := problem.Forecast(ctx, row.Noise.Multiplier)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, tilt.ErrTable):
			continue
		case err != nil:
			return err
		}
		if budget := budgetFor(f.Enough); budget > 0 {
			f = problem.Within(f, budget)
		}
		used += 2 * f.Tables
		// The rough times are of another machine; rows of one kind differ from it by about the same
		// factor.
		scale := f.Seconds / rough
		if scales[row.kind()] = scale; i == 0 {
			first = scale
		}
		for _, one := range row.sharers() {
			one.cost, one.CPU = f, f.Seconds
			one.Noise = one.Noise.WithEffort(f.Effort)
		}
	}
	for _, row := range rows {
		if row.Refused != "" || row.Noise.Proven || row.cost.Seconds > 0 {
			continue
		}
		scale := scales[row.kind()]
		if scale == 0 {
			scale = first
		}
		row.CPU = scale * p.roughTime(row)
	}
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
	r, err := requestOf(ctx, NamedPlan{Plan: p})
	if err != nil {
		return 0, err
	}
	// Bounding has left one number of examples per owner: the plan's.
	of := r.Populations[0]
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
