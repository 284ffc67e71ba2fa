package planner

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
	"minsep/mechanism"
	"minsep/sampling"
	"minsep/stages"
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
		same, err := p.dpsgd(of.Examples, 1).SameAs(t.Context(), unit, 40, sigma*unit/batch)
		if err != nil || math.Abs(same/batch-1) > .03 {
			t.Errorf("batch size %g: as %g, %v", batch, same, err)
		}
	}
	if same, err := p.dpsgd(of.Examples, 1).SameAs(t.Context(), unit, 40, 1e-6); err != nil || same != 0 {
		t.Errorf("noise that no batch size has: %g, %v", same, err)
	}
}

// TestProvenTied: where the first needs samples, the best of those that are tied with it and need
// none is named, and else none.
func TestProvenTied(t *testing.T) {
	rows := []*Row{{Noise: Noise{StdErr: .1}, CPU: 600}, {Tied: true, Noise: Noise{StdErr: .1}},
		{Rank: 3, Tied: true, Noise: Noise{Proven: true}, CPU: 2, Scheme: sampling.Params{Scheme: "poisson"}, Strategy: mechanism.Params{Kind: "identity"}}}
	if got := provenTied(rows); !strings.Contains(got, "Row 3, poisson, identity, is the best of them") || !strings.Contains(got, "about 2 s of a processor, that of the first 10 min") {
		t.Errorf("%q", got)
	}
	rows[2].Tied = false
	if got := provenTied(rows); got != "" {
		t.Errorf("of a row that is behind: %q", got)
	}
	rows[0].Noise.Proven, rows[2].Tied = true, true
	if got := provenTied(rows); got != "" {
		t.Errorf("of a first that is proven: %q", got)
	}
}

// TestIndependentBeside: DP-SGD is compared with the first also where that has epochs of whole
// steps, which change its batch size a little, and not at another batch size or population.
func TestIndependentBeside(t *testing.T) {
	row := func(scheme string, batch float64, most int) *Row {
		return &Row{Scheme: sampling.Params{Scheme: scheme}, BatchSize: batch, MaxPerOwner: most, Bands: 1}
	}
	dpsgd := row("poisson", 256, 1)
	if got := independentBeside([]*Row{row("epoch-min-sep", 255.3, 1), row("poisson", 512, 1), row("poisson", 256, 2), row("b-min-sep", 256, 1), dpsgd}); got != dpsgd {
		t.Errorf("%+v", got)
	}
	if got := independentBeside([]*Row{row("epoch-min-sep", 255.3, 1), row("poisson", 258, 1)}); got != nil {
		t.Errorf("at another batch size: %+v", got)
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

// TestSharpen: where the certificate of the first takes long by an estimate's tables, its time is
// computed from its own, for rows that share its noise multiplier too.
func TestSharpen(t *testing.T) {
	toeplitz, _, err := mechanism.Problem{Workload: mechanism.Prefix(24)}.OptimalToeplitz(3)
	if err != nil {
		t.Fatal(err)
	}
	r := small()
	r.Steps = 24
	p := &planning{Request: &r}
	run := accounting.Run{Sampler: sampling.Spec{BMinSep: &sampling.BMinSep{Prob: .05, Steps: 24, MinSep: 3, WarmStart: true}}, Strategy: toeplitz, MaxExamplesPerOwner: 1}
	row := func(effort, reverse float64) *Row {
		row := &Row{Scheme: sampling.Params{Scheme: "b-min-sep", MinSep: 3}, run: run, Noise: Noise{Multiplier: 1.2, Effort: effort, reverse: reverse}}
		row.CPU = p.certificateTime(row)
		return row
	}
	cheap, dear, twin, reverse := row(100, 0), row(1e8, 0), row(1e8, 0), row(1e8, 1e7)
	dear.share(twin)
	for _, one := range []*Row{cheap, dear, reverse} {
		if err := p.sharpen(one); err != nil {
			t.Fatal(err)
		}
	}
	proposal, err := tilt.NewProposal(tilt.Config{Spec: run.Loss(1.2), Epsilon: r.Epsilon, Direction: montecarlo.P})
	if err != nil {
		t.Fatal(err)
	}
	if want := proposal.Bound / r.Delta; cheap.Noise.Effort != 100 || dear.Noise.Effort != want || twin.Noise.Effort != want || twin.CPU != p.certificateTime(twin) || reverse.Noise.Effort != 1e7 {
		t.Errorf("M/δ %g and %g of its twin, want %g; of the cheap one %g, of one whose other direction takes most %g", dear.Noise.Effort, twin.Noise.Effort, want, cheap.Noise.Effort, reverse.Noise.Effort)
	}
}

// TestNext: the next row is the first one that is behind.
func TestNext(t *testing.T) {
	first, refused := &Row{Rank: 1, Relative: 1}, &Row{Refused: "no", Relative: 2}
	equal, tied, behind := &Row{Rank: 2, Relative: 1}, &Row{Rank: 3, Relative: 1.1, Tied: true}, &Row{Rank: 4, Relative: 1.2}
	if got := (&Result{Rows: []*Row{first, equal, tied, behind, refused}}).Next(); got != behind {
		t.Errorf("%+v", got)
	}
	if got := (&Result{Rows: []*Row{first, equal, refused}}).Next(); got != nil {
		t.Errorf("%+v", got)
	}
}

// TestToSharpen: the first of all, and with several examples per owner the first of each scheme.
func TestToSharpen(t *testing.T) {
	row := func(scheme string, owner int) *Row {
		return &Row{Scheme: sampling.Params{Scheme: scheme}, run: accounting.Run{MaxExamplesPerOwner: owner}}
	}
	rows := []*Row{row("poisson", 1), row("b-min-sep", 1), row("b-min-sep", 2), row("poisson", 2), row("b-min-sep", 2), row("b-min-sep", 3), row("poisson", 1)}
	want := []*Row{rows[0], rows[2], rows[3], rows[5]}
	if got := toSharpen(rows); !slices.Equal(got, want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
	if got := toSharpen(nil); len(got) != 0 {
		t.Errorf("%d rows of none", len(got))
	}
}
