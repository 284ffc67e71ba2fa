package planner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestStopped: a plan that is stopped gives the candidates that were looked at, in their order.
func TestStopped(t *testing.T) {
	for _, after := range []int{1, 3, 6} {
		ctx, cancel := context.WithCancel(t.Context())
		r := small()
		r.Watch = func(p Progress) {
			if p.Done >= after {
				cancel()
			}
		}
		out, err := r.Plan(ctx)
		if !errors.Is(err, context.Canceled) || out == nil || !out.Stopped {
			t.Fatalf("after %d: %+v, %v", after, out, err)
		}
		if len(out.Rows) < after || len(out.Rows) >= len(smallPlan(t).Rows) || len(out.Note) != 1 || !strings.Contains(out.Note[0], "was stopped") {
			t.Errorf("after %d: %d rows, %q", after, len(out.Rows), out.Note)
		}
		for i, row := range out.Rows {
			if row.Refused == "" && (row.Rank != i+1 || i > 0 && row.Relative < out.Rows[i-1].Relative || row.Noise.Multiplier <= 0) {
				t.Errorf("after %d: row %d is %+v", after, i, row)
			}
		}
	}
}

// TestDearCandidates: a strategy that takes long to make, and one with so many bands that estimates
// take long, are named and left out.
func TestDearCandidates(t *testing.T) {
	r := small()
	r.Steps, r.Schemes, r.Kinds = 3000, nil, nil
	r.Populations[0] = Population{MaxPerOwner: 1, Examples: 40 * 2500, Given: 40 * 2500}
	p := &part{setting: &setting{planning: &planning{Request: &r}, population: r.Populations[0], batch: 40}}
	for kind, bands := range map[string]int{"banded": 400, "bsr": dearBands + 1, "banded-toeplitz": 1000} {
		row, err := p.evaluate(t.Context(), p.with("b-min-sep", bands), p.banded(kind, bands, 0))
		if err != nil || !strings.HasPrefix(row.Refused, NotEstimated) || !strings.Contains(row.Refused, "write it into a plan") {
			t.Errorf("%s %d: %+v, %v", kind, bands, row, err)
		}
	}
}

// TestMaxBatchSizeTooSmall: where a maximum batch size leaves out all that would be better, the
// plan says so first, with a size that does not.
func TestMaxBatchSizeTooSmall(t *testing.T) {
	r := Request{Populations: []Population{{MaxPerOwner: 1, Examples: 100_000, Given: 100_000}}, Numbered: true, Steps: 10, BatchSizes: []float64{100}, Epsilon: 2, Delta: 1e-5,
		Objective: RMSE, Coordinates: 1, Schemes: []string{"poisson", "fixed"}, Kinds: []string{"identity", "bsr"}}
	whole := planned(t, r)
	r.MaxBatchSize = 130
	out := planned(t, r)
	if whole.TooSmall != "" || whole.Rows[0].Scheme.Scheme != "poisson" || out.Rows[0].Scheme.Scheme != "fixed" {
		t.Fatalf("first without a maximum: %s, with one: %s", whole.Rows[0].Name(), out.Rows[0].Name())
	}
	size := whole.Rows[0].SuggestedMaxBatchSize
	for _, want := range []string{"--max-batch-size 130 is too small for 1 candidate", fmt.Sprintf("--max-batch-size %d.", size)} {
		if !strings.Contains(out.TooSmall, want) {
			t.Errorf("%q does not say %q", out.TooSmall, want)
		}
	}
	r.MaxBatchSize = size
	if out := planned(t, r); out.TooSmall != "" || out.Rows[0].Scheme.Scheme != "poisson" {
		t.Errorf("with %d: %s first, %q", size, out.Rows[0].Name(), out.TooSmall)
	}
}
