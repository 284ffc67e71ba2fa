package mechanism_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"minsep/internal/must"
	"minsep/mechanism"
)

// TestStepNoise compares it, and the deviation of each step, with the rows of the dense inverse.
func TestStepNoise(t *testing.T) {
	for _, plain := range samples() {
		for _, normalized := range []bool{false, true} {
			s := *plain
			s.Normalized = normalized
			if s.Validate() != nil {
				continue
			}
			var inverse mat.Dense
			must.Do(t, inverse.Inverse(matrix(&s)))
			want := mat.Norm(&inverse, 2) / math.Sqrt(float64(s.Steps))
			if s.IsToeplitz() {
				want = mat.Norm(inverse.ColView(0), 2)
			}
			for i, got := range must.Get(s.StepDeviations())(t) {
				if row := mat.Norm(inverse.RowView(i), 2); math.Abs(got-row) > 1e-12*row {
					t.Errorf("%s, normalized %v: step %d has %v, want %v", s.Kind, normalized, i, got, row)
				}
			}
			if got := must.Get(s.StepNoise())(t); math.Abs(got-want) > 1e-12*want {
				t.Errorf("%s, normalized %v: %v, want %v", s.Kind, normalized, got, want)
			}
		}
	}
	if got := must.Get(mechanism.Identity(5).StepNoise())(t); got != 1 {
		t.Errorf("independent noise: %v", got)
	}
}
