package montecarlo

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/must"
	"minsep/mechanism"
	"minsep/sampling"
)

// goldenCase is a case of a file of losses that were computed elsewhere.
type goldenCase struct {
	Scheme     string      `json:"scheme"`
	Steps      int         `json:"n"`
	MinSep     int         `json:"b"`
	Prob       float64     `json:"p"`
	ProbCyclic float64     `json:"p_cyclic"`
	Sigma      float64     `json:"sigma"`
	Start      string      `json:"start"`
	Column     []float64   `json:"c"`
	Matrix     [][]float64 `json:"C"`
	Owned      int         `json:"k_u"`
	Epoch      int         `json:"epoch"`
	Y          [][]float64 `json:"y"`
	LogLoss    []float64   `json:"log_loss"`
}

func readGolden(t *testing.T, name string) []goldenCase {
	t.Helper()
	data := must.Get(os.ReadFile("testdata/" + name))(t)
	var file struct{ Cases []goldenCase }
	must.Do(t, json.Unmarshal(data, &file))
	return file.Cases
}

// spec is the spec of a case, of one example unless it is Algorithm 3.
func (g goldenCase) spec() Spec {
	strategy := toeplitz(g.Steps, g.Column...)
	if g.Matrix != nil {
		strategy = &mechanism.Strategy{Kind: mechanism.KindBanded, Steps: g.Steps, Columns: lowerColumns(g.Matrix)}
	}
	var scheme sampling.Scheme
	switch name := strings.TrimSuffix(g.Scheme, "_two_examples"); name {
	case "rotation":
		scheme = sampling.Rotation{Steps: g.Steps, EpochSteps: g.Epoch}
	case "balls_in_bins":
		scheme = sampling.BallsInBins{Steps: g.Steps, Period: g.MinSep}
	case "epoch_min_sep":
		scheme = sampling.EpochMinSep{Steps: g.Steps, MinSep: g.MinSep, EpochSteps: g.Epoch}
	case "cyclic_poisson_shift0", "cyclic_poisson_random_shift":
		secret := name == "cyclic_poisson_random_shift"
		scheme = sampling.CyclicPoisson{Prob: g.ProbCyclic, Steps: g.Steps, MinSep: g.MinSep, SecretPartition: secret}
	case "multi_attribution_alg3_thm6.1":
		return Spec{MultiOwner: &sampling.MultiOwner{Prob: g.Prob, Steps: g.Steps, MinSep: g.MinSep}, NoiseMultiplier: g.Sigma, Strategy: strategy, MaxExamplesPerOwner: g.Owned}
	default:
		scheme = sampling.BMinSep{Prob: g.Prob, Steps: g.Steps, MinSep: g.MinSep, WarmStart: g.Start == "warm"}
	}
	return specOf(scheme, strategy, g.Sigma)
}

// lowerColumns are the columns of a lower triangular matrix from the diagonal down, without zeros at
// the end.
func lowerColumns(rows [][]float64) (columns [][]float64) {
	for j := range rows {
		var column []float64
		for _, row := range rows[j:] {
			column = append(column, row[j])
		}
		for len(column) > 1 && column[len(column)-1] == 0 {
			column = column[:len(column)-1]
		}
		columns = append(columns, column)
	}
	return columns
}

// TestGoldenLosses compares with losses computed elsewhere, by enumeration of all participation
// patterns or in 40 digits.
func TestGoldenLosses(t *testing.T) {
	for name, tolerance := range map[string]float64{"logloss.json": 1e-9, "logloss_two_examples.json": 1e-10, "logloss_large.json": 1e-9, "logloss_epoch.json": 1e-9, "logloss_rotation.json": 1e-9} {
		cases := readGolden(t, name)
		if len(cases) < 6 {
			t.Fatalf("%s: %d cases", name, len(cases))
		}
		for i, c := range cases {
			spec := c.spec()
			columns := likelihood.NewColumns(spec.Strategy)
			ratio, err := spec.newRatio(columns)
			if spec.Law != nil && c.Owned > 1 {
				ratio, err = likelihood.NewExamples(spec.Law, columns, spec.Factor(), c.Owned)
			}
			if err != nil {
				t.Fatal(err)
			}
			for j, want := range c.LogLoss {
				if got := likelihood.LogRatio(ratio, columns, c.Sigma, c.Y[j]); !(math.Abs(got-want) <= tolerance) {
					t.Errorf("%s case %d (%s, n = %d, b = %d), y[%d]: %.15g, want %.15g", name, i, c.Scheme, c.Steps, c.MinSep, j, got, want)
				}
			}
		}
	}
}
