package inspect

import (
	"math"
	"testing"

	"minsep/internal/planner"
)

// TestAgree: an index may leave out the noise of a step, and may not have another one.
func TestAgree(t *testing.T) {
	found := &planner.StepNoise{Ratio: 1.5}
	for _, c := range []struct {
		written float64
		found   *planner.StepNoise
		want    bool
	}{{0, found, true}, {0, nil, true}, {1.5, found, true}, {1.501, found, true}, {1.52, found, false}, {1.48, found, false}, {-1.5, found, false}, {1.5, nil, false}} {
		if got := agree(c.written, c.found); got != c.want {
			t.Errorf("%v beside %+v: %v", c.written, c.found, got)
		}
	}
}

// TestOnGrid: of a float32 a multiple is below 2^24, of a float64 below 2^53; without a grid every
// finite value is right.
func TestOnGrid(t *testing.T) {
	const g = 0x1p-20
	for _, c := range []struct {
		v, grid float64
		size    int
		want    bool
	}{
		{0, g, 4, true}, {-3 * g, g, 4, true}, {1 << 24 * g, g, 4, true}, {(1<<24 + 2) * g, g, 4, false}, {1.5 * g, g, 4, false},
		{(1<<24 + 2) * g, g, 8, true}, {-(1 << 53) * g, g, 8, true}, {(1<<53 + 2) * g, g, 8, false}, {g / 2, g, 8, false},
		{math.NaN(), g, 8, false}, {math.Inf(1), g, 4, false}, {math.MaxFloat64, 0x1p-140, 8, false},
		{0.3, 0, 4, true}, {math.MaxFloat64, 0, 8, true}, {math.NaN(), 0, 8, false}, {math.Inf(-1), 0, 4, false},
	} {
		if got := onGrid(c.v, c.grid, c.size); got != c.want {
			t.Errorf("%v on the grid %v, %d bytes: %v", c.v, c.grid, c.size, got)
		}
	}
}
