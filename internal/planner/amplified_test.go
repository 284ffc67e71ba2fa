package planner

import (
	"math"
	"strings"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/must"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestAmplifiedNoise compares the closed form of the noise multiplier with estimates: from that of
// another strategy under the same sampling, and from DP-SGD's.
func TestAmplifiedNoise(t *testing.T) {
	const n, epoch, delta = 40, 8, 1e-3
	for name, sampler := range map[string]func(b int) sampling.Spec{
		"b-min-sep": func(b int) sampling.Spec {
			return sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 1. / (epoch - float64(b) + 1), Steps: n, MinSep: b, WarmStart: true}}
		},
		"epoch-min-sep": func(b int) sampling.Spec {
			return sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: n, EpochSteps: epoch, MinSep: b}}
		},
		"rotation": func(int) sampling.Spec {
			return sampling.Spec{Rotation: &sampling.Rotation{Steps: n, EpochSteps: epoch}}
		},
	} {
		for _, epsilon := range []float64{1, 4} {
			base := must.Get(DPSGD{Epsilon: epsilon, Delta: delta, Steps: n, Units: epoch * 1000, MaxPerOwner: 1}.NoiseMultiplier(1000))(t)
			for _, bands := range []int{2, 4} {
				problem := mechanism.Problem{Workload: &mechanism.Workload{Steps: n, Forgetting: 2. / n}}
				toeplitz := must.Get(problem.Make(t.Context(), mechanism.KindBandedToeplitz, bands))(t)
				sigma := func(s *mechanism.Strategy) float64 {
					found, err := calibration.Find(t.Context(), accounting.Run{Sampler: sampler(bands), Strategy: s, MaxExamplesPerOwner: 1}, epsilon, delta, nil, math.Inf(1))
					if err == nil {
						found, err = found.Both(t.Context())
					}
					if err != nil {
						t.Fatalf("%s, epsilon %g, %s: %v", name, epsilon, s.Kind, err)
					}
					return found.Multiplier
				}
				own := sigma(toeplitz)
				independent := mechanism.IndependentNoise(toeplitz.Toeplitz, own)
				if ratio := independent / base; math.Abs(ratio-1) > .25 {
					t.Errorf("%s, epsilon %g, %d bands: independent noise of %g by the closed form, of DP-SGD %g", name, epsilon, bands, independent, base)
				}
				root := must.Get(mechanism.BSR(n, bands))(t)
				amplified := must.Get(mechanism.Params{
					Kind: mechanism.KindAmplified, Steps: n, Bands: bands, IndependentNoise: independent, Training: mechanism.Training{Memory: n / 2},
				}.Make(t.Context(), nil))(t)
				for _, other := range []*mechanism.Strategy{root, amplified} {
					got, want := mechanism.AmplifiedNoise(other.Toeplitz, independent), sigma(other)
					if math.Abs(got/want-1) > .06 {
						t.Errorf("%s, epsilon %g, %s %d: %g by the closed form, estimated %g", name, epsilon, other.Kind, bands, got, want)
					}
				}
			}
		}
	}
}

// TestPreferKnown: an amplified strategy is the first only where it is ahead by more than the
// errors of the estimates.
func TestPreferKnown(t *testing.T) {
	row := func(kind string, relative, stdErr float64) *Row {
		return &Row{Strategy: mechanism.Params{Kind: kind, Bands: 4}, Relative: relative, StdErr: stdErr, Kept: 1, MaxPerOwner: 1}
	}
	for _, c := range []struct {
		rows []*Row
		want string
	}{
		{[]*Row{row(mechanism.KindAmplified, 1, .01), row(mechanism.KindAmplified, 1.01, .01), row(mechanism.KindBSR, 1.02, .01)}, mechanism.KindBSR},
		{[]*Row{row(mechanism.KindAmplified, 1, .01), row(mechanism.KindBSR, 1.1, .01)}, mechanism.KindAmplified},
		{[]*Row{row(mechanism.KindAmplified, 1, .01)}, mechanism.KindAmplified},
		{[]*Row{row(mechanism.KindBandedToeplitz, 1, .01), row(mechanism.KindAmplified, 1.001, .01)}, mechanism.KindBandedToeplitz},
	} {
		r := small()
		if err := (&planning{Request: &r}).preferKnown(t.Context(), c.rows); err != nil || c.rows[0].Strategy.Kind != c.want {
			t.Errorf("the first is %s, want %s; %v", c.rows[0].Strategy.Kind, c.want, err)
		}
	}
}

// TestAmplify: a plan tries the amplified strategy, for the noise multiplier that the best other
// strategy of its scheme says of independent noise, and what it writes makes that strategy.
func TestAmplify(t *testing.T) {
	r := small()
	r.Epsilon, r.Schemes, r.Kinds = 1, []string{"epoch-min-sep"}, []string{"bsr", "amplified-toeplitz"}
	r.AssumeTraining()
	out := planned(t, r)
	var amplified, best *Row
	for _, row := range out.Rows {
		switch {
		case row.Refused != "" || row.Strategy.Normalized != nil || row.Scheme.MinSep != row.Strategy.Bands:
		case row.Strategy.Kind == mechanism.KindAmplified && (amplified == nil || row.Bands < amplified.Bands):
			amplified = row
		case row.Strategy.Kind == mechanism.KindBSR && (best == nil || row.Relative < best.Relative):
			best = row
		}
	}
	if amplified == nil || best == nil {
		t.Fatalf("no amplified strategy beside square roots: %q", out.Why)
	}
	root := must.Get(best.Strategy.Make(t.Context(), nil))(t)
	if want := mechanism.IndependentNoise(root.Toeplitz, best.Noise.Multiplier); math.Abs(amplified.Strategy.IndependentNoise/want-1) > .05 {
		t.Errorf("made for independent noise of %g, and %s says %g", amplified.Strategy.IndependentNoise, best.Name(), want)
	}
	if err := amplified.Strategy.Validate(); err != nil {
		t.Error(err)
	}
	text, err := out.WritePlan(amplified, nil)
	if err != nil || !strings.Contains(string(text), `"independent_noise": `) {
		t.Errorf("%v\n%s", err, text)
	}
}
