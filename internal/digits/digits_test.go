package digits

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

func TestDigits(t *testing.T) {
	for _, c := range []struct {
		x                 float64
		digits            int
		down, nearest, up float64
	}{
		{1.23456, 3, 1.23, 1.23, 1.24}, {1.2356, 3, 1.23, 1.24, 1.24}, {9.999, 3, 9.99, 10, 10}, {1, 3, 1, 1, 1}, {.5, 2, .5, .5, .5},
		{1234567, 2, 1200000, 1200000, 1300000}, {2.0360000001, 5, 2.036, 2.036, 2.0361}, {1e-5, 3, 1e-5, 1e-5, 1e-5}, {3.333e-11, 3, 3.33e-11, 3.33e-11, 3.34e-11},
	} {
		if down, nearest, up := Down(c.x, c.digits), Nearest(c.x, c.digits), Up(c.x, c.digits); down != c.down || nearest != c.nearest || up != c.up {
			t.Errorf("%g to %d digits: %g, %g, %g, want %g, %g, %g", c.x, c.digits, down, nearest, up, c.down, c.nearest, c.up)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		x, digits := math.Exp(40*rng.NormFloat64()), 1+rng.IntN(6)
		up, down := Up(x, digits), Down(x, digits)
		step := math.Pow(10, math.Floor(math.Log10(x))-float64(digits-1))
		if up < x || up > x+step*(1+1e-9) || down > x || down < x-step*(1+1e-9) {
			t.Fatalf("%g to %d digits: %g and %g", x, digits, down, up)
		}
		if y, err := strconv.ParseFloat(strconv.FormatFloat(up, 'g', digits, 64), 64); err != nil || y != up {
			t.Fatalf("%g has more than %d digits", up, digits)
		}
	}
	if up := Up(1e-320, 3); up < 1e-320 || up > 1.1e-320 {
		t.Errorf("at the end of the range: %g", up)
	}
}
