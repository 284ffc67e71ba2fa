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
		got, err := Calibrate(c.Eps, c.Delta, 0, func(sigma float64) (*Composition, error) {
			return CyclicPoisson{Prob: c.PCyclic, Steps: c.N, MinSep: c.B, NoiseMultiplier: sigma}.Compose(Options{Grid: 1e-3})
		})
		if err != nil || math.Abs(got.Upper/c.Sigma-1) > 3e-5 || got.Upper/got.Lower > 1+1e-4 {
			t.Errorf("(%g, %g), n = %d, b = %d: σ in [%.6f, %.6f], want %.6f, %v", c.Eps, c.Delta, c.N, c.B, got.Lower, got.Upper, c.Sigma, err)
		}
	}
}

// TestCalibrateFromLeast: the least noise multiplier is the answer where it is enough, and what
// needs more is found as without one, also where the least is above the first that is tried.
func TestCalibrateFromLeast(t *testing.T) {
	release := func(examples int) func(sigma float64) (*Composition, error) {
		return func(sigma float64) (*Composition, error) {
			e := Event{Prob: 1, NoiseMultiplier: sigma, Sensitivity: 1, Examples: examples}
			return Compose([]Step{{Event: e, Count: 1}}, Options{Grid: 3e-2})
		}
	}
	for _, c := range []struct {
		examples       int
		epsilon, least float64
		want           float64 // 0: as without a least
	}{
		{1, 1, 3.7, 0}, {1, 1, 3.8, 3.8}, {1, 30000, .005, .005}, {300, 1, 1.5, 0}, {300, 30000, 1.5, 1.5},
	} {
		got, err := Calibrate(c.epsilon, 1e-5, c.least, release(c.examples))
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		want := Bracket{Upper: c.want}
		if c.want == 0 {
			exact := 3.7306 * float64(c.examples) // of one normal release at (1, 1e-5)
			if got.Lower > exact || got.Upper < exact || got.Upper > 1.02*got.Lower {
				t.Errorf("%+v: %v, want a narrow bracket of %v", c, got, exact)
			}
		} else if got != want {
			t.Errorf("%+v: %v, want %v", c, got, want)
		}
	}
	if least := LeastNoiseMultiplier(2, 3); (Event{Prob: 1, NoiseMultiplier: least, Sensitivity: 2, Examples: 3}).Validate() != nil {
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
		gap    float64
		want   float64
	}{{b, 1e-3, 1e-4, 0.5745}, {1, 2e-4, 0.02, 0.3669}} {
		if testing.Short() && c.minSep == 1 {
			continue
		}
		got, err := Calibrate(10, 1.301e-8, 0, func(sigma float64) (*Composition, error) {
			return CyclicPoisson{Prob: float64(c.minSep) * batch / examples, Steps: n, MinSep: c.minSep, NoiseMultiplier: sigma}.Compose(Options{Grid: c.grid})
		})
		t.Logf("min-sep %d: σ in [%.6f, %.6f]", c.minSep, got.Lower, got.Upper)
		if err != nil || math.Abs(got.Upper-c.want) > 1e-4 || got.Lower < c.want-c.gap {
			t.Errorf("min-sep %d: σ in [%.6f, %.6f], want %g, %v", c.minSep, got.Lower, got.Upper, c.want, err)
		}
	}
}

// TestWideLossesHaveFewCells: the composed loss of much too little noise spreads over hundreds, and is
// computed on a coarser grid, with next to the same result as on a fine one.
func TestWideLossesHaveFewCells(t *testing.T) {
	mechanism := CyclicPoisson{Prob: 0.05, Steps: 200, MinSep: 1, NoiseMultiplier: 0.3}
	const fineGrid = 2e-4
	delta := func(o Options) Bracket {
		c, err := mechanism.Compose(o)
		if err != nil {
			t.Fatal(err)
		}
		if grid := c.PQ.upper.grid; o.Grid == 0 && grid < 3*fineGrid {
			t.Errorf("the chosen grid is %g", grid)
		}
		d, err := c.Delta(60)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	chosen, fine := delta(Options{}), delta(Options{Grid: fineGrid})
	if chosen.Lower > fine.Upper || chosen.Upper < fine.Lower || chosen.Upper > fine.Upper*(1+1e-3) {
		t.Errorf("δ(60) on the chosen grid %v, on a fine one %v", chosen, fine)
	}
}
