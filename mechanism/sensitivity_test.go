package mechanism_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"pgregory.net/rapid"

	"minsep/internal/must"
	"minsep/mechanism"
)

func readGolden(t testing.TB, name string, cases any) {
	t.Helper()
	data := must.Get(os.ReadFile("testdata/" + name))(t)
	must.Do(t, json.Unmarshal(data, cases))
}

// fromMatrix holds a lower triangular matrix, given by rows, by its columns without trailing zeros.
// Rows of negative diagonal change sign, which leaves CᵀC alone.
func fromMatrix(c [][]float64) *mechanism.Strategy {
	s := &mechanism.Strategy{Kind: mechanism.KindDense, Steps: len(c)}
	for i := range c {
		if c[i][i] < 0 {
			for j := range c[i] {
				c[i][j] = -c[i][j]
			}
		}
	}
	for i := range c {
		var column []float64
		size := 0
		for j := i; j < len(c); j++ {
			column = append(column, c[j][i])
			if c[j][i] != 0 {
				size = len(column)
			}
		}
		s.Columns = append(s.Columns, column[:size])
	}
	return s
}

func TestSensitivityGolden(t *testing.T) {
	var golden struct {
		Cases []struct {
			Kind              string      `json:"kind"`
			Column            string      `json:"column"`
			First             []float64   `json:"c"`
			Matrix            [][]float64 `json:"C"`
			N                 int         `json:"n"`
			MinSep            int         `json:"min_sep"`
			MaxParticipations int         `json:"max_participations"`
			Brute             float64     `json:"sens_brute"`
			Signed            bool        `json:"signed"`
			FixedEpoch2       float64     `json:"fixed_epoch2_brute"`
		}
	}
	readGolden(t, "sensitivity.json", &golden)
	methods := map[string]int{}
	bounds := 0
	for i, c := range golden.Cases {
		var s *mechanism.Strategy
		if c.Kind == "toeplitz" {
			s = &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: c.N, Toeplitz: c.First[:min(len(c.First), c.N)]}
		} else {
			s = fromMatrix(c.Matrix)
		}
		must.Do(t, s.Validate())
		p := mechanism.Participation{MinSep: c.MinSep, MaxParticipations: c.MaxParticipations}
		got := must.Get(s.Sensitivity(p))(t)
		methods[got.Method]++
		if got.Exact && math.Abs(got.Value-c.Brute) > 1e-9*c.Brute {
			t.Errorf("case %d (%s %s, n %d, %+v): %+v, by brute force %v", i, c.Kind, c.Column, c.N, p, got, c.Brute)
		}
		if !got.Exact {
			bounds++
			if got.Value < c.Brute*(1-1e-12) || got.Value > 1.3*c.Brute {
				t.Errorf("case %d: bound %+v, by brute force %v", i, got, c.Brute)
			}
		}
		if c.FixedEpoch2 > 0 {
			phases := must.Get(s.Sensitivity(mechanism.Participation{MinSep: (c.N + 1) / 2, Phases: true}))(t)
			if !phases.Exact || math.Abs(phases.Value-c.FixedEpoch2) > 1e-9 {
				t.Errorf("case %d: two epochs %+v, want %v", i, phases, c.FixedEpoch2)
			}
		}
	}
	t.Logf("%d cases, %d bounds, %v", len(golden.Cases), bounds, methods)
	if bounds > 2 {
		t.Errorf("%d cases are bounded only", bounds)
	}
}

// bruteForce is the oracle: the largest ‖C u‖ over u in {-1, 0, 1}ⁿ, participations at least b
// apart and at most k.
func bruteForce(s *mechanism.Strategy, b, k int) float64 {
	u := make([]float64, s.Steps)
	best := 0.0
	var extend func(from, left int)
	extend = func(from, left int) {
		sum := 0.0
		for _, v := range s.Multiply(u) {
			sum += v * v
		}
		best = max(best, sum)
		if left == 0 {
			return
		}
		for i := from; i < s.Steps; i++ {
			for _, sign := range []float64{1, -1} {
				u[i] = sign
				extend(i+b, left-1)
				u[i] = 0
			}
		}
	}
	extend(0, k)
	return math.Sqrt(best)
}

