package calibration

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/ledger"
	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/mechanism"
	"minsep/sampling"
)

// sigmaCase is a case of sigma.json: the noise multiplier of b-min-sep by plain sampling, and that
// of cyclic Poisson by another accountant.
type sigmaCase struct {
	Epsilon float64 `json:"eps"`
	Delta   float64 `json:"delta"`
	Steps   int     `json:"n"`
	MinSep  int     `json:"b"`
	Bands   int     `json:"bands"`
	Prob    float64 `json:"p_bminsep"`
	Cyclic  float64 `json:"p_cyclic"`
	Sigma   float64 `json:"sigma_bminsep_warm"`
	StdErr  float64 `json:"sigma_se"`
	PLD     float64 `json:"sigma_cyclic_poisson_pld"`
}

// run has the banded square root of norm 1.
func (c sigmaCase) run() accounting.Run {
	column := make([]float64, c.Bands)
	column[0] = 1
	for j := 1; j < c.Bands; j++ {
		column[j] = column[j-1] * (1 - 1/(2*float64(j)))
	}
	square := 0.0
	for _, x := range column {
		square += x * x
	}
	for j := range column {
		column[j] /= math.Sqrt(square)
	}
	return accounting.Run{
		Sampler:             sampling.Spec{BMinSep: &sampling.BMinSep{Prob: c.Prob, Steps: c.Steps, MinSep: c.MinSep, WarmStart: true}},
		Strategy:            &mechanism.Strategy{Kind: mechanism.KindBSR, Steps: c.Steps, Toeplitz: column},
		MaxExamplesPerOwner: 1,
	}
}

// estimateError is the standard error of an estimated noise multiplier: three or four δ of 7 % each
// at slopes of -5 and steeper.
const estimateError = 0.008

// TestGoldenSigma compares estimates with plain sampling, within 4 combined standard errors, and
// cyclic Poisson with another accountant. A noise multiplier well below the exact one is not
// verified.
func TestGoldenSigma(t *testing.T) {
	data := must.Get(os.ReadFile("testdata/sigma.json"))(t)
	var golden struct{ Cases []sigmaCase }
	must.Do(t, json.Unmarshal(data, &golden))
	if len(golden.Cases) < 6 {
		t.Fatalf("%d cases", len(golden.Cases))
	}
	for i, c := range golden.Cases {
		if !stattest.Long() && (i >= 6 || c.Steps > 128) {
			continue
		}
		t.Run(fmt.Sprintf("eps=%g,delta=%g,n=%d,b=%d", c.Epsilon, c.Delta, c.Steps, c.MinSep), func(t *testing.T) {
			p := Problem{Run: c.run(), Epsilon: c.Epsilon, Delta: c.Delta, Samples: 40_000, CodeVersion: "test"}
			plan := must.Get(p.Plan(t.Context()))(t)
			tolerance := 4 * math.Hypot(c.StdErr/c.Sigma, estimateError)
			t.Logf("estimate %.4f, by plain sampling %.4f ± %.4f", plan.Estimate, c.Sigma, c.StdErr)
			if math.Abs(plan.Estimate/c.Sigma-1) > tolerance {
				t.Errorf("estimate %.4f, by plain sampling %.4f ± %.4f", plan.Estimate, c.Sigma, c.StdErr)
			}
			p.NoiseMultiplier = 0.93 * c.Sigma // 7 % too little
			if low, err := p.Plan(t.Context()); errors.Is(err, ErrEstimatedAbove) {
				t.Logf("noise multiplier %.4f: %v", p.NoiseMultiplier, err)
			} else if err != nil {
				t.Error(err)
			} else if l, err := ledger.Create(t.TempDir(), low.Protocol); err != nil {
				t.Error(err)
			} else if _, err := Finish(t.Context(), l, 1<<14, 0); !errors.Is(err, accounting.ErrNotVerified) {
				t.Errorf("noise multiplier %.4f: got %v", p.NoiseMultiplier, err)
			}
			p.NoiseMultiplier = 0
			cyclic := p
			cyclic.Run.Sampler = sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: c.Cyclic, Steps: c.Steps, MinSep: c.MinSep}}
			proven, err := cyclic.Plan(t.Context())
			if err != nil || math.Abs(proven.Estimate/c.PLD-1) > 2e-3 {
				t.Errorf("cyclic Poisson: %v, %v, want %.4f", proven.Estimate, err, c.PLD)
			}
		})
	}
}
