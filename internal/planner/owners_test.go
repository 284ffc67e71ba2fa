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
)

// several is a request with up to three examples per owner.
func several() Request {
	r := small()
	r.Numbered, r.Schemes, r.Kinds = false, []string{"poisson", "b-min-sep", "epoch-min-sep"}, []string{"identity", "banded-toeplitz", "banded", "bsr"}
	r.Populations = []Population{{MaxPerOwner: 1, Examples: 320, Given: 480}, {MaxPerOwner: 2, Examples: 400, Given: 480}, {MaxPerOwner: 3, Examples: 440, Given: 480}}
	return r
}

// TestSeveralExamples: with several examples per owner a plan draws few samples and leaves
// candidates out. Against estimates in full by samples of their own, noise multipliers are right up to
// their errors, and the order of rows that are told apart holds.
func TestSeveralExamples(t *testing.T) {
	r := several()
	out := planned(t, r)
	full := map[*Row]float64{} // noise relative to the batch
	behindRows := 0
	for _, row := range out.Rows {
		if row.Refused != "" || row.Noise.Proven {
			continue
		}
		n, unit, batch := row.Noise, row.unit, row.BatchSize
		want, err := (calibration.Claim{Run: row.run, Epsilon: r.Epsilon, Delta: r.Delta, Seed: 7}).Noise(t.Context(), n.Multiplier, math.Inf(1))
		if err != nil {
			t.Fatalf("%s: %v", row.Name(), err)
		}
		full[row] = want.Multiplier * unit / batch
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
	if behindRows < 3 {
		t.Errorf("%d estimated roughly: the test shows nothing", behindRows)
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
