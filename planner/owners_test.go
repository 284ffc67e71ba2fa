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
	"minsep/mechanism"
	"minsep/sampling"
	"minsep/stages"
)

// several is a request with up to three examples per owner.
func several() Request {
	r := small()
	r.Numbered, r.Schemes, r.Kinds = false, []string{"poisson", "b-min-sep", "epoch-min-sep"}, []string{"identity", "banded-toeplitz", "banded", "bsr"}
	r.Populations = []Population{{MaxPerOwner: 1, Examples: 320, Given: 480}, {MaxPerOwner: 2, Examples: 400, Given: 480}, {MaxPerOwner: 3, Examples: 440, Given: 480}}
	return r
}

// TestSeveralExamples: with several examples per owner a plan draws few samples and leaves
// candidates out. Against estimates of every candidate in full, those left out included, by samples
// of their own: noise multipliers are right up to their errors, the order of rows that are told
// apart holds, and none that is left out is before the first.
func TestSeveralExamples(t *testing.T) {
	r := several()
	r.Seed = 3 // leaves two out; of the seeds 0 to 7, all but 0 leave out at least one
	out := planned(t, r)
	shared := &planning{Request: &r}
	full := map[*Row]float64{} // noise relative to the batch
	left, behindRows := 0, 0
	for _, row := range out.Rows {
		if row.Refused != "" && !strings.HasPrefix(row.Refused, NotEstimated) || row.Noise.Proven {
			continue
		}
		n, unit, batch := row.Noise, row.unit, row.BatchSize
		run := row.run
		if row.Refused != "" {
			left++
			p := &part{setting: &setting{planning: shared, population: r.Populations[row.MaxPerOwner-1], batch: r.BatchSizes[0], base: 1}, whole: true}
			again, err := p.evaluate(t.Context(), row.Scheme, row.Strategy)
			if err != nil || again.Refused != "" {
				t.Fatalf("%s: %v, %s", row.Name(), err, again.Refused)
			}
			run, unit, batch, n.Multiplier = again.run, again.unit, again.BatchSize, again.Noise.Multiplier
		}
		want, err := (claim{run: run, epsilon: r.Epsilon, delta: r.Delta, seed: 7}).estimate(t.Context(), guess{n.Multiplier, unknownPace, math.Inf(1)}, .01)
		if err != nil {
			t.Fatalf("%s: %v", row.Name(), err)
		}
		full[row] = want.Multiplier * unit / batch
		if row.Refused != "" {
			if full[row] < out.Rows[0].Relative*(1-.04) {
				t.Errorf("%s is left out, with %g, and the first has %g", row.Name(), full[row], out.Rows[0].Relative)
			}
			continue
		}
		if n.StdErr > 1.01*tolerance*n.Multiplier {
			behindRows++
		}
		if n.OneDirection && math.Abs(n.Multiplier-want.Multiplier) > 4.5*math.Hypot(n.StdErr, want.StdErr)+.005*want.Multiplier {
			t.Errorf("%s: %g ± %g, in full %g ± %g", row.Name(), n.Multiplier, n.StdErr, want.Multiplier, want.StdErr)
		}
	}
	for a, x := range full {
		for b, y := range full {
			if a.Rank > 0 && b.Rank > a.Rank && behind(a, b) && y < .97*x {
				t.Errorf("%s is before %s, in full %g and %g", a.Name(), b.Name(), x, y)
			}
		}
	}
	if left == 0 || behindRows < 3 {
		t.Errorf("%d candidates left out, %d estimated roughly: the test shows nothing", left, behindRows)
	}
}

