package planner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/drawhere"
	"minsep/internal/ledger"
	"minsep/internal/must"
	"minsep/sampling"
)

// small is a request with candidates that take little time.
func small() Request {
	return Request{Populations: []Population{{MaxPerOwner: 1, Examples: 320, Given: 320}}, Numbered: true, Steps: 32, BatchSizes: []float64{40}, Epsilon: 2, Delta: 1e-3, Objective: RMSE,
		Coordinates: 1000, Schemes: []string{"poisson", "cyclic-poisson", "epoch-min-sep", "balls-in-bins", "fixed"}, Kinds: []string{"identity", "banded-toeplitz", "blt"}}
}

// ranked is the plan of small, for the tests that look at it.
var ranked = sync.OnceValues(func() (*Result, error) { return small().Plan(context.Background()) })

func smallPlan(t *testing.T) *Result {
	t.Helper()
	out := must.Get(ranked())(t)
	return out
}

func planned(t *testing.T, r Request) *Result {
	t.Helper()
	out := must.Get(r.Plan(t.Context()))(t)
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
		plan, err := calibration.Problem{Run: row.run, Epsilon: out.Request.Epsilon, Delta: out.Request.Delta, Samples: 40_000}.Plan(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", row.Name(), err)
		}
		l := must.Get(ledger.Create(filepath.Join(t.TempDir(), "ledger"), plan.Protocol))(t)
		if err := calibration.Release(t.Context(), l, 1<<14, drawhere.By(calibration.NewWorker, 0)); err != nil {
			t.Fatalf("%s: %v", row.Name(), err)
		}
		c, err := l.Certificate()
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

// TestOnlyOwners: what takes part can be asked for, with the same noise as where both are tried.
func TestOnlyOwners(t *testing.T) {
	r := small()
	r.Schemes, r.Kinds, r.Numbered = []string{"poisson", "fixed"}, []string{"identity"}, false
	r.Populations = []Population{{MaxPerOwner: 1, Examples: 320, Given: 1280, Owners: 320}, {MaxPerOwner: 4, Examples: 900, Given: 1280, Owners: 320}}
	both := planned(t, r)
	noise := map[string]float64{}
	for _, row := range both.Rows {
		noise[row.Name()] = row.Noise.Multiplier
	}
	for _, sample := range []string{sampling.SampleOwners, sampling.SampleExamples} {
		r.Sample = sample
		out := planned(t, r)
		if len(out.Rows) == 0 || len(out.Rows) >= len(both.Rows) {
			t.Errorf("%s: %d of %d candidates", sample, len(out.Rows), len(both.Rows))
		}
		for _, row := range out.Rows {
			if row.samplesOwners() != (sample == sampling.SampleOwners) || row.Noise.Multiplier != noise[row.Name()] {
				t.Errorf("%s only: %s, %g, where both are tried %g", sample, row.Name(), row.Noise.Multiplier, noise[row.Name()])
			}
		}
	}
	for rule, change := range map[string]func(r *Request){
		"must be examples or owners":              func(r *Request) { r.Sample = "patients" },
		"must be below the number of owners, 320": func(r *Request) { r.BatchSizes = []float64{400} },
		"needs a graph":                           func(r *Request) { r.Numbered, r.Populations[0].MaxPerOwner = true, 1 },
		"needs examples of one owner each":        func(r *Request) { r.Populations[0].Owners = 0 },
		"protects owners: leave out the unit":     func(r *Request) { r.Unit = accounting.UnitExample },
	} {
		r := r
		r.Sample, r.Populations = sampling.SampleOwners, []Population{{MaxPerOwner: 4, Examples: 900, Given: 1280, Owners: 320}}
		change(&r)
		must.Fail(t, "owners", rule)(r.Plan(t.Context()))
	}
}

func TestDeterministic(t *testing.T) {
	r := small()
	r.Schemes, r.Kinds = []string{"epoch-min-sep"}, []string{"banded-toeplitz"}
	var texts [][]byte
	for range 2 {
		text := must.Get(json.Marshal(planned(t, r)))(t)
		texts = append(texts, text)
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Error("two plans of one request differ")
	}
	r.Seed = 1
	text := must.Get(json.Marshal(planned(t, r).Rows[0].Noise))(t)
	if bytes.Contains(texts[0], text) {
		t.Error("another seed gives the same estimate")
	}
}

// TestNoCandidates: schemes and kinds that never go together leave a plan without a row.
func TestNoCandidates(t *testing.T) {
	r := small()
	r.Schemes, r.Kinds = []string{"b-min-sep"}, []string{"banded"}
	r.Populations[0].Examples, r.Populations[0].Given = 100_000, 100_000
	out, err := r.Plan(t.Context())
	if !errors.Is(err, ErrNone) || len(out.Rows) > 0 || len(out.Why) == 0 {
		t.Errorf("%+v, %v: want a reason, no row and ErrNone", out, err)
	}
}
