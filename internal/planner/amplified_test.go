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
			for _, bands := range []int{4} {
				problem := mechanism.Problem{Workload: &mechanism.Workload{Steps: n, Forgetting: 2. / n}}
				toeplitz := must.Get(problem.Make(t.Context(), mechanism.KindBandedToeplitz, bands))(t)
				sigma := func(s *mechanism.Strategy) float64 {
					run := accounting.Run{Sampler: sampler(bands), Strategy: s, MaxExamplesPerOwner: 1}
					found, err := calibration.Claim{Run: run, Epsilon: epsilon, Delta: delta}.Noise(t.Context(), 0, math.Inf(1))
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

// TestPrefer: of rows that cannot be told from the least noise, and have little more by their estimates,
// the one that uses the most data is first, then one of a strategy that no estimate chose, and for Adam
// the one with the least noise of one step.
func TestPrefer(t *testing.T) {
	const known, chosen = mechanism.KindBSR, mechanism.KindAmplified
	row := func(kind string, relative, stdErr, kept, step float64) *Row {
		return &Row{Strategy: mechanism.Params{Kind: kind, Bands: 4}, Relative: relative, StdErr: stdErr, Kept: kept, step: step, MaxPerOwner: 1, Noise: calibration.Noise{Proven: true}}
	}
	for _, c := range []struct {
		name string
		adam bool
		rows []*Row
		want int
	}{
		{"no estimate chose it", false, []*Row{row(chosen, 1, .01, 1, 1), row(chosen, 1.01, .01, 1, 1), row(known, 1.02, .01, 1, 1)}, 2},
		{"ahead by more than the errors", false, []*Row{row(chosen, 1, .01, 1, 1), row(known, 1.1, .01, 1, 1)}, 0},
		{"alone", false, []*Row{row(chosen, 1, .01, 1, 1)}, 0},
		{"the least", false, []*Row{row(known, 1, .01, 1, 2), row(chosen, 1.001, .01, 1, 1), row(known, 1.001, .01, 1, 1)}, 0},
		{"most data", false, []*Row{row(known, 1, .01, .1, 1), row(known, 1.02, .01, .15, 1), row(known, 1.03, .01, .14, 1), row(known, 1.2, .1, .5, 1)}, 1},
		{"most data beside the first", false, []*Row{row(chosen, 1, .001, .04, 1), row(known, 1.022, .01, .04, 1), row(chosen, 1.023, .001, .1, 1), row(known, 1.06, .01, .5, 1)}, 2},
		{"most data between the least and the first", false, []*Row{row(chosen, 1, .001, .04, 1), row(chosen, 1.02, .001, .1, 1), row(known, 1.022, .01, .04, 1)}, 1},
		{"in a circle", true, []*Row{row(known, 1, .01, 1.016, 3), row(known, 1, .01, 1, 1), row(known, 1, .01, 1.008, 2)}, 1},
		{"calm", true, []*Row{row(known, 1, .01, 1, 3), row(known, 1.02, .01, 1, 1), row(known, 1.03, .01, .9, .5), row(known, 1.2, .01, 1, .5)}, 1},
	} {
		r := small()
		if c.adam {
			r.Workload.Optimizer = mechanism.Adam
		}
		want := c.rows[c.want]
		if err := (&planning{Request: &r}).prefer(t.Context(), c.rows); err != nil || c.rows[0] != want {
			t.Errorf("%s: the first is %+v, %v", c.name, c.rows[0], err)
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
