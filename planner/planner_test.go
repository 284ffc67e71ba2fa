package planner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"minsep/accounting"
	"minsep/accounting/ledger"
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
	"minsep/accounting/verification"
	"minsep/internal/stattest"
	"minsep/mechanism"
	"minsep/sampling"
	"minsep/sampling/ownergraph/graphio"
	"minsep/sampling/stream"
	"minsep/stages"
)

// small is a request whose candidates take little time.
func small() Request {
	return Request{Populations: []Population{{MaxPerOwner: 1, Examples: 320, Given: 320}}, Numbered: true, Steps: 32, BatchSizes: []float64{40}, Epsilon: 2, Delta: 1e-3, Objective: RMSE,
		Coordinates: 1000, Schemes: []string{"poisson", "cyclic-poisson", "epoch-min-sep", "balls-in-bins", "fixed"}, Kinds: []string{"identity", "banded-toeplitz", "blt"}}
}

// ranked is the plan of small, for the tests that look at it.
var ranked = sync.OnceValues(func() (*Result, error) { return small().Plan(context.Background()) })

func smallPlan(t *testing.T) *Result {
	t.Helper()
	out, err := ranked()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func planned(t *testing.T, r Request) *Result {
	t.Helper()
	out, err := r.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRankingHolds runs alternatives to their certificates: a certified noise multiplier is above
// the estimate less its error, and little above it; so the order of those that are told apart is
// that of the certificates.
func TestRankingHolds(t *testing.T) {
	out := smallPlan(t)
	type certified struct {
		row   *Row
		error float64
	}
	var all []certified
	seen := map[string]int{}
	for _, row := range out.Rows {
		if row.Refused != "" || seen[row.Scheme.Scheme] == 2 || row.Noise.OneDirection && seen[row.Scheme.Scheme] == 1 {
			continue
		}
		seen[row.Scheme.Scheme]++
		plan, err := verification.Problem{Run: row.run, Epsilon: out.Request.Epsilon, Delta: out.Request.Delta, Samples: 40_000}.Plan(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", row.Name(), err)
		}
		l, err := ledger.Create(filepath.Join(t.TempDir(), "ledger"), plan.Protocol)
		if err != nil {
			t.Fatal(err)
		}
		c, err := verification.Finish(t.Context(), l, 1<<14, 0, nil)
		if err != nil {
			t.Fatalf("%s: %v", row.Name(), err)
		}
		n := row.Noise
		if low := n.Multiplier - 4*n.StdErr - 2e-3*n.Multiplier; c.NoiseMultiplier < low {
			t.Errorf("%s: certified at %g, estimated %g ± %g", row.Name(), c.NoiseMultiplier, n.Multiplier, n.StdErr)
		}
		if c.NoiseMultiplier > 1.06*n.Multiplier+4*n.StdErr {
			t.Errorf("%s: certified at %g only, estimated %g ± %g", row.Name(), c.NoiseMultiplier, n.Multiplier, n.StdErr)
		}
		all = append(all, certified{row, c.NoiseMultiplier * row.unit / row.BatchSize})
	}
	if len(all) < 6 {
		t.Fatalf("%d certificates", len(all))
	}
	for _, a := range all {
		for _, b := range all {
			// A certificate with few samples has up to 5 % more noise than it needs.
			if b.row.Relative > 1.06*a.row.Relative && behind(a.row, b.row) && b.error <= a.error {
				t.Errorf("%s is ranked before %s, with certified errors of %g and %g", a.row.Name(), b.row.Name(), a.error, b.error)
			}
		}
	}
}

// TestProven compares the coarse grid of losses with the fine one.
func TestProven(t *testing.T) {
	toeplitz, _, err := mechanism.Problem{Workload: mechanism.Prefix(24)}.OptimalToeplitz(4)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		run accounting.Run
	}{
		{accounting.Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: .125, Steps: 24}}, Strategy: mechanism.Identity(24), MaxExamplesPerOwner: 1}},
		{accounting.Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: .01, Steps: 24}}, Strategy: mechanism.Identity(24), MaxExamplesPerOwner: 3}},
		{accounting.Run{Sampler: sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: .5, Steps: 24, MinSep: 4}}, Strategy: toeplitz, MaxExamplesPerOwner: 1}},
		{accounting.Run{Sampler: sampling.Spec{Fixed: &sampling.Fixed{BatchSize: 8, Steps: 24, MinSep: 5}}, Strategy: toeplitz, MaxExamplesPerOwner: 1}},
	} {
		for _, epsilon := range []float64{.5, 6} {
			got, err := claim{run: c.run, epsilon: epsilon, delta: 1e-5}.proven(1, wide, narrow)
			if err != nil {
				t.Fatal(err)
			}
			want, err := c.run.Calibrate(t.Context(), epsilon, 1e-5)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Proven || got.Multiplier < want.Lower || got.Multiplier > 1.002*want.Upper {
				t.Errorf("%s at ε = %g: %+v, on the fine grid %+v", c.run.Sampler.Kind().Name, epsilon, got, want)
			}
		}
	}
}

