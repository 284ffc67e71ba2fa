package pld

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"minsep/internal/must"
)

// cyclic is one example's steps by cyclic Poisson sampling, with columns of norm 1.
func cyclic(prob float64, steps, minSep int, sigma float64) []Step {
	return Cyclic(Release{Prob: prob, NoiseMultiplier: sigma, Examples: 1}, slices.Repeat([]float64{1}, steps), minSep)
}

// deltaOf is the bound of δ(ε) of steps.
func deltaOf(t interface{ Fatal(...any) }, steps []Step, o Options, epsilon float64) float64 {
	c, err := Compose(steps, o)
	if err != nil {
		t.Fatal(err)
	}
	delta, err := c.Delta(epsilon)
	if err != nil {
		t.Fatal(err)
	}
	return delta
}

// TestGoldenSigma: the column of cyclic Poisson in sigma.json, made on a grid of 1e-3.
func TestGoldenSigma(t *testing.T) {
	raw := must.Get(os.ReadFile("testdata/sigma_cyclic.json"))(t)
	var cases []struct {
		Eps, Delta float64
		N, B       int
		PCyclic    float64 `json:"p_cyclic"`
		Sigma      float64 `json:"sigma_cyclic_poisson_pld"`
	}
	must.Do(t, json.Unmarshal(raw, &cases))
	if len(cases) != 7 {
		t.Fatalf("%d cases, want 7", len(cases))
	}
	for _, c := range cases {
		got, err := fineSearch(0).Calibrate(c.Delta, func(sigma float64) (float64, error) {
			return deltaOf(t, cyclic(c.PCyclic, c.N, c.B, sigma), Options{Grid: 1e-3}, c.Eps), nil
		})
		if err != nil || math.Abs(got/c.Sigma-1) > 3e-5 {
			t.Errorf("(%g, %g), n = %d, b = %d: σ = %.6f, want %.6f, %v", c.Eps, c.Delta, c.N, c.B, got, c.Sigma, err)
		}
	}
}

// fineSearch is from 1 on.
func fineSearch(least float64) Search { return Search{Least: least, Start: 1, Step: 0.7, Width: 1e-6} }

// TestCalibrateFromLeast: the least noise multiplier is the answer where it is enough, and what
// needs more is found as without one, also where the least is above the first that is tried.
func TestCalibrateFromLeast(t *testing.T) {
	for _, c := range []struct {
		examples       int
		epsilon, least float64
		want           float64 // 0: as without a least
	}{
		{1, 1, 3.7, 0}, {1, 1, 3.8, 3.8}, {1, 30000, .005, .005}, {300, 1, 1.5, 0}, {300, 30000, 1.5, 1.5},
	} {
		got, err := fineSearch(c.least).Calibrate(1e-5, func(sigma float64) (float64, error) {
			e := Release{Prob: 1, NoiseMultiplier: sigma, Sensitivity: 1, Examples: c.examples}
			return deltaOf(t, []Step{{e, 1}}, Options{Grid: 3e-2}, c.epsilon), nil
		})
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if c.want == 0 {
			exact := 3.7306 * float64(c.examples) // of one normal release at (1, 1e-5)
			if got < exact || got > 1.01*exact {
				t.Errorf("%+v: %v, want a little above %v", c, got, exact)
			}
		} else if got != c.want {
			t.Errorf("%+v: %v, want %v", c, got, c.want)
		}
	}
	if least := LeastNoiseMultiplier(2, 3); (Release{Prob: 1, NoiseMultiplier: least, Sensitivity: 2, Examples: 3}).Validate() != nil {
		t.Errorf("the least noise multiplier, %g, is refused", least)
	}
}

// TestPublishedProduction: the production run of arXiv 2602.09338, as recomputed: cyclic Poisson
// 0.5745, DP-SGD 0.3669.
func TestPublishedProduction(t *testing.T) {
	const n, b, batch, examples = 7200, 256, 1793.0, 14_745_600.0
	for _, c := range []struct {
		minSep int
		grid   float64
		want   float64
	}{{b, 1e-3, 0.5745}, {1, 2e-4, 0.3669}} {
		if testing.Short() && c.minSep == 1 {
			continue
		}
		got, err := fineSearch(0).Calibrate(1.301e-8, func(sigma float64) (float64, error) {
			return deltaOf(t, cyclic(float64(c.minSep)*batch/examples, n, c.minSep, sigma), Options{Grid: c.grid}, 10), nil
		})
		if err != nil || math.Abs(got-c.want) > 1e-4 {
			t.Errorf("min-sep %d: σ = %.6f, want %g, %v", c.minSep, got, c.want, err)
		}
	}
}

// TestWideLossesHaveFewCells: the composed loss of much too little noise spreads over hundreds, and is
// computed on a coarser grid, with next to the same result as on a fine one.
func TestWideLossesHaveFewCells(t *testing.T) {
	steps := cyclic(0.05, 200, 1, 0.3)
	const fineGrid = 2e-4
	c := must.Get(Compose(steps, Options{}))(t)
	if grid := c.PQ.grid; grid < 3*fineGrid {
		t.Errorf("the chosen grid is %g", grid)
	}
	chosen, fine := deltaOf(t, steps, Options{}, 60), deltaOf(t, steps, Options{Grid: fineGrid}, 60)
	if chosen < fine*(1-1e-9) || chosen > fine*(1+1e-3) {
		t.Errorf("δ(60) on the chosen grid %v, on a fine one %v", chosen, fine)
	}
}

// TestCalibrateUpToLargest: what needs almost the largest noise multiplier is found, whatever the steps
// of the search, and what needs more is not.
func TestCalibrateUpToLargest(t *testing.T) {
	for _, want := range []float64{4e4, 6e5, 9.9e5} {
		got, err := fineSearch(0).Calibrate(1e-5, func(sigma float64) (float64, error) { return min(0.5, 1e-5*want/sigma), nil })
		if err != nil || math.Abs(got/want-1) > 1e-5 {
			t.Errorf("σ = %g, %v, want %g", got, err, want)
		}
	}
	delta := func(sigma float64) (float64, error) { return min(0.5, 11/sigma), nil }
	must.Fail(t, "more than the largest", ErrNotReached.Error())(fineSearch(0).Calibrate(1e-5, delta))
}