// TestLeaves: a kind is left out only where it was behind with fewer examples per owner, whatever
// the errors, and by more than is worthwhile; of the latest number of examples that both have.
func TestLeaves(t *testing.T) {
	row := func(k int, kind string, relative, stdErr float64) *Row {
		r := &Row{MaxPerOwner: k, Relative: relative, StdErr: stdErr}
		r.Scheme.Scheme, r.Strategy.Kind = "b-min-sep", kind
		return r
	}
	const bsr, toeplitz = mechanism.KindBSR, mechanism.KindBandedToeplitz
	for _, c := range []struct {
		name string
		rows []*Row
		left bool
	}{
		{"nothing known", nil, false},
		{"clearly behind", []*Row{row(1, bsr, 1, .01), row(1, toeplitz, 1.2, .01)}, true},
		{"not worthwhile", []*Row{row(1, bsr, 1, .001), row(1, toeplitz, 1.04, .001)}, false},
		{"not told apart", []*Row{row(1, bsr, 1, .05), row(1, toeplitz, 1.2, .05)}, false},
		{"the better one", []*Row{row(1, bsr, 1.2, .01), row(1, toeplitz, 1, .01)}, false},
		{"the latest says otherwise", []*Row{row(1, bsr, 1, .01), row(1, toeplitz, 1.2, .01), row(2, bsr, 2, .01), row(2, toeplitz, 2, .01)}, false},
		{"left out in the latest too", []*Row{row(1, bsr, 1, .01), row(1, toeplitz, 1.2, .01), row(2, bsr, 2, .01)}, true},
	} {
		p := &part{fewer: c.rows}
		if reason := p.leaves("b-min-sep", toeplitz); (reason != "") != c.left {
			t.Errorf("%s: %q", c.name, reason)
		}
		if reason := p.leaves("epoch-min-sep", toeplitz); reason != "" {
			t.Errorf("%s, of another scheme: %q", c.name, reason)
		}
	}
}

// TestTwins: sampled owners that are as many as the examples with one per owner take over what was
// found for those, also where it is looked at again.
func TestTwins(t *testing.T) {
	r := small()
	r.Numbered, r.Schemes, r.Kinds = false, []string{"poisson", "epoch-min-sep"}, []string{"identity", "banded-toeplitz"}
	r.Populations = []Population{{MaxPerOwner: 1, Examples: 320, Given: 640, Owners: 320}, {MaxPerOwner: 2, Examples: 600, Given: 640, Owners: 320}}
	out := planned(t, r)
	pairs := 0
	for _, row := range out.Rows {
		for _, other := range out.Rows {
			if row.Scheme.Sample == "" || row.Refused != "" || other.Scheme.Sample != "" || other.Refused != "" || other.MaxPerOwner != 1 || described(other.Strategy) != described(row.Strategy) || other.Scheme.Scheme != row.Scheme.Scheme || other.Scheme.MinSep != row.Scheme.MinSep {
				continue
			}
			pairs++
			a, b := row.Noise, other.Noise
			if row.SameAs != other.SameAs {
				t.Errorf("%s is as DP-SGD of %g, and %s of %g", row.Name(), row.SameAs, other.Name(), other.SameAs)
			}
			if a.Multiplier != b.Multiplier || a.StdErr != b.StdErr || a.OneDirection != b.OneDirection || row.Relative != other.Relative {
				t.Errorf("%s: %+v, %s: %+v", row.Name(), a, other.Name(), b)
			}
		}
	}
	if pairs < 3 {
		t.Errorf("%d pairs", pairs)
	}
	first := out.Rows[0]
	if !first.samplesOwners() || first.SameAs <= 0 {
		t.Fatalf("the first is %s, as DP-SGD of %g", first.Name(), first.SameAs)
	}
	said := fmt.Sprint(out.Note)
	for _, row := range out.Rows[1:] {
		if row.Relative == first.Relative && !row.samplesOwners() {
			if want := fmt.Sprintf("Row %d needs as much noise, clips each example, and keeps 50 %% of them", row.Rank); !strings.Contains(said, want) {
				t.Errorf("no %q in %s", want, said)
			}
			break
		}
	}
	if why := fmt.Sprint(out.Why); !strings.Contains(why, "owners for the same") || !strings.Contains(said, "clips the mean, once for each owner") {
		t.Errorf("owners are not named: %s %s", why, said)
	}
	a := &setting{planning: &planning{Request: &r}, population: r.Populations[0], batch: 40}
	b := &setting{planning: a.planning, population: r.Populations[1], owners: true, batch: 40}
	if !b.isTwin(a) || a.isTwin(b) || b.isTwin(b) {
		t.Error("settings are not twins of examples")
	}
	for _, other := range []setting{{population: r.Populations[1], batch: 40}, {population: Population{MaxPerOwner: 1, Examples: 321}, batch: 40}, {population: r.Populations[0], batch: 41}} {
		if other.planning = a.planning; b.isTwin(&other) {
			t.Errorf("%+v is taken for a twin", other.population)
		}
	}
}