// TestEstimate compares noise multipliers of independent events, estimated by samples, with their
// privacy loss distributions.
func TestEstimate(t *testing.T) {
	for _, c := range []struct{ prob, epsilon, delta, start float64 }{{.125, 1, 1e-4, 8}, {.02, 4, 1e-5, .1}, {.3, .5, 1e-3, 1}} {
		run := accounting.Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: c.prob, Steps: 24}}, Strategy: mechanism.Identity(24), MaxExamplesPerOwner: 1}
		of := claim{run: run, epsilon: c.epsilon, delta: c.delta}
		want, err := of.proven(1, wide, narrow)
		if err != nil {
			t.Fatal(err)
		}
		got, err := of.estimate(t.Context(), guess{c.start * want.Multiplier, unknownPace, math.Inf(1)}, tolerance)
		if err == nil {
			got, err = of.bothDirections(t.Context(), got, tolerance)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got.Proven || got.OneDirection || !(got.StdErr > 0) || got.StdErr > 1.01*tolerance*got.Multiplier {
			t.Errorf("p = %g: %+v", c.prob, got)
		}
		if off := math.Abs(got.Multiplier - want.Multiplier); off > 4.5*got.StdErr+1e-3*want.Multiplier {
			t.Errorf("p = %g, ε = %g: estimated %g ± %g, proven %g", c.prob, c.epsilon, got.Multiplier, got.StdErr, want.Multiplier)
		}
	}
}

// TestErrors: over seeds, estimates lie around what is proven as their standard errors say. The
// mean square of 20 standardised errors is outside of these limits once in 10⁴ times.
func TestErrors(t *testing.T) {
	run := accounting.Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: .3, Steps: 8}}, Strategy: mechanism.Identity(8), MaxExamplesPerOwner: 1}
	of := claim{run: run, epsilon: .5, delta: 1e-3}
	want, err := of.proven(1, wide, 1e-5)
	if err != nil {
		t.Fatal(err)
	}
	squares := 0.0
	const seeds = 20
	for of.seed = range seeds {
		n, err := of.estimate(t.Context(), guess{1.3 * want.Multiplier, unknownPace, math.Inf(1)}, tolerance)
		if err != nil {
			t.Fatal(err)
		}
		off := (n.Multiplier - want.Multiplier) / n.StdErr
		squares += off * off / seeds
	}
	if squares < 0.25 || squares > 2.6 {
		t.Errorf("mean square of the standardised errors: %.2f", squares)
	}
}

// TestWithin: where a search goes on is finite, also while one end is open.
func TestWithin(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct{ x, low, high, want float64 }{{1, -inf, inf, 1}, {2, -inf, 1, .8}, {1, 2, inf, 2.2}, {3, 1, 1.1, 1.05}, {3, 1, 2, 1.5}} {
		got := within(c.x, c.low, c.high)
		if !(got > c.low && got < c.high) || math.Abs(got-c.want) > .25 {
			t.Errorf("%+v: %g", c, got)
		}
	}
}

