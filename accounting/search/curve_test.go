package search

import (
	"math"
	"math/rand/v2"
	"testing"

	"minsep/accounting"
	"minsep/internal/stattest"
)

// TestScale: the scale is the Gaussian mechanism's divergence, and its inverse is one.
func TestScale(t *testing.T) {
	for _, c := range []struct{ epsilon, delta float64 }{{0, .1}, {.1, 1e-3}, {2, 1e-5}, {8, 1e-9}, {3, 1e-40}, {1, .6}} {
		s, err := NewScale(c.epsilon, c.delta)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range []float64{-3.01, -1, -.303, -.02, 0, .057, .3, .9} {
			want, err := accounting.Gaussian{NoiseMultiplier: s.multiplier * math.Exp(u), Sensitivity: 1}.Delta(c.epsilon)
			if err != nil {
				t.Fatal(err)
			}
			if want < 1e-250 {
				continue
			}
			if got := c.delta * math.Exp(s.Ratio(u)); math.Abs(math.Log(got/want)) > 5e-3 {
				t.Errorf("%+v at %g: %g, want %g", c, u, got, want)
			}
			if got := s.at(s.Ratio(u)); math.Abs(got-u) > 1e-6 && math.Abs(s.Ratio(got)-s.Ratio(u)) > 1e-6 {
				t.Errorf("%+v: %g comes back as %g", c, u, got)
			}
		}
	}
}

// TestCurve: over seeds, the solution of what a divergence with a pace of its own shows lies around
// the true one as its standard error says, and so do the quantiles of the divergence there.
func TestCurve(t *testing.T) {
	const epsilon, delta, seeds = 2, 1e-5, 400
	s, err := NewScale(epsilon, delta)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name string
		at   []float64 // ln σ of looks; the divergence is δ at 0
		hits float64   // of one where the divergence is δ
		most float64   // standard error at most
	}{
		{"one at δ", []float64{.003}, 100, .012},
		{"one below", []float64{-.2}, 1, .08},
		{"one on each side", []float64{-.05, .06}, 60, .01},
		{"three", []float64{-.2, -.03, .04}, 40, .02},
	} {
		squares, inside, stdErr := 0.0, 0, 0.0
		for range seeds {
			pace := math.Exp(.3 * rng.NormFloat64())
			var seen []Seen
			for _, x := range c.at {
				of := Seen{X: x, Tries: c.hits / delta}
				of.Hits = stattest.Poisson(rng, c.hits*math.Exp(s.Ratio(pace*x)))
				seen = append(seen, of)
			}
			curve := s.Curve(seen, UnknownPace)
			got := curve.Solve()
			squares += got.X * got.X / (got.StdErr * got.StdErr) / seeds
			stdErr += got.StdErr / seeds
			if curve.Quantile(.159, 1) < delta && curve.Quantile(.841, 1) > delta {
				inside++
			}
		}
		t.Logf("%s: mean square of the standardised errors %.2f, standard error %.3f, %d of %d within one", c.name, squares, stdErr, inside, seeds)
		if squares < .4 || squares > 1.6 || stdErr > c.most || inside < 6*seeds/10 {
			t.Errorf("%s: mean square of the standardised errors %.2f, standard error %.3f, %d of %d within one", c.name, squares, stdErr, inside, seeds)
		}
	}
}
