package noise

import (
	"math"
	"testing"

	"minsep/internal/must"
)

// TestLowBitsWithoutGrid counts the releases of one coordinate that tell two sums, 0 and 1, apart
// for certain: unrounded noise of deviation 1 added in float32 has values that the other sum cannot
// give. On the grid there is none.
func TestLowBitsWithoutGrid(t *testing.T) {
	const width = 1 << 16
	for name, c := range map[string]struct {
		grid      Grid
		low, high float64
	}{"no grid": {NoGrid, 0.2, 1}, "grid": {0, 0, 0}} {
		r := bind(t, Config{Strategy: strategies(1)["identity"], Coordinates: width, NoiseMultiplier: 1, ClipNorm: 1, Grid: c.grid})
		values := make([]float32, width)
		must.Do(t, generator(t, r, 0, width).Fill32(values))
		certain := 0
		for _, released := range values { // of the sum 0
			if reachable := oneAway(released, float64(r.Params.Grid)); !reachable {
				certain++
			}
		}
		share := float64(certain) / width
		t.Logf("%s: %.3f of the releases are those of one sum only", name, share)
		if share < c.low || share > c.high {
			t.Errorf("%s: %.3f of the releases are those of one sum only, docs/noise.md says %v to %v", name, share, c.low, c.high)
		}
	}
}

// oneAway reports whether a float32 addition of some noise, on the grid if there is one, to 1 can
// give a value.
func oneAway(value float32, grid float64) bool {
	around := value - 1
	for _, noise := range []float32{around, math.Nextafter32(around, -9), math.Nextafter32(around, 9)} {
		if grid != 0 {
			noise = float32(math.RoundToEven(float64(noise)/grid) * grid)
		}
		if 1+noise == value {
			return true
		}
	}
	return false
}