// TestSampledOwners: owners that are sampled need the noise of as many examples of an owner each,
// and are planned only where each example has one owner.
func TestSampledOwners(t *testing.T) {
	r := small()
	r.Schemes, r.Kinds, r.Numbered = []string{"poisson", "balls-in-bins"}, []string{"identity", "blt"}, false
	r.Populations = []Population{{MaxPerOwner: 1, Examples: 320, Given: 640, Owners: 320}, {MaxPerOwner: 2, Examples: 600, Given: 640, Owners: 320}}
	out := planned(t, r)
	graph := &stages.PlanGraph{Paths: []string{"edges.csv"}}
	compared := 0
	for _, row := range out.Rows {
		if row.Scheme.Sample == "" {
			continue
		}
		for _, other := range out.Rows {
			if other.Scheme.Sample == "" && other.MaxPerOwner == 1 && other.Scheme.Scheme == row.Scheme.Scheme && other.Strategy.Kind == row.Strategy.Kind {
				compared++
				if a, b := row.Noise, other.Noise; math.Abs(a.Multiplier-b.Multiplier) > 4*math.Hypot(a.StdErr, b.StdErr)+1e-3*b.Multiplier || row.BatchSize != other.BatchSize || row.Kept <= other.Kept {
					t.Errorf("%s: %+v, %s: %+v", row.Name(), row, other.Name(), other)
				}
			}
		}
		p := out.RunPlan(row, graph)
		if err := errors.Join(p.Validate(), p.Preflight()); err != nil || p.Bound.MaxExamplesPerOwner != 2 || p.Scheme.ExamplesPerOwner != 1 {
			t.Errorf("%s: %+v, %v", row.Name(), p, err)
		}
	}
	if compared != 2 {
		t.Errorf("%d candidates of sampled owners", compared)
	}
	r.Populations[1].Owners = 0
	for _, row := range planned(t, r).Rows {
		if row.Scheme.Sample != "" {
			t.Errorf("%s, of examples of several owners", row.Name())
		}
	}
}

// TestOtherDirection: where H(Q,P) needs more noise than what was found by H(P,Q), it counts.
func TestOtherDirection(t *testing.T) {
	run := accounting.Run{Sampler: sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 16, Period: 8}}, Strategy: mechanism.Identity(16), MaxExamplesPerOwner: 1}
	of := claim{run: run, epsilon: 1, delta: 1e-4}
	n, err := of.bothDirections(t.Context(), Noise{Multiplier: .3, StdErr: .001, OneDirection: true}, tolerance)
	if err != nil {
		t.Fatal(err)
	}
	if n.OneDirection || n.Multiplier < .5 {
		t.Errorf("noise far too small for H(Q,P) stayed: %+v", n)
	}
}

func TestDeterministic(t *testing.T) {
	r := small()
	r.Schemes, r.Kinds = []string{"epoch-min-sep"}, []string{"banded-toeplitz"}
	var texts [][]byte
	for range 2 {
		text, err := json.Marshal(planned(t, r))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Error("two plans of one request differ")
	}
	r.Seed = 1
	text, err := json.Marshal(planned(t, r).Rows[0].Noise)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(texts[0], text) {
		t.Error("another seed gives the same estimate")
	}
}

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

