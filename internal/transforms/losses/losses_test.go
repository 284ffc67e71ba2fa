package losses

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx" // every runner

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/drawhere"
	"minsep/internal/ledger"
	"minsep/internal/montecarlo"
	"minsep/internal/must"
	"minsep/mechanism"
	"minsep/sampling"
)

func TestMain(m *testing.M) {
	beam.Init()
	os.Exit(m.Run())
}

// protocol verifies one noise multiplier by plain losses in direction P and, tilted, at another.
func protocol(t testing.TB) (*accounting.Protocol, string) {
	t.Helper()
	run := accounting.Run{
		Sampler:             sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.08, Steps: 64, MinSep: 4, WarmStart: true}},
		Strategy:            &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 64, Toeplitz: []float64{0.8, 0.6}},
		MaxExamplesPerOwner: 1,
	}
	plan := must.Get(calibration.Problem{Run: run, Epsilon: 2, Delta: 1e-3, NoiseMultiplier: 1.35, Samples: 20_000, CodeVersion: "test"}.Plan(t.Context()))(t)
	encoded := must.Get(plan.Protocol.Encode())(t)
	return plan.Protocol, string(encoded)
}

func newLedger(t testing.TB, p *accounting.Protocol) *ledger.Ledger {
	t.Helper()
	l := must.Get(ledger.Create(t.TempDir(), p))(t)
	return l
}

func sum(t testing.TB, runner string, c Config, units []ledger.Unit) error {
	t.Helper()
	p, s := beam.NewPipelineWithRoot()
	list := must.Get(Create(s, units))(t)
	must.Get(Sum(s, c, list))(t)
	_, err := beam.Run(context.Background(), runner, p)
	return err
}

// certificate finishes the ledger from files.
func certificate(t *testing.T, dir string, l *ledger.Ledger) []byte {
	t.Helper()
	must.Do(t, Collect(t.Context(), dir, l.AddAll))
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("files are left: %v, %v", entries, err)
	}
	c := must.Get(l.Certificate())(t)
	b := must.Get(c.Encode())(t)
	return b
}

// TestAnyCut: the certificate is the same for other units, runners and workers, for units that come
// twice, and as without Beam.
func TestAnyCut(t *testing.T) {
	p, encoded := protocol(t)
	bare := newLedger(t, p)
	must.Do(t, calibration.Release(t.Context(), bare, 5000, drawhere.By(calibration.NewWorker, 1)))
	c := must.Get(bare.Certificate())(t)
	want := must.Get(c.Encode())(t)
	for _, try := range []struct {
		runner string
		size   uint64
	}{{"direct", 1 << 20}, {"direct", 777}, {"prism", 3000}} {
		dir, l := t.TempDir(), newLedger(t, p)
		units := l.Missing(0, try.size)
		half := units[:len(units)/2]
		if len(half) > 0 { // as if stopped halfway
			must.Do(t, sum(t, try.runner, Config{Protocol: encoded, Dir: dir}, half))
			must.Do(t, Collect(t.Context(), dir, l.AddAll))
		}
		// The first unit once more, as a runner that repeats a task would leave it.
		again := append([]ledger.Unit{units[0]}, l.Missing(0, try.size)...)
		must.Do(t, sum(t, try.runner, Config{Protocol: encoded, Dir: dir}, again))
		if got := certificate(t, dir, l); !bytes.Equal(got, want) {
			t.Errorf("%+v: another certificate", try)
		}
	}
}

// TestPlainUnits: losses that are not tilted verify a claim too.
func TestPlainUnits(t *testing.T) {
	p, _ := protocol(t)
	th, tests, err := accounting.Claim{Delta: 0.05}.Allocate([]accounting.Goal{{Bound: 1, Mean: 0.04}})
	must.Do(t, err)
	p.Points = []accounting.Point{{Epsilon: 1, Delta: 0.05, Thresholds: th}}
	p.KernelID = montecarlo.KernelID()
	p.Candidates = []accounting.Candidate{{NoiseMultiplier: 1.6}}
	for _, d := range montecarlo.Directions {
		p.Candidates[0].Trials = append(p.Candidates[0].Trials, accounting.Trial{Direction: d, Method: accounting.MonteCarlo, Bound: 1, Samples: tests[0].Samples, Values: json.RawMessage("{}")})
	}
	encoded := must.Get(p.Encode())(t)
	dir, l := t.TempDir(), newLedger(t, p)
	must.Do(t, sum(t, "direct", Config{Protocol: string(encoded), Dir: dir}, l.Missing(0, 4096)))
	certificate(t, dir, l)
	for _, tally := range l.Tallies() {
		if mean := tally.Sum.Mean(tally.Count); mean < 0.001 || mean > 0.04 {
			t.Errorf("trial %d has a mean of %g", tally.Trial, mean)
		}
	}
}

func TestRefuses(t *testing.T) {
	p, encoded := protocol(t)
	l := newLedger(t, p)
	units := l.Missing(0, 4096)
	_, s := beam.NewPipelineWithRoot()
	list := must.Get(Create(s, units))(t)
	for name, c := range map[string]Config{"no protocol": {}, "compact protocol": {Protocol: strings.ReplaceAll(encoded, "\n", "")}} {
		if _, err := Sum(s, c, list); err == nil {
			t.Errorf("%s: was taken", name)
		}
	}
	other := units[0]
	other.Configuration = strings.Repeat("0", 64)
	must.Fail(t, "a unit of another protocol", "another protocol")(sum(t, "direct", Config{Protocol: encoded}, []ledger.Unit{other}))
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "unit-0-0-0-1.json"), []byte(`{"unit": {}, "more": 1}`), 0o600))
	must.Fail(t, "a damaged file", "unknown field")(Collect(t.Context(), dir, l.AddAll))
}