func TestSensitivityAgainstBruteForce(t *testing.T) {
	methods := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(3, 8).Draw(t, "n")
		bands := rapid.IntRange(1, n).Draw(t, "bands")
		b := rapid.IntRange(1, n).Draw(t, "b")
		k := rapid.IntRange(1, n).Draw(t, "k")
		low := rapid.SampledFrom([]float64{0, -1}).Draw(t, "low")
		s := &mechanism.Strategy{Kind: mechanism.KindDense, Steps: n, Normalized: rapid.Bool().Draw(t, "normalised")}
		entry := rapid.Float64Range(low, 1)
		if rapid.Bool().Draw(t, "toeplitz") {
			s.Toeplitz = []float64{1}
			for len(s.Toeplitz) < bands {
				s.Toeplitz = append(s.Toeplitz, entry.Draw(t, "c"))
			}
		} else {
			for i := range n {
				c := []float64{rapid.Float64Range(.1, 1).Draw(t, "diagonal")}
				for len(c) < min(bands, n-i) {
					c = append(c, entry.Draw(t, "c"))
				}
				s.Columns = append(s.Columns, c)
			}
		}
		if s.Validate() != nil {
			t.Skip("unstable")
		}
		got, err := s.Sensitivity(mechanism.Participation{MinSep: b, MaxParticipations: k})
		if err != nil {
			t.Fatal(err)
		}
		methods[got.Method]++
		want := bruteForce(s, b, k)
		if got.Value < want*(1-1e-9) {
			t.Errorf("%+v is below brute force, %v", got, want)
		}
		if got.Exact && got.Value > want*(1+1e-9) {
			t.Errorf("%+v is said to be exact, brute force gives %v", got, want)
		}
		bound, err := s.RowBound(b, min(k, (n+b-1)/b))
		if err != nil {
			t.Fatal(err)
		}
		if bound < want*(1-1e-9) {
			t.Errorf("row bound %v is below brute force, %v", bound, want)
		}
		if s.IsToeplitz() {
			if bound := s.MajorantBound(b, min(k, (n+b-1)/b)); bound < want*(1-1e-9) {
				t.Errorf("majorant bound %v is below brute force, %v", bound, want)
			}
		}
	})
	t.Log(methods)
}

// TestNormalizedLambdaCGD checks arXiv 2601.22334, Lemma 8, that the first columns are the worst,
// by brute force.
func TestNormalizedLambdaCGD(t *testing.T) {
	for _, lambda := range []float64{.1, .5, .9, 1} {
		for b := 1; b <= 4; b++ {
			for k := 1; k <= 4; k++ {
				s := &mechanism.Strategy{Kind: mechanism.KindLambdaCGD, Steps: 10, InverseToeplitz: []float64{1, -lambda}, Normalized: true}
				got := must.Get(s.Sensitivity(mechanism.Participation{MinSep: b, MaxParticipations: k}))(t)
				if want := bruteForce(s, b, min(k, (10+b-1)/b)); got.Method != "column-sum" || math.Abs(got.Value-want) > 1e-12*want {
					t.Errorf("λ %v, b %d, k %d: %+v, by brute force %v", lambda, b, k, got, want)
				}
			}
		}
	}
}

// TestSensitivityLarge checks the bound and its speed at a size where nothing can be enumerated.
func TestSensitivityLarge(t *testing.T) {
	c := []float64{1, .2, .9, .4, .6, .3, .2, .5, .1, .1, .1, .1, .1, .1, .1, .1} // rises beyond min-sep
	s := &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 5000, Toeplitz: c}
	got := must.Get(s.Sensitivity(mechanism.Participation{MinSep: 4, MaxParticipations: 50}))(t)
	phases := must.Get(s.Sensitivity(mechanism.Participation{MinSep: 4, MaxParticipations: 50, Phases: true}))(t)
	if got.Exact || got.Value < phases.Value || got.Value > 1.2*phases.Value {
		t.Errorf("bound %+v, phases %+v", got, phases)
	}
}
