package pld

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"minsep/internal/must"
)

type goldenCase struct {
	Case  string
	Sigma float64
	Q     *float64
	T     int
	Res   map[string]struct {
		Eps   map[string]float64 `json:"eps_at_delta"`
		Delta map[string]float64 `json:"delta_at_eps"`
	}
	Optimistic map[string]float64 `json:"optimistic_1e-4_eps"`
}

func goldenCases(t *testing.T) (cases []goldenCase) {
	raw := must.Get(os.ReadFile("testdata/dp_accounting_eps.json"))(t)
	var file struct{ Cases []goldenCase }
	must.Do(t, json.Unmarshal(raw, &file))
	if len(file.Cases) != 13 {
		t.Fatalf("%d cases, want 13", len(file.Cases))
	}
	return file.Cases
}

func (g goldenCase) compose(t *testing.T, grid float64) *Composition {
	e := Release{Prob: 1, NoiseMultiplier: g.Sigma, Sensitivity: 1, Examples: 1}
	if g.Q != nil {
		e.Prob = *g.Q
	}
	c := must.Get(Compose([]Step{{e, g.T}}, Options{Grid: grid}))(t)
	return c
}

// TestGoldenEpsilon: our bound at the grid of dp_accounting lies between its two.
func TestGoldenEpsilon(t *testing.T) {
	for _, g := range goldenCases(t) {
		c := g.compose(t, 1e-4)
		for key, theirs := range g.Res["0.0001"].Eps {
			if testing.Short() && key != "1e-05" {
				continue
			}
			delta, _ := strconv.ParseFloat(key, 64)
			got := must.Get(c.Epsilon(delta))(t)
			if got < g.Optimistic[key] || got > theirs+1e-6 {
				t.Errorf("%s σ=%g T=%d: ε(%g) = %.7f, dp_accounting [%.7f, %.7f]", g.Case, g.Sigma, g.T, delta, got, g.Optimistic[key], theirs)
			}
		}
	}
}
