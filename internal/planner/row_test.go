package planner

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/tilt"
	"minsep/internal/stages"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestSameAs: independent noise has the noise of its own batch size.
func TestSameAs(t *testing.T) {
	r := small()
	p := &planning{Request: &r}
	of := r.Populations[0]
	unit := p.make(t.Context(), p.workload(mechanism.KindIdentity)).error.RMSE
	for _, batch := range []float64{20, 40, 67, 160} {
		sigma, err := p.dpsgd(of.Examples, 1).NoiseMultiplier(batch)
		if err != nil {
			t.Fatal(err)
		}
		same, err := p.dpsgd(of.Examples, 1).SameAs(t.Context(), unit, sigma*unit/batch)
		if err != nil || math.Abs(same/batch-1) > .03 {
			t.Errorf("batch size %g: as %g, %v", batch, same, err)
		}
	}
	if same, err := p.dpsgd(of.Examples, 1).SameAs(t.Context(), unit, 1e-6); err != nil || same != 0 {
		t.Errorf("noise that no batch size has: %g, %v", same, err)
	}
}

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
	for i, row := range out.Rows[:mostTied] {
		if row.Tied && row.Noise.OneDirection {
			t.Errorf("row %d is tied, and only one direction was looked at", i+1)
		}
	}
}

// TestRunPlan: the plan of a row is one that minsep run takes.
func TestRunPlan(t *testing.T) {
	out := smallPlan(t)
	for _, row := range out.Rows {
		text, err := out.WritePlan(row, nil)
		if err != nil {
			t.Fatal(err)
		}
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
		spec, err := p.Scheme.Spec(sampling.Population{Examples: p.Examples})
		if err != nil {
			t.Fatal(err)
		}
		a, b := fmt.Sprintf("%+v", spec.Scheme()), fmt.Sprintf("%+v", row.run.Sampler.Scheme())
		if a != b {
			t.Errorf("%s: the plan runs %s, ranked was %s", row.Name(), a, b)
		}
	}
}

// TestForecast: the time of the first's certificate is that of tables and samples of its noise
// multiplier, for rows that share it too; others of its kind are set against it.
func TestForecast(t *testing.T) {
	toeplitz, _, err := mechanism.Problem{Workload: mechanism.Prefix(24)}.OptimalToeplitz(3)
	if err != nil {
		t.Fatal(err)
	}
	r := small()
	r.Steps = 24
	p := &planning{Request: &r}
	run := accounting.Run{Sampler: sampling.Spec{BMinSep: &sampling.BMinSep{Prob: .05, Steps: 24, MinSep: 3, WarmStart: true}}, Strategy: toeplitz, MaxExamplesPerOwner: 1}
	row := func(scheme string, effort, reverse float64) *Row {
		row := &Row{Scheme: sampling.Params{Scheme: scheme, MinSep: 3}, run: run, Noise: calibration.Noise{Multiplier: 1.2, Effort: effort}}
		row.CPU = p.roughTime(row)
		return row
	}
	first, twin, other, elsewhere, proven := row("b-min-sep", 1e8, 0), row("b-min-sep", 1e8, 0), row("b-min-sep", 3e8, 0), row("epoch-min-sep", 2e8, 0), row("b-min-sep", 0, 0)
	proven.Noise.Proven = true
	first.share(twin)
	rough := p.roughTime(first)
	if err := p.forecast(t.Context(), []*Row{first, twin, other, proven}); err != nil {
		t.Fatal(err)
	}
	want := 0.0
	for i, d := range montecarlo.Directions {
		proposal, err := tilt.NewProposal(t.Context(), tilt.Config{Spec: run.Loss(1.2), Epsilon: r.Epsilon, Direction: d})
		if err != nil {
			t.Fatal(err)
		}
		if proposal.Divergence > r.Delta/1000 {
			want += []float64{1, calibration.FarShare}[i] * proposal.Bound / r.Delta
		}
	}
	if first.Noise.Effort != want || twin.Noise.Effort != want || !(first.CPU > 0) || twin.CPU != first.CPU {
		t.Errorf("M/δ %g and %g of its twin, want %g; %g s and %g s", first.Noise.Effort, twin.Noise.Effort, want, first.CPU, twin.CPU)
	}
	if got, want := other.CPU/p.roughTime(other), first.CPU/rough; math.Abs(got/want-1) > 1e-9 {
		t.Errorf("another row of the kind is scaled by %g, the first by %g", got, want)
	}
	if got := toForecast([]*Row{first, twin, other, elsewhere, proven}); !slices.Equal(got, []*Row{first, elsewhere}) {
		t.Errorf("%d rows are looked at", len(got))
	}
}
