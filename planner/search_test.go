package planner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"minsep/accounting"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestSolve: the value that is found reaches the target, and one that is 4 % further does not.
func TestSolve(t *testing.T) {
	r := small()
	r.Schemes, r.Kinds = []string{"fixed", "poisson", "cyclic-poisson"}, []string{"identity", "banded-toeplitz"}
	r.Populations = []Population{{MaxPerOwner: 1, Examples: 3200, Given: 3200}}
	for _, c := range []struct {
		quantity         string
		batches          []float64
		steps            int
		epsilon          float64
		between, further float64 // a value whose noise is the target, and a factor that goes beyond it
		last             float64
		found            string
	}{
		{SolveBatchSize, []float64{50, 800}, 32, 2, 200, .96, 50, "A batch size of "},
		{SolveSteps, []float64{100}, 200, 2, 70, 1.05, 200, " steps are the most "},
		{SolveEpsilon, []float64{100}, 32, 10, 1.7, .96, .01, "Epsilon "},
	} {
		r := r
		r.BatchSizes, r.Steps, r.Epsilon = c.batches, c.steps, c.epsilon
		noise := func(x float64) float64 {
			return planned(t, (&solver{quantity: c.quantity}).with(r, x)).Rows[0].Relative
		}
		target := noise(c.between)
		out, err := r.Solve(t.Context(), c.quantity, target)
		if err != nil {
			t.Fatal(c.quantity, err)
		}
		value := map[string]float64{SolveBatchSize: out.Request.BatchSizes[0], SolveSteps: float64(out.Request.Steps), SolveEpsilon: out.Request.Epsilon}[c.quantity]
		if out.Rows[0].Relative > target*1.0001 || noise(value*c.further) <= target || !strings.Contains(out.Solved, c.found) {
			t.Errorf("%s %g has %g, target %g; %g has %g: %s", c.quantity, value, out.Rows[0].Relative, target, value*c.further, noise(value*c.further), out.Solved)
		}
		out, err = r.Solve(t.Context(), c.quantity, 2*noise(c.last))
		if err != nil || !strings.Contains(out.Solved, "of those that were to be tried") || !strings.Contains(out.Solved, fmt.Sprint(c.last)) {
			t.Errorf("%s: a target that the whole range reaches: %v, %v", c.quantity, out, err)
		}
		var bad *ParamError
		if _, err := r.Solve(context.Background(), c.quantity, target/1000); !errors.As(err, &bad) || bad.Param != "target" {
			t.Errorf("%s: a target that is not reached: %v", c.quantity, err)
		}
	}
	var bad *ParamError
	if _, err := r.Solve(context.Background(), "delta", .1); !errors.As(err, &bad) || bad.Param != "solve" {
		t.Errorf("a quantity that is none: %v", err)
	}
}

// TestEpsilonOf: the privacy of independent noise is that at which it is found again.
func TestEpsilonOf(t *testing.T) {
	r := small()
	epsilon, err := r.EpsilonOf(1.5)
	if err != nil {
		t.Fatal(err)
	}
	r.Epsilon = epsilon
	p := &planning{Request: &r}
	if sigma, err := p.dpsgd(320, 1).NoiseMultiplier(40); err != nil || math.Abs(sigma/1.5-1) > 3e-3 {
		t.Errorf("ε = %g, at which the noise multiplier is %g, %v", epsilon, sigma, err)
	}
	_, err = r.EpsilonOf(1e-3)
	if bad, ok := err.(*ParamError); !ok || bad.Param != "noise multiplier" {
		t.Errorf("of a noise multiplier that gives no privacy: %v", err)
	}
}

// TestNothingSeen: looks of which no sample says anything bound the divergence, and do not take
// part in the fit beside one that does.
func TestNothingSeen(t *testing.T) {
	seen := look{x: -.3, gap: .01, gapErr: .01, samples: 512, seen: 9, squares: 3, largest: .6}
	alone := (&searcher{pace: unknownPace, looks: []look{seen}}).fit()
	looks := []look{seen}
	for _, x := range []float64{.2, .1, 0, -.1} {
		looks = append(looks, look{x: x, gap: -.1, gapErr: .03, samples: 256, seen: 0})
	}
	if got := (&searcher{pace: unknownPace, looks: looks}).fit(); got != alone {
		t.Errorf("beside looks that saw nothing %+v, alone %+v", got, alone)
	}
	none := (&searcher{pace: unknownPace, looks: looks[1:3]}).fit()
	if math.Abs(none.x) > 1e-9 {
		t.Errorf("of the bound at ln σ = .1 with a gap of -.1: %+v", none)
	}
}

