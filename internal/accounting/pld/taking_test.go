package pld

import (
	"math"
	"testing"
)

// TestTakingEpsilon: both forms agree where both are in range, and the identity holds for means.
func TestTakingEpsilon(t *testing.T) {
	for _, q := range []float64{1e-12, 1e-3, 0.3, 0.99, 1} {
		for _, epsilon := range []float64{0, 1e-9, 0.5, 1, math.Nextafter(1, 2), 5, 300} {
			got, want := TakingEpsilon(epsilon, q, 1-q), math.Log1p(math.Expm1(epsilon)/q)
			if math.Abs(got-want) > 1e-13*max(1, want) {
				t.Errorf("q = %v, ε = %v: %v, want %v", q, epsilon, got, want)
			}
			if g := 2 + (math.Exp(epsilon)-1)/q; epsilon < 10 { // any value above e^ε'
				f := 1 - q + q*g
				if left, right := f-math.Exp(epsilon), q*(g-math.Exp(got)); math.Abs(left-right) > 1e-9*f {
					t.Errorf("q = %v, ε = %v: f - e^ε is %v, q (g - e^ε') %v", q, epsilon, left, right)
				}
			}
		}
	}
	if got := TakingEpsilon(800, 0.5, 0.5); math.Abs(got-(800+math.Ln2)) > 1e-12*800 {
		t.Errorf("ε = 800: %v", got)
	}
}
