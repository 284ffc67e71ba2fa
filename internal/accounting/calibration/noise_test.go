package calibration

import (
	"math"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/montecarlo"
	"minsep/internal/must"
	"minsep/mechanism"
	"minsep/sampling"
)

// estimate is the noise multiplier by samples, of a claim that may be proven without them.
func (c Claim) estimate(t *testing.T, start float64) (Noise, error) {
	t.Helper()
	s := must.Get(c.newSearch(montecarlo.P))(t)
	return s.noise(t.Context(), start, Tolerance)
}

// TestErrors: over seeds, estimates lie around what is proven as their standard errors say. The
// mean square of 20 standardised errors is outside of these limits once in 10⁴ times.
func TestErrors(t *testing.T) {
	run := accounting.Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: .3, Steps: 8}}, Strategy: mechanism.Identity(8), MaxExamplesPerOwner: 1}
	of := Claim{Run: run, Epsilon: .5, Delta: 1e-3}
	want := must.Get(of.Proven(1, 1e-5))(t)
	squares := 0.0
	const seeds = 20
	for of.Seed = range seeds {
		n := must.Get(of.estimate(t, 1.3*want.Multiplier))(t)
		off := (n.Multiplier - want.Multiplier) / n.StdErr
		squares += off * off / seeds
	}
	if squares < 0.25 || squares > 2.6 {
		t.Errorf("mean square of the standardised errors: %.2f", squares)
	}
}

// TestProven compares the coarse grid of losses with the fine one.
func TestProven(t *testing.T) {
	toeplitz := must.Get(mechanism.Problem{Workload: mechanism.Prefix(24)}.Make(t.Context(), mechanism.KindBandedToeplitz, 4))(t)
	for _, c := range []struct {
		run accounting.Run
	}{
		{accounting.Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: .125, Steps: 24}}, Strategy: mechanism.Identity(24), MaxExamplesPerOwner: 1}},
		{accounting.Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: .01, Steps: 24}}, Strategy: mechanism.Identity(24), MaxExamplesPerOwner: 3}},
		{accounting.Run{Sampler: sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: .5, Steps: 24, MinSep: 4}}, Strategy: toeplitz, MaxExamplesPerOwner: 1}},
		{accounting.Run{Sampler: sampling.Spec{Fixed: &sampling.Fixed{BatchSize: 8, Steps: 24, MinSep: 5}}, Strategy: toeplitz, MaxExamplesPerOwner: 1}},
	} {
		for _, epsilon := range []float64{.5, 6} {
			got := must.Get(Claim{Run: c.run, Epsilon: epsilon, Delta: 1e-5}.Proven(1, Narrow))(t)
			want := must.Get(c.run.Calibrate(t.Context(), epsilon, 1e-5))(t)
			if !got.Proven || got.Multiplier < want*(1-2e-6) || got.Multiplier > 1.002*want {
				t.Errorf("%s at ε = %g: %+v, on the fine grid %+v", c.run.Sampler.Kind().Name, epsilon, got, want)
			}
		}
	}
}

// TestEstimate compares noise multipliers of independent events, estimated by samples, with their
// privacy loss distributions.
func TestEstimate(t *testing.T) {
	for _, c := range []struct{ prob, epsilon, delta, start float64 }{{.125, 1, 1e-4, 8}, {.02, 4, 1e-5, .1}, {.3, .5, 1e-3, 1}} {
		run := accounting.Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: c.prob, Steps: 24}}, Strategy: mechanism.Identity(24), MaxExamplesPerOwner: 1}
		of := Claim{Run: run, Epsilon: c.epsilon, Delta: c.delta}
		want := must.Get(of.Proven(1, Narrow))(t)
		got, err := of.estimate(t, c.start*want.Multiplier)
		if err == nil {
			got, err = got.Both(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if got.Proven || got.OneDirection || !(got.StdErr > 0) || got.StdErr > 1.01*Tolerance*got.Multiplier {
			t.Errorf("p = %g: %+v", c.prob, got)
		}
		if off := math.Abs(got.Multiplier - want.Multiplier); off > 4.5*got.StdErr+1e-3*want.Multiplier {
			t.Errorf("p = %g, ε = %g: estimated %g ± %g, proven %g", c.prob, c.epsilon, got.Multiplier, got.StdErr, want.Multiplier)
		}
	}
}

