package calibration

import (
	"context"
	"errors"
	"slices"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/ledger"
	"minsep/internal/montecarlo"
	"minsep/internal/must"
)

// TestRelease: samples are drawn from the candidate with the most noise down to the first that is
// rejected, those that are in the ledger are not drawn again, and units that were left out release
// nothing.
func TestRelease(t *testing.T) {
	const epsilon, delta = 1, 0.05
	th, tests, err := accounting.Claim{Delta: delta}.Allocate([]accounting.Goal{{Bound: 1, Mean: 0.8 * delta}})
	if err != nil {
		t.Fatal(err)
	}
	p := &accounting.Protocol{Format: 1, Run: smallRun(), CodeVersion: "test", KernelID: montecarlo.KernelID(),
		Points: []accounting.Point{{Epsilon: epsilon, Delta: delta, Thresholds: th}}}
	for _, sigma := range []float64{0.7, 0.8, 1.6} {
		c := accounting.Candidate{NoiseMultiplier: sigma}
		for _, d := range montecarlo.Directions {
			c.Trials = append(c.Trials, accounting.Trial{Direction: d, Method: accounting.MonteCarlo, Bound: 1, Samples: tests[0].Samples, Values: []byte("{}")})
		}
		p.Candidates = append(p.Candidates, c)
	}
	l := must.Get(ledger.Create(t.TempDir(), p))(t)
	must.Fail(t, "a ledger without samples", "units of candidate 2 were not drawn")(Release(t.Context(), l, 5000, func(context.Context, *ledger.Ledger, int, []ledger.Unit) error { return nil }))
	stopped := errors.New("stopped")
	var drawn []int
	units := 0
	draw := func(stopAt int) Draw {
		return func(ctx context.Context, l *ledger.Ledger, candidate int, missing []ledger.Unit) error {
			drawn = append(drawn, candidate)
			for _, u := range missing {
				if units == stopAt {
					return stopped
				}
				units++
				w, err := NewWorker(p, candidate, u.Trial)
				if err != nil {
					return err
				}
				r, err := w.Run(ctx, u.First, u.Count, 0)
				if err != nil {
					return err
				}
				if err := l.AddAll([]ledger.Entry{{Unit: u, Result: r}}); err != nil {
					return err
				}
			}
			return nil
		}
	}
	each := len(l.Missing(2, 1000))
	if err := Release(t.Context(), l, 1000, draw(each/2)); !errors.Is(err, stopped) {
		t.Fatalf("stopped halfway: %v", err)
	}
	must.Do(t, Release(t.Context(), l, 1000, draw(-1)))
	if !slices.Equal(drawn, []int{2, 2, 1}) || units != 2*each {
		t.Errorf("candidates %v and %d units were drawn, want 2, stopped, 2 and 1, and %d", drawn, units, 2*each)
	}
	if c, err := l.Certificate(); err != nil || c.NoiseMultiplier != 1.6 {
		t.Errorf("got %v", err)
	}
}