// TestBehind: what is clearly behind may be estimated with fewer samples, and what is then said of
// it holds against its full estimate: the noise multiplier up to its error, and that it is behind.
func TestBehind(t *testing.T) {
	toeplitz, _, err := mechanism.Problem{Workload: mechanism.Prefix(24)}.OptimalToeplitz(3)
	if err != nil {
		t.Fatal(err)
	}
	run := accounting.Run{Sampler: sampling.Spec{BMinSep: &sampling.BMinSep{Prob: .05, Steps: 24, MinSep: 3, WarmStart: true}}, Strategy: toeplitz, MaxExamplesPerOwner: 2}
	of := claim{run: run, epsilon: 2, delta: 1e-5}
	full, err := of.estimate(t.Context(), guess{1, unknownPace, math.Inf(1)}, .002)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []float64{.5, .7, .85, .93, 1.01, 1.1} {
		behind := part * full.Multiplier
		got, err := of.estimate(t.Context(), guess{behind, unknownPace.similar(), behind}, tolerance)
		if err != nil {
			t.Fatal(err)
		}
		if off := math.Abs(got.Multiplier - full.Multiplier); off > 4*math.Hypot(got.StdErr, full.StdErr) || got.StdErr > rough*got.Multiplier {
			t.Errorf("from %g on behind: %g ± %g, in full %g ± %g", behind, got.Multiplier, got.StdErr, full.Multiplier, full.StdErr)
		}
		rough := got.StdErr > 1.01*tolerance*got.Multiplier
		if rough && (got.Multiplier-apart*got.StdErr <= behind || full.Multiplier <= behind) {
			t.Errorf("%g ± %g is taken as behind %g, in full %g", got.Multiplier, got.StdErr, behind, full.Multiplier)
		}
		if part > 1 && rough {
			t.Errorf("behind from %g of the noise multiplier on: %g ± %g", part, got.Multiplier, got.StdErr)
		}
	}
}

// TestProgress: stages are told in their order, from the first to the last.
func TestProgress(t *testing.T) {
	r := small()
	r.Numbered, r.Schemes, r.Kinds = false, []string{"poisson", "epoch-min-sep"}, []string{"identity", "banded-toeplitz"}
	r.Populations = []Population{{MaxPerOwner: 1, Examples: 320, Given: 330}, {MaxPerOwner: 2, Examples: 330, Given: 330}}
	var stages []string
	last := Progress{}
	r.Watch = func(p Progress) {
		if p.Stage != last.Stage {
			stages = append(stages, fmt.Sprintf("%d of %d: %s", p.Stage, p.Stages, p.Name))
		}
		last = p
	}
	out := planned(t, r)
	// No candidate of balls-in-bins is asked for.
	want := []string{"1 of 5: what is proven without samples", "2 of 5: schemes with a least distance", "4 of 5: 2 examples per owner", "5 of 5: telling the best apart"}
	if !slices.Equal(stages, want) || last.Done != len(out.Rows) {
		t.Errorf("%d of %d candidates, stages %q", last.Done, len(out.Rows), stages)
	}
}

// TestStages: what one stage of a plan finds is known in the next, and owners of several examples
// come last.
func TestStages(t *testing.T) {
	r := small()
	r.Numbered, r.Schemes, r.Kinds = false, []string{"poisson", "epoch-min-sep"}, []string{"identity", "banded-toeplitz"}
	r.Populations = []Population{{MaxPerOwner: 1, Examples: 320, Given: 330}, {MaxPerOwner: 2, Examples: 330, Given: 330}}
	out := planned(t, r)
	first, looked := out.Rows[0], 0
	if first.MaxPerOwner != 1 {
		t.Fatalf("%s is the first: with nearly as many examples, two of an owner cannot be better", first.Name())
	}
	for _, row := range out.Rows {
		if row.MaxPerOwner != 2 || row.Noise.Proven || row.Refused != "" {
			continue
		}
		looked++
		full, err := (claim{run: row.run, epsilon: r.Epsilon, delta: r.Delta, seed: 1}).estimate(t.Context(), guess{row.Noise.Multiplier, unknownPace, math.Inf(1)}, tolerance)
		if err != nil {
			t.Fatal(err)
		}
		if off := math.Abs(full.Multiplier - row.Noise.Multiplier); off > 4*math.Hypot(full.StdErr, row.Noise.StdErr) || full.Multiplier*row.unit/row.BatchSize <= first.Relative {
			t.Errorf("%s: %g ± %g, in full %g ± %g", row.Name(), row.Noise.Multiplier, row.Noise.StdErr, full.Multiplier, full.StdErr)
		}
		if row.Noise.Samples > 4*few {
			t.Errorf("%s: %d samples of what is clearly behind", row.Name(), row.Noise.Samples)
		}
	}
	if looked < 3 {
		t.Errorf("%d candidates of two examples per owner", looked)
	}
}
