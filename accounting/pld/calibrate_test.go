package pld

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// TestGoldenSigma: the column of cyclic Poisson in sigma.json, made on a grid of 1e-3.
func TestGoldenSigma(t *testing.T) {
	raw, err := os.ReadFile("testdata/sigma_cyclic.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Eps, Delta float64
		N, B       int
		PCyclic    float64 `json:"p_cyclic"`
		Sigma      float64 `json:"sigma_cyclic_poisson_pld"`
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) != 7 {
		t.Fatalf("%d cases, want 7", len(cases))
	}
	for _, c := range cases {
		got, err := Calibrate(c.Eps, c.Delta, func(sigma float64) (*Composition, error) {
			return CyclicPoisson{Prob: c.PCyclic, Steps: c.N, MinSep: c.B, NoiseMultiplier: sigma}.Compose(Options{Grid: 1e-3})
		})
		if err != nil || math.Abs(got.Upper/c.Sigma-1) > 3e-5 || got.Upper/got.Lower > 1+1e-4 {
			t.Errorf("(%g, %g), n = %d, b = %d: σ in [%.6f, %.6f], want %.6f, %v", c.Eps, c.Delta, c.N, c.B, got.Lower, got.Upper, c.Sigma, err)
		}
	}
}

// TestPublishedProduction: the production run of arXiv 2602.09338, as recomputed: cyclic Poisson
// 0.5745, DP-SGD 0.3669.
func TestPublishedProduction(t *testing.T) {
	const n, b, batch, examples = 7200, 256, 1793.0, 14_745_600.0
	for _, c := range []struct {
		minSep int
		grid   float64
		gap    float64
		want   float64
	}{{b, 1e-3, 1e-4, 0.5745}, {1, 2e-4, 0.02, 0.3669}} {
		if testing.Short() && c.minSep == 1 {
			continue
		}
		got, err := Calibrate(10, 1.301e-8, func(sigma float64) (*Composition, error) {
			return CyclicPoisson{Prob: float64(c.minSep) * batch / examples, Steps: n, MinSep: c.minSep, NoiseMultiplier: sigma}.Compose(Options{Grid: c.grid})
		})
		t.Logf("min-sep %d: σ in [%.6f, %.6f]", c.minSep, got.Lower, got.Upper)
		if err != nil || math.Abs(got.Upper-c.want) > 1e-4 || got.Lower < c.want-c.gap {
			t.Errorf("min-sep %d: σ in [%.6f, %.6f], want %g, %v", c.minSep, got.Lower, got.Upper, c.want, err)
		}
	}
}
