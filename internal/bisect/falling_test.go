package bisect

import (
	"errors"
	"math"
	"testing"
)

func TestFalling(t *testing.T) {
	for _, c := range []struct {
		at, width float64
		below     func(x float64) float64 // the value at a distance below the zero
	}{
		{.3, 1e-6, func(x float64) float64 { return math.Expm1(9 * x) }},
		{-2, 3e-3, func(x float64) float64 { return x }},
		{1, 3e-3, func(x float64) float64 {
			if x > .1 {
				return math.Inf(1)
			}
			return math.Cbrt(x)
		}},
	} {
		calls := 0
		value := func(x float64) (float64, error) {
			calls++
			return c.below(c.at - x), nil
		}
		low, _ := value(c.at - 1)
		to, err := Falling(value, Point{c.at - 1, low}, Point{c.at + 2, c.below(-2)}, c.width)
		if err != nil || !(to.X >= c.at && to.X-c.at <= c.width) || calls > 40 {
			t.Errorf("zero at %g: up to %v after %d calls, %v", c.at, to, calls, err)
		}
	}
	ended := errors.New("ended")
	if _, err := Falling(func(float64) (float64, error) { return 0, ended }, Point{0, 1}, Point{1, -1}, .1); err != ended {
		t.Errorf("an error became %v", err)
	}
}
