package mechanism_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/must"
	"minsep/mechanism"
)

// TestFromRows: the matrix is the one whose rows were given, also with zeros inside and at the ends
// of columns, and with rows of any length; it survives a file.
func TestFromRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	for trial := range 200 {
		n := 1 + rng.IntN(9)
		m := make([][]float64, n)
		for i := range m {
			m[i] = make([]float64, i+1)
			for j := range m[i] {
				if rng.IntN(3) > 0 {
					m[i][j] = rng.NormFloat64()
				}
			}
			m[i][i] = 0.5 + rng.Float64()
		}
		shared := make([]float64, n) // a generator may return the same slice each time
		s := must.Get(mechanism.FromRows(n, func(i int) []float64 {
			first := 0
			for first < rng.IntN(i+1) && m[i][first] == 0 {
				first++
			}
			return shared[:copy(shared, m[i][first:])]
		}))(t)
		b := must.Get(json.Marshal(s))(t)
		read := must.Get(mechanism.ReadStrategy(bytes.NewReader(b)))(t)
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		y := read.Multiply(x)
		for i, row := range m {
			want := 0.0
			for j, v := range row {
				want += v * x[j]
			}
			if math.Abs(y[i]-want) > 1e-12 {
				t.Fatalf("trial %d: row %d times x is %g, want %g", trial, i, y[i], want)
			}
		}
	}
}

func TestFromRowsRefuses(t *testing.T) {
	for name, rows := range map[string][][]float64{
		"nothing":             {},
		"an empty row":        {{1}, {}},
		"beyond the diagonal": {{1}, {0, 1, 0.5}},
		"no diagonal":         {{1}, {1, 0}},
		"a negative diagonal": {{1}, {1, -1}},
		"not a number":        {{1}, {math.NaN(), 1}},
		"an inverse that diverges": func() (rows [][]float64) {
			for i := range 200 {
				rows = append(rows, []float64{-9, 1}[max(0, 1-i):])
			}
			return rows
		}(),
	} {
		if s, err := mechanism.FromRows(len(rows), func(i int) []float64 { return rows[i] }); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// A strategy of one's own: each row has three entries, the last on the diagonal.
func ExampleFromRows() {
	s, err := mechanism.FromRows(100, func(i int) []float64 {
		return []float64{0.2, 0.5, 1}[max(0, 2-i):]
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := s.Error(mechanism.Prefix(100))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d bands, error of prefix sums %.2f at noise multiplier 1\n", s.Bands(), e.RMSE)
	// Output:
	// 3 bands, error of prefix sums 4.25 at noise multiplier 1
}
