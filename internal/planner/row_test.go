package planner

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"minsep/internal/must"
	"minsep/internal/stages"
	"minsep/sampling"
)

// TestTies: an order that an error could change is a tie.
func TestTies(t *testing.T) {
	row := func(relative, stdErr float64) *Row { return &Row{Relative: relative, StdErr: stdErr} }
	if behind(row(1, .01), row(1.04, .01)) {
		t.Error("1 ± 0.01 and 1.04 ± 0.01 are told apart")
	}
	if !behind(row(1, .01), row(1.05, .01)) || !behind(row(1, 0), row(1.0001, 0)) {
		t.Error("1 ± 0.01 and 1.05 ± 0.01 are not told apart, or figures without errors are not")
	}
	out := smallPlan(t)
	for i, row := range out.Rows {
		if row.Refused != "" {
			continue
		}
		if row.Rank != i+1 || i > 0 && row.Relative < out.Rows[i-1].Relative || row.Tied != (i > 0 && !behind(out.Rows[0], row)) {
			t.Errorf("row %d: %+v", i, row)
		}
	}
	if out.Rows[0].Noise.OneDirection {
		t.Error("of the first only one direction was looked at")
	}
}

// TestRunPlan: the plan of a row is one that minsep run takes.
func TestRunPlan(t *testing.T) {
	out := smallPlan(t)
	for _, row := range out.Rows {
		text := must.Get(out.WritePlan(row, nil))(t)
		p, err := stages.ParsePlan("plan.json", text)
		if err == nil {
			err = errors.Join(p.Validate(), p.Preflight())
		}
		if err != nil && row.Refused == "" {
			t.Errorf("%s: %v\n%s", row.Name(), err, text)
		}
		if row.Refused != "" {
			continue
		}
		spec := must.Get(p.Scheme.Spec(sampling.Population{Examples: p.Examples}))(t)
		a, b := fmt.Sprintf("%+v", spec.Scheme()), fmt.Sprintf("%+v", row.run.Sampler.Scheme())
		if a != b {
			t.Errorf("%s: the plan runs %s, ranked was %s", row.Name(), a, b)
		}
	}
}

// TestForecast: the time of the first's certificate is known, and a row that is not the first has
// one only if it needs no samples.
func TestForecast(t *testing.T) {
	out := smallPlan(t)
	rows := slices.Clone(out.Rows)
	sampled := slices.IndexFunc(rows, func(row *Row) bool { return row.Refused == "" && !row.Noise.Proven })
	toFront(rows, sampled)
	if rows[0].CPU != 0 {
		t.Errorf("before it is looked at: %g s", rows[0].CPU)
	}
	first, alone := *rows[0], *out
	alone.Rows = []*Row{&first}
	if err := alone.Time(t.Context(), first.Rank); err != nil || !(first.CPU > 0.05 && first.CPU < 300) || !(first.needs > 0) {
		t.Errorf("%v: %g s, of %g", err, first.CPU, first.needs)
	}
	for _, row := range rows {
		if row.Refused == "" && (row.CPU > 0) != row.Noise.Proven {
			t.Errorf("%s: %g s", row.Name(), row.CPU)
		}
	}
}
