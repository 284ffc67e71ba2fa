package tilt

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"gonum.org/v1/gonum/stat"

	"minsep/internal/montecarlo"
	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/sampling"
)

// goldenCase is a case of mc_bminsep.json or mc_bnb_cyclic.json: Monte Carlo estimates by plain
// sampling.
type goldenCase struct {
	Scheme string    `json:"scheme"`
	Steps  int       `json:"n"`
	MinSep int       `json:"b"`
	Epoch  int       `json:"epoch"`
	Prob   float64   `json:"p"`
	Rate   float64   `json:"p0"` // where p is not given
	Sigma  float64   `json:"sigma"`
	Start  string    `json:"start"`
	C      []float64 `json:"c"`
	Deltas []struct {
		Epsilon float64 `json:"eps"`
		PQ      float64 `json:"delta_PQ"`
		PQErr   float64 `json:"se_PQ"`
		QP      float64 `json:"delta_QP"`
		QPErr   float64 `json:"se_QP"`
	} `json:"deltas"`
}

func (c goldenCase) spec() montecarlo.Spec {
	var scheme sampling.Scheme
	switch c.Scheme {
	case "epoch_min_sep":
		scheme = sampling.EpochMinSep{Steps: c.Steps, MinSep: c.MinSep, EpochSteps: c.Epoch}
	case "balls_in_bins":
		scheme = sampling.BallsInBins{Steps: c.Steps, Period: c.MinSep}
	default:
		if c.Prob == 0 {
			c.Prob = c.Rate / (1 - c.Rate*float64(c.MinSep-1))
		}
		scheme = sampling.BMinSep{Prob: c.Prob, Steps: c.Steps, MinSep: c.MinSep, WarmStart: c.Start == "warm"}
	}
	return specOf(scheme, toeplitz(c.Steps, c.C...), c.Sigma)
}

func readGolden(t *testing.T, file string) []goldenCase {
	t.Helper()
	data := must.Get(os.ReadFile("testdata/" + file))(t)
	var all struct{ Cases []goldenCase }
	must.Do(t, json.Unmarshal(data, &all))
	return all.Cases
}

func testVerifier(t testing.TB, c Config) *Verifier {
	t.Helper()
	proposal := must.Get(NewProposal(t.Context(), c, math.Inf(1)))(t)
	v := must.Get(NewVerifier(proposal, stream.PublicKey("test", []byte(fmt.Sprint(c.Epsilon, c.Direction)))))(t)
	return v
}

// TestGolden compares means of values with plain sampling, in both directions, within 4 combined
// standard errors as the files say, where the estimate may be made.
func TestGolden(t *testing.T) {
	compared := 0
	cases := readGolden(t, "mc_bminsep.json")
	for _, c := range readGolden(t, "mc_epoch.json") { // min-sep above the bands
		if c.Scheme == "b_min_sep" || c.Scheme == "epoch_min_sep" {
			cases = append(cases, c)
		}
	}
	for _, c := range readGolden(t, "mc_bnb_cyclic.json") {
		if c.Scheme == "balls_in_bins" {
			cases = append(cases, c)
		}
	}
	part := 2
	if stattest.Long() {
		part = 1
	}
	for i, c := range cases {
		if i%part > 0 {
			continue
		}
		for _, d := range c.Deltas {
			for _, direction := range montecarlo.Directions {
				want, wantErr := d.PQ, d.PQErr
				if direction == montecarlo.Q {
					want, wantErr = d.QP, d.QPErr
				}
				if c.Prob == 0 && wantErr == 0 && c.Scheme != "balls_in_bins" {
					continue // not in the file
				}
				v := testVerifier(t, Config{c.spec(), d.Epsilon, direction})
				name := fmt.Sprintf("%s n=%d b=%d p=%.3g σ=%v %s ε=%v %s", c.Scheme, c.Steps, c.MinSep, c.Prob, c.Sigma, c.Start, d.Epsilon, direction)
				const samples = 2000
				if v.proposal.Bound > want*samples/10 {
					continue // the standard error would itself be a matter of luck
				}
				compared++
				values := make([]float64, samples)
				v.Values(values, 0)
				mean, off := stat.MeanStdDev(values, nil)
				off /= math.Sqrt(samples)
				if diff := math.Abs(mean - want); diff > 4*math.Hypot(off, wantErr) {
					t.Errorf("%s: %.6g ± %.2g, by plain sampling %.6g ± %.2g", name, mean, off, want, wantErr)
				}
				if mean > v.proposal.Divergence+4*off {
					t.Errorf("%s: mean %g above the proven bound %g", name, mean, v.proposal.Divergence)
				}
			}
		}
	}
	if compared < 30/part {
		t.Errorf("only %d comparisons were made", compared)
	}
}
