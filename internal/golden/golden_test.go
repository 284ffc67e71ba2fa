package golden

import (
	"fmt"
	"math"
	"testing"
)

func TestSection(t *testing.T) {
	for _, least := range []float64{-3, -1.25, 0, 2, 5} { // at the ends too
		calls := 0
		from, to := Section(-3, 5, 1e-6, func(x float64) float64 { calls++; return math.Abs(x - least) })
		if !(from <= least && least <= to && to-from <= 1e-6) {
			t.Errorf("minimum at %v: [%v, %v]", least, from, to)
		}
		if want := 2 + int(math.Ceil(math.Log(8/1e-6)/math.Log(1/ratio))); calls != want {
			t.Errorf("minimum at %v: %d evaluations, want %d", least, calls, want)
		}
	}
}

// TestSectionKeepsTheLowerPart: of equal values, also infinite ones.
func TestSectionKeepsTheLowerPart(t *testing.T) {
	if from, _ := Section(1, 2, 1e-3, func(float64) float64 { return math.Inf(1) }); from != 1 {
		t.Errorf("from %v, want 1", from)
	}
}

func ExampleSection() {
	from, to := Section(0, 2, 1e-9, func(x float64) float64 { return x*x - 2*x })
	fmt.Printf("%.4f", (from+to)/2)
	// Output: 1.0000
}
