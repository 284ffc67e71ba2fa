package calibration_test

import (
	"errors"
	"math"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/ledger"
	"minsep/internal/must"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestUnamplifiedPlan: where no moment is small enough at any noise, and where there are more bands
// than min-sep, the refusal of a budget of next to no samples names the Gaussian mechanism's noise.
// Who asks for it gets it: the protocol is checked again, and half of its bound is refused.
func TestUnamplifiedPlan(t *testing.T) {
	toeplitz := must.Get(mechanism.Problem{Workload: mechanism.Prefix(100)}.Make(t.Context(), mechanism.KindBandedToeplitz, 16))(t)
	short := &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 8, Toeplitz: []float64{1, 0.5, 0.25}}
	for _, c := range []struct {
		name        string
		scheme      sampling.BMinSep
		strategy    *mechanism.Strategy
		sensitivity float64 // of those who all take part
		method      accounting.Method
	}{
		{"once for sure", sampling.BMinSep{Prob: 1, Steps: 100, MinSep: 100, WarmStart: true}, toeplitz, 1, accounting.ClosedForm},
		{"more bands than min-sep", sampling.BMinSep{Prob: 1, Steps: 8, MinSep: 2, WarmStart: true}, short, math.Sqrt(1 + 0.25 + 3*(1.25*1.25+0.25)), accounting.RenyiBound}, // of two patterns
	} {
		run := accounting.Run{Sampler: sampling.Spec{BMinSep: &c.scheme}, Strategy: c.strategy, MaxExamplesPerOwner: 1}
		problem := calibration.Problem{Run: run, Epsilon: 1, Delta: 1e-5, Samples: 10, Workers: 1}
		want := must.Get(accounting.GaussianNoiseMultiplier(1, 0.9e-5, c.sensitivity))(t)
		var few *calibration.TooFewError
		if _, err := problem.Plan(t.Context()); !errors.As(err, &few) || few.Proven < want*(1-1e-9) || few.Proven > want*(1+1e-4) {
			t.Errorf("%s: %v, %+v, want the noise multiplier %g", c.name, err, few, want)
			continue
		}
		problem.NoiseMultiplier = few.Proven
		plan, err := problem.Plan(t.Context())
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		last := plan.Protocol.Candidates[0]
		if last.Trials[0].Method != c.method || last.Trials[0].Samples != 0 {
			t.Errorf("%s: %+v", c.name, last)
		}
		if err := calibration.CheckProofs(t.Context(), plan.Protocol); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		l := must.Get(ledger.Create(t.TempDir(), plan.Protocol))(t)
		if certificate, err := calibration.Finish(t.Context(), l, 1<<14, 1); err != nil || !certificate.WithoutSamples() || certificate.NoiseMultiplier != last.NoiseMultiplier {
			t.Errorf("%s: %+v, %v", c.name, certificate, err)
		}
		last.Trials[0].Bound /= 2
		if err := calibration.CheckProofs(t.Context(), plan.Protocol); !errors.Is(err, accounting.ErrNotVerified) {
			t.Errorf("%s: half of the bound: %v", c.name, err)
		}
		problem.NoiseMultiplier = 1.01 * want
		if plan, err = problem.Plan(t.Context()); err != nil || plan.Protocol.Candidates[0].Trials[0].Samples+plan.Protocol.Candidates[0].Trials[1].Samples > 0 {
			t.Errorf("%s: a noise multiplier that is proven: %+v, %v", c.name, plan, err)
		}
		problem.NoiseMultiplier = 0.98 * want
		if plan, err = problem.Plan(t.Context()); err == nil && plan.Protocol.Candidates[0].Trials[0].Samples == 0 {
			t.Errorf("%s: a noise multiplier that is too small is proven: %+v", c.name, plan.Protocol)
		}
	}
}
