package planner

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"minsep/internal/accounting/calibration"
	"minsep/internal/stages"
	"minsep/mechanism"
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
	r.Seed = 12 // leaves some out
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
		want, err := (calibration.Claim{Run: run, Epsilon: r.Epsilon, Delta: r.Delta, Seed: 7}).Noise(t.Context(), calibration.Guess{Multiplier: n.Multiplier, Slope: calibration.UnknownSlope, Behind: math.Inf(1)})
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
		if n.StdErr > 1.01*calibration.Tolerance*n.Multiplier {
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
