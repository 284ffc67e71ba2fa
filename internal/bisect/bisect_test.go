package bisect

import "testing"

func TestBetween(t *testing.T) {
	for _, c := range []struct{ low, high, width, at float64 }{{0, 1, 1e-3, .3}, {-5, 7, 1e-9, 2}, {0, 1, 0, 1. / 3}, {1, 2, 1e-3, .5}, {1, 2, 1e-3, 3}, {3, 3, 1, 4}} {
		from, to := Between(c.low, c.high, c.width, func(x float64) bool { return x < c.at })
		if from < c.low || to > c.high || from > to || c.width > 0 && to-from > c.width || from >= c.at && from != c.low || to < c.at && to != c.high {
			t.Errorf("%+v: %v to %v", c, from, to)
		}
	}
}