// TestNoNoiseNeeded: a δ at which no noise is needed is refused by name, in plans and comparisons.
func TestNoNoiseNeeded(t *testing.T) {
	r := small()
	r.Populations, r.Steps, r.BatchSizes = []Population{{MaxPerOwner: 1, Examples: 1e9, Given: 1e9}}, 10, []float64{10}
	r.Epsilon, r.Delta = 1, 1e-5
	r.Schemes, r.Kinds = []string{"poisson"}, []string{"identity"}
	var bad *ParamError
	if _, err := r.Plan(t.Context()); !errors.As(err, &bad) || bad.Param != "delta" || !strings.Contains(bad.Rule, "1e-07") {
		t.Errorf("a delta above the probability of taking part: %v", err)
	}
	r.Delta = 5e-8 // below it, and the curve of DP-SGD has batches for which it is above
	if out := planned(t, r); out.Rows[0].Noise.Multiplier <= 0 || out.Rows[0].SameAs <= 0 {
		t.Errorf("%+v", out.Rows[0])
	}
}

// TestCompareSchedules: a Toeplitz strategy, whose plan can hold no schedule of learning rates, is
// compared on that of the others; another strategy with another schedule is refused.
func TestCompareSchedules(t *testing.T) {
	plan := func(kind, rates string) NamedPlan {
		var p stages.Plan
		p.Examples, p.Noise.Coordinates = 320, 10
		p.Scheme.Scheme, p.Scheme.Steps, p.Scheme.BatchSize, p.Scheme.MinSep = "fixed", 32, 40, 8
		p.Strategy = mechanism.Params{Kind: kind, Steps: 32, Bands: 4, MinSep: 8, Workload: mechanism.MomentumWorkload, Training: mechanism.Training{Momentum: .9, Schedule: rates}}
		p.Privacy.Epsilon, p.Privacy.Delta = 2, 1e-3
		return NamedPlan{Name: kind + rates, Plan: p}
	}
	toeplitz, cooldown := plan(mechanism.KindBandedToeplitz, ""), plan(mechanism.KindBSR, mechanism.CooldownSchedule)
	for _, plans := range [][]NamedPlan{{toeplitz, cooldown}, {cooldown, toeplitz}} {
		out, err := ComparePlans(t.Context(), plans, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if out.Request.Workload.Schedule != mechanism.CooldownSchedule || out.Rows[0].Refused != "" || out.Rows[1].Refused != "" {
			t.Errorf("compared for %q: %+v, %+v", out.Request.Workload.Schedule, out.Rows[0], out.Rows[1])
		}
		alone, err := ComparePlans(t.Context(), []NamedPlan{toeplitz, toeplitz}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range out.Rows {
			if row.Strategy.Kind == toeplitz.Plan.Strategy.Kind && row.RMSE >= alone.Rows[0].RMSE {
				t.Errorf("error %g with falling learning rates, %g with constant ones", row.RMSE, alone.Rows[0].RMSE)
			}
		}
	}
	for _, other := range []NamedPlan{plan(mechanism.KindBSR, ""), plan(mechanism.KindBISR, mechanism.LinearDecaySchedule)} {
		if _, err := ComparePlans(t.Context(), []NamedPlan{cooldown, other}, 0, nil); err == nil || !strings.Contains(err.Error(), "schedule") {
			t.Errorf("%s beside %s: %v", other.Name, cooldown.Name, err)
		}
	}
	slower := plan(mechanism.KindBandedToeplitz, "")
	slower.Plan.Strategy.Momentum = .5
	if _, err := ComparePlans(t.Context(), []NamedPlan{cooldown, slower}, 0, nil); err == nil || !strings.Contains(err.Error(), "momentum") {
		t.Errorf("another momentum: %v", err)
	}
}

// TestTooFewHits: where the samples end before enough is seen, a candidate is refused, and not
// given a bound in place of an estimate, although it would be behind by that.
func TestTooFewHits(t *testing.T) {
	strategy, err := mechanism.BSR(200, 16)
	if err != nil {
		t.Fatal(err)
	}
	run := accounting.Run{Sampler: sampling.Spec{BMinSep: &sampling.BMinSep{Prob: .02, Steps: 200, MinSep: 16, WarmStart: true}}, Strategy: strategy, MaxExamplesPerOwner: 5}
	of := claim{run: run, epsilon: 8, delta: 1e-9, share: 1e-9} // of a few samples
	few := 0
	for _, start := range []float64{3, 4, 5, 6} {
		n, err := of.estimate(t.Context(), guess{start, unknownPace, .1}, tolerance)
		if errors.Is(err, ErrTooDear) || errors.Is(err, ErrNoEstimate) {
			few++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(n.found.looks, func(l look) bool { return l.tells() }) {
			t.Errorf("from %g: %g ± %g, of %+v", start, n.Multiplier, n.StdErr, n.found.looks)
		}
	}
	if few == 0 {
		t.Error("nothing was refused: the test shows nothing")
	}
}

// TestRetreat: where the samples do not show enough near δ, those at a smaller noise multiplier do,
// and what they say is the noise multiplier, up to its error.
func TestRetreat(t *testing.T) {
	strategy, err := mechanism.BSR(60, 6)
	if err != nil {
		t.Fatal(err)
	}
	run := accounting.Run{Sampler: sampling.Spec{EpochMinSep: &sampling.EpochMinSep{EpochSteps: 15, Steps: 60, MinSep: 6}}, Strategy: strategy, MaxExamplesPerOwner: 5}
	of := claim{run: run, epsilon: 8, delta: 1e-5}
	full, err := of.estimate(t.Context(), guess{4, unknownPace, math.Inf(1)}, .03)
	if err != nil {
		t.Fatal(err)
	}
	of.share, of.seed = 0.0006, 1
	retreats := 0
	for _, start := range []float64{.95, 1, 1.05} {
		got, err := of.estimate(t.Context(), guess{start * full.Multiplier, unknownPace, .5 * full.Multiplier}, tolerance)
		if err != nil {
			t.Errorf("from %g: %v", start, err)
			continue
		}
		retreats += got.found.retreats
		if off := math.Abs(got.Multiplier - full.Multiplier); off > 3*math.Hypot(got.StdErr, full.StdErr) || got.StdErr > rough*got.Multiplier {
			t.Errorf("from %g: %g ± %g, with more samples %g ± %g", start, got.Multiplier, got.StdErr, full.Multiplier, full.StdErr)
		}
	}
	if retreats == 0 {
		t.Error("every first look shows enough: the test shows nothing")
	}
}

// TestIsFar: a few values say that a noise multiplier is far too small, but not where it is enough
// to know that a divergence is below δ: there it must not end before it is known to be.
func TestIsFar(t *testing.T) {
	l := look{samples: few, seen: 1, squares: .1, largest: .1, gap: .4, gapErr: .1}
	s := searcher{claim: claim{run: accounting.Run{MaxExamplesPerOwner: 2}}, pace: unknownPace, looks: []look{l}, behind: math.Inf(1)}
	one, little, near := l, l, l
	one.squares, one.largest, near.gap = 1, 1, .09
	little.seen, little.squares, little.largest = .09, .0008, .009
	if !s.isFar(&l) || s.isFar(&one) || s.isFar(&little) || s.isFar(&near) {
		t.Error("far is not what some values at a large gap say")
	}
	if s.below = true; s.isFar(&l) {
		t.Error("a look for a divergence below δ ends above it with a few values")
	}
}

// TestCount: values count by how even they are, and what is too little tells nothing.
func TestCount(t *testing.T) {
	for _, c := range []struct {
		values []float64
		count  float64
		tells  bool
	}{
		{nil, 0, false},
		{[]float64{1}, .5, false},
		{[]float64{.2, .2, .2, .2, .2, .2, .2, .2}, 64. / 9, true},
		{[]float64{.01, .01, .01, .01, .01, .01, .01, .01}, 64. / 9, false}, // a sum below a tenth
		{[]float64{1, .01, .01, .01, .01, .01, .01, .01}, 1.07 * 1.07 / 2.0007, false},
	} {
		var l look
		for _, y := range c.values {
			l.seen, l.squares, l.largest = l.seen+y, l.squares+y*y, max(l.largest, y)
		}
		if got := l.count(); math.Abs(got-c.count) > 1e-12 || l.tells() != c.tells || l.isEnough() {
			t.Errorf("%v count as %g, want %g; tells: %v", c.values, got, c.count, l.tells())
		}
	}
}

// TestFewValues: over seeds, rough estimates of what is behind, from a few values a fifth below,
// lie around what is proven as their standard errors say. The mean square of 40 standardised
// errors, whose variance is taken for twice that of a normal one's, is above this limit once in 10⁴
// times; errors of too few values would be far above.
func TestFewValues(t *testing.T) {
	run := accounting.Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: .02, Steps: 32}}, Strategy: mechanism.Identity(32), MaxExamplesPerOwner: 2}
	of := claim{run: run, epsilon: 2, delta: 1e-6}
	want, err := of.proven(1, wide, 1e-5)
	if err != nil {
		t.Fatal(err)
	}
	squares, rough := 0.0, 0
	const seeds = 40
	for of.seed = range seeds {
		n, err := of.estimate(t.Context(), guess{math.Exp(-lowered) * want.Multiplier, pace{1, .1}, .5 * want.Multiplier}, tolerance)
		if err != nil {
			t.Fatal(err)
		}
		off := (n.Multiplier - want.Multiplier) / n.StdErr
		squares += off * off / seeds
		if n.StdErr > 1.01*tolerance*n.Multiplier {
			rough++
		}
	}
	if squares > 2.5 || rough < seeds/2 {
		t.Errorf("mean square of the standardised errors: %.2f; %d of them rough", squares, rough)
	}
}

// TestHopeless: samples that would tell nothing by what other looks say are not drawn, and those
// that may tell something are.
func TestHopeless(t *testing.T) {
	of := claim{run: accounting.Run{MaxExamplesPerOwner: 2}, epsilon: 8, delta: 1e-5}
	s, err := of.searcher(montecarlo.P, pace{1, .05})
	if err != nil {
		t.Fatal(err)
	}
	next := look{logBound: math.Log(1e5)}
	if s.isHopeless(&next, 1000) {
		t.Error("without another look")
	}
	// By this one the divergence is near δ at ln σ = 0, and e^4 times as large 0.2 below.
	s.looks = []look{{x: -.2, gap: .2, gapErr: .005, samples: 256, seen: 2, squares: .2, largest: .2}}
	below := next
	below.x = -.2
	if !s.isHopeless(&next, 1000) || s.isHopeless(&below, 1000) || s.isHopeless(&next, 1e6) {
		t.Error("1,000 samples of M/δ = 1e5 are hopeless at a divergence of δ, not far above it, nor are 1e6")
	}
	if s.below = true; s.isHopeless(&next, 1000) {
		t.Error("where it is to be shown that a divergence is below δ, none are")
	}
}
