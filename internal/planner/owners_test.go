package planner

import (
	"errors"
	"fmt"
	"math"
	"slices"
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
			p := &part{setting: &setting{planning: shared, population: r.Populations[row.MaxPerOwner-1], batch: r.BatchSizes[0], base: 1}}
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
// found for those, also where it is looked at again. They are planned only where each example has one
// owner.
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
			p := out.RunPlan(row, &stages.PlanGraph{Paths: []string{"edges.csv"}})
			if err := errors.Join(p.Validate(), p.Preflight()); err != nil || p.Bound.MaxExamplesPerOwner != 2 || p.Scheme.ExamplesPerOwner != 1 {
				t.Errorf("%s: %+v, %v", row.Name(), p, err)
			}
			a, b := row.Noise, other.Noise
			if a.Multiplier != b.Multiplier || a.StdErr != b.StdErr || a.OneDirection != b.OneDirection || row.Relative != other.Relative {
				t.Errorf("%s: %+v, %s: %+v", row.Name(), a, other.Name(), b)
			}
		}
	}
	if pairs < 3 {
		t.Errorf("%d pairs", pairs)
	}
	if first := out.Rows[0]; !first.samplesOwners() {
		t.Fatalf("the first is %s", first.Name())
	}
	if said := fmt.Sprint(out.Note); !strings.Contains(said, "clips the mean, once for each owner") {
		t.Errorf("owners are not named: %s", said)
	}
	shared := r
	shared.Populations = []Population{r.Populations[0], {MaxPerOwner: 2, Examples: 600, Given: 640}}
	if slices.ContainsFunc((&planning{Request: &shared}).settings(), func(s *setting) bool { return s.owners }) {
		t.Error("owners of shared examples are sampled")
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

// TestNoNoiseNeeded: a δ at which no noise is needed is refused by name.
func TestNoNoiseNeeded(t *testing.T) {
	r := small()
	r.Populations, r.Steps, r.BatchSizes = []Population{{MaxPerOwner: 1, Examples: 1e9, Given: 1e9}}, 10, []float64{10}
	r.Epsilon, r.Delta = 1, 1e-5
	r.Schemes, r.Kinds = []string{"poisson"}, []string{"identity"}
	var bad *ParamError
	if _, err := r.Plan(t.Context()); !errors.As(err, &bad) || bad.Param != "delta" || !strings.Contains(bad.Rule, "1e-07") {
		t.Errorf("a delta above the probability of taking part: %v", err)
	}
	r.Delta = 5e-8 // below it
	if out := planned(t, r); out.Rows[0].Noise.Multiplier <= 0 {
		t.Errorf("%+v", out.Rows[0])
	}
}