// TestCoverage counts the examples that take part at all.
func TestCoverage(t *testing.T) {
	balanced, err := sampling.NewBalancedMinSep(20, 3, .5)
	if err != nil {
		t.Fatal(err)
	}
	const examples = 40_000
	for _, s := range []sampling.Spec{
		{BMinSep: &sampling.BMinSep{Prob: .05, Steps: 20, MinSep: 4, WarmStart: true}},
		{BMinSep: &sampling.BMinSep{Prob: .05, Steps: 20, MinSep: 4}},
		{BMinSep: &sampling.BMinSep{Prob: .2, Steps: 5, MinSep: 9, WarmStart: true}},
		{Poisson: &sampling.Poisson{Prob: .03, Steps: 20}},
		{BallsInBins: &sampling.BallsInBins{Steps: 20, Period: 33}},
		{EpochMinSep: &sampling.EpochMinSep{Steps: 20, MinSep: 4, EpochSteps: 50}},
		{BalancedMinSep: &balanced},
		{CyclicPoisson: &sampling.CyclicPoisson{Prob: .1, Steps: 22, MinSep: 4, SecretPartition: true}},
	} {
		source := stream.NewSource(stream.PublicKey("coverage", nil))
		sampler := s.Process().Sampler(source)
		seen := 0
		for i := range examples {
			if len(sampler.Append(nil, source.IntAddress(int64(i), 0), int64(i))) > 0 {
				seen++
			}
		}
		if err := stattest.Count(seen, examples, coverage(s, examples)); err != nil {
			t.Errorf("%s: %v", s.Kind().Name, err)
		}
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

// TestUnits: figures in the units that their comments say.
func TestUnits(t *testing.T) {
	r := small()
	for _, row := range smallPlan(t).Rows {
		if row.Refused != "" {
			continue
		}
		s, err := row.Strategy.Make(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		e, err := s.Error(mechanism.Prefix(r.Steps))
		if err != nil {
			t.Fatal(err)
		}
		want := row.Noise.Multiplier * e.RMSE / row.BatchSize
		if math.Abs(row.Relative/want-1) > 1e-12 || math.Abs(row.RMSE/row.BatchSize/want-1) > 1e-12 || math.Abs(row.MaxSE/row.Noise.Multiplier/e.MaxSE-1) > 1e-12 {
			t.Errorf("%s: %+v", row.Name(), row)
		}
		if row.StateBytes != int64(row.State)*8*1000 || math.Abs(row.TimesEach-4) > .21 || row.Kept != 1 || !(row.CPU > 0) || !(row.Speed > 1e6) {
			t.Errorf("%s: %+v", row.Name(), row)
		}
	}
}

// TestSchedules: with a schedule of learning rates there are Toeplitz strategies too, made without
// it and measured with it, and the dense one whatever the objective.
func TestSchedules(t *testing.T) {
	r := small()
	r.Schemes, r.Kinds = []string{"poisson", "cyclic-poisson", "fixed"}, []string{"identity", "banded-toeplitz", "dense"}
	r.Workload, r.Objective = mechanism.Params{Workload: mechanism.MomentumWorkload, Momentum: .9, LearningRates: mechanism.CooldownRates}, MaxSE
	out := planned(t, r)
	rates := mechanism.Cooldown(r.Steps, .25, .05)
	kinds := map[string]int{}
	for _, row := range out.Rows {
		if row.Refused != "" {
			t.Errorf("%s: refused: %s", row.Name(), row.Refused)
			continue
		}
		kinds[row.Scheme.Scheme+" "+row.Strategy.Kind]++
		s, err := row.Strategy.Make(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		e, err := s.Error(mechanism.Momentum(r.Steps, .9, rates))
		if err != nil {
			t.Fatal(err)
		}
		if want := row.Noise.Multiplier * e.MaxSE / row.BatchSize; math.Abs(row.Relative/want-1) > 1e-9 {
			t.Errorf("%s: %g, want %g", row.Name(), row.Relative, want)
		}
	}
	for _, want := range []string{"cyclic-poisson banded-toeplitz", "fixed banded-toeplitz", "fixed dense"} {
		if kinds[want] == 0 {
			t.Errorf("no %s", want)
		}
	}
	if !slices.ContainsFunc(out.Note, func(text string) bool { return strings.Contains(text, "constant learning rates") }) || slices.ContainsFunc(smallPlan(t).Note, func(text string) bool { return strings.Contains(text, "constant learning rates") }) {
		t.Errorf("%q", out.Note)
	}
}

// TestPowers: the best power beside a root has as many bands, and at most its error.
func TestPowers(t *testing.T) {
	r := small()
	r.Schemes, r.Kinds = []string{"fixed"}, []string{"bsr", "bfr", "bisr", "bifr"}
	least := map[string]*Row{}
	for _, row := range planned(t, r).Rows {
		if least[row.Strategy.Kind] == nil {
			least[row.Strategy.Kind] = row
		}
	}
	for power, root := range map[string]string{"bfr": "bsr", "bifr": "bisr"} {
		a, b := least[power], least[root]
		if a == nil || b == nil || a.Refused != "" || a.Strategy.Bands != b.Strategy.Bands || a.Relative > b.Relative*(1+1e-9) {
			t.Errorf("%s: %+v; %s: %+v", power, a, root, b)
		}
	}
}

// TestLimits: what a trainer cannot hold is not planned, and what batches are cut to costs noise.
func TestLimits(t *testing.T) {
	r := small()
	r.Schemes = []string{"cyclic-poisson"}
	r.MaxBands = 3
	for _, row := range planned(t, r).Rows {
		if row.Bands > 3 {
			t.Errorf("%d bands", row.Bands)
		}
	}
	r.Schemes, r.Kinds = []string{"fixed"}, []string{"banded-toeplitz", "bsr", "bfr", "bisr", "bifr", "band-inv", "dense"}
	kinds := map[string]bool{}
	for _, row := range planned(t, r).Rows {
		kinds[row.Strategy.Kind] = true
		if row.Strategy.Bands > 3 || row.Strategy.Kind == "dense" { // which has n bands
			t.Errorf("%s of %d bands", row.Strategy.Kind, row.Strategy.Bands)
		}
	}
	if len(kinds) != len(r.Kinds)-1 {
		t.Errorf("kinds %v of %v", kinds, r.Kinds)
	}
	r = small()
	r.Schemes, r.MaxBands, r.Coordinates, r.MaxNoiseState = []string{"cyclic-poisson"}, 0, 100, 2*8*100
	for _, row := range planned(t, r).Rows {
		if row.StateBytes > r.MaxNoiseState {
			t.Errorf("%d bytes of state", row.StateBytes)
		}
	}
	r = small()
	r.Schemes = []string{"poisson"}
	free := planned(t, r).Rows[0]
	for r.MaxBatchSize = 64; ; r.MaxBatchSize++ {
		out, err := r.Plan(t.Context())
		if errors.Is(err, ErrNone) { // takes more than half of δ
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		cut := out.Rows[0]
		want, err := claim{run: cut.run.Untruncated(), epsilon: r.Epsilon, delta: r.Delta * (1 - cut.Truncation)}.proven(1, wide, narrow)
		if err != nil {
			t.Fatal(err)
		}
		if cut.Truncation < .05 || math.Abs(cut.Noise.Multiplier/want.Multiplier-1) > 1e-3 || cut.Noise.Multiplier < 1.002*free.Noise.Multiplier || cut.Scheme.MaxBatchSize != r.MaxBatchSize {
			t.Errorf("free %+v, cut %+v, want %+v", free, cut, want)
		}
		break
	}
	r.MaxBatchSize = 41
	out, err := r.Plan(t.Context())
	if !errors.Is(err, ErrNone) || out.Rows[0].Refused == "" {
		t.Fatalf("a maximum at the mean: %v", err)
	}
	// Why it cannot be used, and the maximum that is named as the way out can be.
	if why := strings.Join(out.Why, "\n"); !strings.Contains(why, "poisson, identity: max batch size 41: adds") {
		t.Error(why)
	}
	if _, err := fmt.Sscanf(out.Why[len(out.Why)-1], "A maximum batch size of %d costs", &r.MaxBatchSize); err != nil {
		t.Fatal(err)
	}
	if row := planned(t, r).Rows[0]; row.Refused != "" || row.Truncation > accounting.SuggestedShare {
		t.Errorf("with a maximum of %d: %+v", r.MaxBatchSize, row)
	}
}

// TestKeepsMore: where the first keeps less than half of what another one does, the best of those
// is named; a tie that stands below a row without the mark is explained.
func TestKeepsMore(t *testing.T) {
	row := func(rank int, relative, kept float64, tied bool) *Row {
		r := &Row{Rank: rank, Relative: relative, BatchSize: 10, MaxPerOwner: rank, Kept: kept, Tied: tied}
		r.Scheme.Scheme, r.Strategy.Kind = "poisson", "identity"
		return r
	}
	for _, kept := range []float64{.25, .35} {
		out := &Result{Rows: []*Row{row(1, .1, .15, false), row(2, .11, .2, false), row(3, .12, kept, true), row(4, .13, .4, false), row(5, .14, .5, false)}}
		out.Request.Objective, out.Request.Populations = RMSE, []Population{{MaxPerOwner: 1}, {MaxPerOwner: 2}}
		out.explain()
		why, note := strings.Join(out.Why, "\n"), strings.Join(out.Note, "\n")
		want := "row 4 keeps 40 %: poisson, identity, 4 examples per owner has 0.13 of the batch, 30 % more; --row 4 writes it."
		if kept > .3 {
			want = "row 3 keeps 35 %: poisson, identity, 3 examples per owner has 0.12 of the batch, 20 % more; --row 3 writes it."
		}
		if !strings.Contains(why, want) {
			t.Errorf("got %s, want %s", why, want)
		}
		if !strings.Contains(note, "=1 is within 3 standard errors") || !strings.Contains(note, "same k_u only") {
			t.Error(note)
		}
		out.Rows[0].Kept, out.Rows[1].Tied, out.Why = .5, true, nil
		out.explain()
		if why, note := strings.Join(out.Why, "\n"), strings.Join(out.Note, "\n"); strings.Contains(why, "--row") || strings.Contains(note, "=1") {
			t.Error(why, note)
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

func TestPopulations(t *testing.T) {
	file := filepath.Join(t.TempDir(), "edges.csv")
	text := "example_id,owner_id\n"
	for e := range 60 {
		text += fmt.Sprintf("%d,%d\n%d,%d\n", e, e%7, e, 100+e%11)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Populations(t.Context(), []string{file}, graphio.Options{}, []int{1, 2, 20})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[0].Examples > 7 || got[0].Examples < 1 || got[1].Examples <= got[0].Examples || got[1].Examples > 14 || got[2] != (Population{MaxPerOwner: 20, Examples: 60, Given: 60}) {
		t.Errorf("%+v", got)
	}
	if got[2].Owners != 0 { // examples have two owners each
		t.Errorf("%+v", got)
	}
	if err := os.WriteFile(file, []byte("example_id,owner_id\n1,1\n2,1\n3,1\n4,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err = Populations(t.Context(), []string{file}, graphio.Options{}, []int{2}); err != nil || got[0] != (Population{MaxPerOwner: 2, Examples: 3, Given: 4, Owners: 2}) {
		t.Errorf("%+v, %v", got, err)
	}
	if list := PerOwner(11); !slices.Equal(list, []int{1, 2, 3, 4, 8, 11}) {
		t.Errorf("per owner %v", list)
	}
	if list := PerOwner(1); !slices.Equal(list, []int{1}) {
		t.Errorf("per owner %v", list)
	}
}

func TestBatchSizes(t *testing.T) {
	if list := BatchSizes(64, 256); !slices.Equal(list, []float64{64, 91, 128, 181, 256}) {
		t.Errorf("%v", list)
	}
	if list := BatchSizes(64, 65); !slices.Equal(list, []float64{64, 65}) {
		t.Errorf("%v", list)
	}
}

// TestTooLarge: batch sizes that no population has are named.
func TestTooLarge(t *testing.T) {
	r := Request{Populations: []Population{{Examples: 100}, {Examples: 180}}, BatchSizes: []float64{64, 128, 181, 256}}
	if text := r.tooLarge(); !slices.Equal(text, []string{"Batch sizes from 181 on were not tried: there are only 180 examples."}) {
		t.Error(text)
	}
	if r.BatchSizes = []float64{64, 128}; r.tooLarge() != nil {
		t.Error(r.tooLarge())
	}
}

// TestSolve: the batch size that is found reaches the target, and one that is 4 % smaller does not.
func TestSolve(t *testing.T) {
	r := small()
	r.Schemes, r.Kinds = []string{"fixed", "poisson"}, []string{"identity", "banded-toeplitz"}
	r.Populations = []Population{{MaxPerOwner: 1, Examples: 3200, Given: 3200}}
	r.BatchSizes = []float64{50, 800}
	at := func(batch float64) float64 {
		one := r
		one.BatchSizes = []float64{batch}
		return planned(t, one).Rows[0].Relative
	}
	target := at(200)
	out, err := r.Solve(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	batch := out.Rows[0].BatchSize
	if out.Rows[0].Relative > target || at(batch*.96) <= target {
		t.Errorf("batch size %g has %g, target %g; %g has %g", batch, out.Rows[0].Relative, target, batch*.96, at(batch*.96))
	}
	if out, err := r.Solve(t.Context(), 2*at(50)); err != nil || out.Rows[0].BatchSize != 50 {
		t.Errorf("a target that the least batch size reaches: %+v, %v", out, err)
	}
	var bad *ParamError
	if _, err := r.Solve(context.Background(), target/100); !errors.As(err, &bad) || bad.Param != "target" {
		t.Errorf("a target that is not reached: %v", err)
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

func TestValidate(t *testing.T) {
	r := Request{Populations: []Population{{}}, Steps: -1, Epsilon: -1, Delta: 2, Objective: "sum", MaxBands: -1, Coordinates: -2, MaxNoiseState: 5, Schemes: []string{"none"}, Kinds: []string{"tree"}}
	err := r.Validate()
	var all interface{ Unwrap() []error }
	if !errors.As(err, &all) || len(all.Unwrap()) < 11 {
		t.Errorf("%v", err)
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