// TestOtherDirection: where H(Q,P) needs more noise than what was found by H(P,Q), it counts.
func TestOtherDirection(t *testing.T) {
	run := accounting.Run{Sampler: sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 16, Period: 8}}, Strategy: mechanism.Identity(16), MaxExamplesPerOwner: 1}
	of := Claim{Run: run, Epsilon: 1, Delta: 1e-4}
	n := must.Get(Noise{Multiplier: .3, StdErr: .001, OneDirection: true, found: must.Get(of.newSearch(montecarlo.P))(t)}.Both(t.Context()))(t)
	if n.OneDirection || n.Multiplier < .5 {
		t.Errorf("noise far too small for H(Q,P) stayed: %+v", n)
	}
}

// TestProvenFromAfar: the search begins where losses are not composed, below the least noise
// multiplier of so many examples of an owner or of so large an ε.
func TestProvenFromAfar(t *testing.T) {
	poisson := sampling.Spec{Poisson: &sampling.Poisson{Prob: .01, Steps: 24}}
	many := Claim{Run: accounting.Run{Sampler: poisson, Strategy: mechanism.Identity(24), MaxExamplesPerOwner: 300}, Epsilon: 6, Delta: 1e-5}
	got := must.Get(many.Proven(1, Narrow))(t)
	for factor, enough := range map[float64]bool{1 + 2e-6: true, 1 / 1.002: false} { // on the fine grid
		pq, qp, err := many.Run.Prove(factor*got.Multiplier, 6)
		if err != nil || (max(pq, qp) <= 1e-5) != enough {
			t.Errorf("300 examples of an owner: %+v; %g times as much has %g, %g, %v", got, factor, pq, qp, err)
		}
	}
	one := Claim{Run: accounting.Run{Sampler: poisson, Strategy: mechanism.Identity(24), MaxExamplesPerOwner: 1}, Epsilon: 1e6, Delta: 1e-5}
	if got, err := one.Proven(1, Narrow); err != nil || got.Multiplier < 1./200 || got.Multiplier > 1.01/200 {
		t.Errorf("an ε of 1e6: %+v, %v, want the least noise multiplier of which losses are composed", got, err)
	}
}

// TestFit: a line through exact points of a divergence that falls as a Gaussian mechanism's with a
// power of σ is that divergence, and errors of the points are those of the line.
func TestFit(t *testing.T) {
	scale := must.Get(newScale(2, 1e-6))(t)
	for u := -2.0; u < 1; u += .37 {
		if got := scale.inverse(scale.ratio(u)); math.Abs(got-u) > 1e-9 {
			t.Errorf("the inverse at %g is %g", u, got)
		}
		at, err := accounting.Gaussian{NoiseMultiplier: math.Exp(u) * gaussianAt(t, 2, 1e-6), Sensitivity: 1}.Delta(2)
		if err != nil || math.Abs(scale.ratio(u)-math.Log(at/1e-6)) > 2e-3 {
			t.Errorf("ln of the ratio at %g is %g, want %g, %v", u, scale.ratio(u), math.Log(at/1e-6), err)
		}
	}
	const zero, slope = .4, 1.15
	var points []point
	for _, x := range []float64{.25, .38, .45} {
		points = append(points, point{x, slope * (x - zero), 1e-4})
	}
	l := scale.fit(points)
	if x, stdErr, _ := l.solve(); math.Abs(x-zero) > .01 || stdErr > .01 || math.Abs(l.slope-slope) > .1 {
		t.Errorf("zero at %g ± %g with slope %g, want %g and %g", x, stdErr, l.slope, zero, slope)
	}
	one := scale.fit([]point{{.3, slope * (.3 - zero), 1e-3}})
	if x, stdErr, bySlope := one.solve(); math.Abs(x-zero) > 2*stdErr || bySlope < .9*stdErr {
		t.Errorf("by one point: zero at %g ± %g, of which %g by the slope", x, stdErr, bySlope)
	}
}

func gaussianAt(t *testing.T, epsilon, delta float64) float64 {
	t.Helper()
	sigma := must.Get(accounting.GaussianNoiseMultiplier(epsilon, delta, 1))(t)
	return sigma
}
