package normal

import (
	"math"
	"testing"
)

// Reference values: erfc in 400 digits (mpmath).
func TestTail(t *testing.T) {
	for _, c := range []struct{ x, want float64 }{
		{0, 0.5},
		{1, 0.15865525393145705},
		{-2, 0.97724986805182079},
		{9.9, 2.0813752194932061e-23},
		{10.1, 2.7621094717645168e-24},
		{20, 2.7536241186062337e-89},
		{37, 5.7255712225245768e-300},
	} {
		if got := Tail(c.x); math.Abs(got/c.want-1) > 1e-12 {
			t.Errorf("Tail(%g) = %g, want %g", c.x, got, c.want)
		}
	}
}

func TestQuantileInvertsTail(t *testing.T) {
	for _, p := range []float64{1e-300, 1e-100, 1e-23, 1e-8, 0.01, 0.3, 0.5, 0.7, 0.999} {
		if got := Tail(Quantile(p)); math.Abs(got/p-1) > 1e-11 {
			t.Errorf("Tail(Quantile(%g)) = %g", p, got)
		}
	}
}

// TestMillsSlope compares the two branches with each other's differences.
func TestMillsSlope(t *testing.T) {
	for _, x := range []float64{-3, 0, 1, 5, 9.99, 10.01, 15, 30} {
		const h = 1e-3
		want := (Mills(x-h) - Mills(x+h)) / (2 * h) // error h²/6 of the third derivative
		if got := MillsSlope(x); math.Abs(got/want-1) > 1e-5 {
			t.Errorf("MillsSlope(%g) = %g, difference quotient %g", x, got, want)
		}
	}
}
