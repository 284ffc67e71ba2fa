package montecarlo

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"minsep/mechanism"
)

// TestAtMostOnceIsExact: with b ≥ n losses are exact for any strategy, in both directions, however
// many bands it has: those of 1 - q + Σ a_i L_i (F3.10), from whole columns here.
func TestAtMostOnceIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 1))
	for n := 1; n <= 9; n++ {
		columns := make([][]float64, n)
		for i := range columns {
			for range n - i {
				columns[i] = append(columns[i], .1+rng.Float64())
			}
		}
		for _, strategy := range []*mechanism.Strategy{{Kind: mechanism.KindDense, Steps: n, Columns: columns},
			{Kind: mechanism.KindToeplitz, Steps: n, Toeplitz: columns[0], Normalized: n%2 == 0}} {
			for _, p := range []float64{.05, .4, 1} {
				s := Spec{Scheme: BMinSep, Steps: n, MinSep: n + rng.IntN(3), Prob: p, WarmStart: rng.IntN(2) == 0, NoiseMultiplier: .4 + rng.Float64(), Strategy: strategy}
				name := fmt.Sprintf("%s n=%d b=%d p=%v warm=%v", strategy.Kind, n, s.MinSep, p, s.WarmStart)
				if s.Exactness() != Exact {
					t.Errorf("%s: %s", name, s.Exactness())
				}
				y := make([]float64, n)
				for i := range y {
					y[i] = 2 * rng.NormFloat64()
				}
				want := atMostOnce(s, y)
				for _, d := range Directions {
					e, err := NewEvaluator(s, d)
					if err != nil {
						t.Fatal(err)
					}
					if got, err := e.LogRatio(y); err != nil || math.Abs(got-want) > 1e-12*(1+math.Abs(want)) {
						t.Errorf("%s direction %s: %v, want %v, %v", name, d, got, want, err)
					}
				}
			}
		}
	}
}

// atMostOnce is ln P(y)/Q(y) by F3.10.
func atMostOnce(s Spec, y []float64) float64 {
	sum, taken := 0.0, 0.0
	for i, norm := range s.Strategy.ColumnNorms() {
		column := s.Strategy.Column(nil, i)
		if s.Strategy.Normalized {
			norm = 1
		}
		inner := 0.0
		for r, v := range column {
			inner += v * y[i+r]
		}
		a := s.Prob * math.Pow(1-s.Prob, float64(i))
		if s.WarmStart {
			a = s.Prob / (1 + float64(s.MinSep-1)*s.Prob)
		}
		taken += a
		sum += a * math.Exp((inner-norm*norm/2)/(s.NoiseMultiplier*s.NoiseMultiplier))
	}
	return math.Log(1 - taken + sum)
}

// TestGoldenAtMostOnce compares with losses by enumeration of patterns: at most once, and b-min-sep
// with b above the bands.
func TestGoldenAtMostOnce(t *testing.T) {
	data, err := os.ReadFile("testdata/logloss_once.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Scheme  string      `json:"scheme"`
			Rate    float64     `json:"p0"`
			MinSep  int         `json:"b"`
			Sigma   float64     `json:"sigma"`
			Column  []float64   `json:"c"`
			Steps   int         `json:"n"`
			Y       [][]float64 `json:"y"`
			LogLoss []float64   `json:"log_loss"`
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, c := range file.Cases {
		switch c.Scheme {
		case "at_most_one":
			c.MinSep = c.Steps
		case "b_min_sep":
		default:
			continue
		}
		s := Spec{Scheme: BMinSep, Steps: c.Steps, MinSep: c.MinSep, Prob: min(1, c.Rate/(1-c.Rate*float64(c.MinSep-1))), WarmStart: true,
			NoiseMultiplier: c.Sigma, Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: c.Steps, Toeplitz: c.Column}}
		e, err := NewEvaluator(s, P)
		if err != nil {
			t.Fatal(err)
		}
		for k, y := range c.Y {
			compared++
			if got, err := e.LogRatio(y); err != nil || math.Abs(got-c.LogLoss[k]) > 1e-9 {
				t.Errorf("%s n=%d b=%d: %v, want %v, %v", c.Scheme, c.Steps, c.MinSep, got, c.LogLoss[k], err)
			}
		}
	}
	if compared != 12 {
		t.Errorf("%d losses were compared", compared)
	}
}
