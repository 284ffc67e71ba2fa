package noise

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The tests of this file are of what docs/noise.md asks of a trainer, and by how much other ways
// exceed it. Run them with -v for the figures that are quoted there.

// bfloat rounds to the nearest bfloat16, ties to even: 8 bits.
func bfloat(v float32) float32 {
	b := math.Float32bits(v)
	return math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff)
}

// norm is the Euclidean norm, exact to 1e-15 for what these tests use.
func norm[T float32 | float64](x []T) float64 {
	sum, low := 0.0, 0.0
	for _, v := range x {
		square := float64(v) * float64(v)
		low += math.FMA(float64(v), float64(v), -square)
		next := sum + square
		low += square - (next - sum)
		sum = next
	}
	return math.Sqrt(sum + low)
}

// gradients are vectors of coordinates of many shapes: of one size, normal, and with few large
// ones.
func gradients(rng *rand.Rand, count, size int, f func(x []float32)) {
	x := make([]float32, size)
	for i := range count {
		for j := range x {
			x[j] = float32(rng.NormFloat64())
			switch i % 3 {
			case 1:
				x[j] = float32(math.Copysign(1, rng.NormFloat64()))
			case 2:
				x[j] *= float32(math.Exp(3 * rng.NormFloat64()))
			}
		}
		scale := float32(math.Exp(4 * rng.Float64()))
		for j := range x {
			x[j] *= scale
		}
		f(x)
	}
}

// TestClippedNorm measures norms after clipping to 1 in other types than real numbers. In bfloat16
// the products are rounded to 8 bits, then the factor too, then the norm too; each rounding is by
// at most 2^-8.
func TestClippedNorm(t *testing.T) {
	same := func(v float32) float32 { return v }
	clip := func(x []float32, norm, to float32, factor, product func(float32) float32) float64 {
		f := factor(min(1, to/norm))
		sum := 0.0
		for _, v := range x {
			v = product(v * f)
			sum += float64(v) * float64(v)
		}
		return math.Sqrt(sum)
	}
	var single, singleLowered, products, factors, norms, factorsLowered, normsLowered float64
	measure := func(x []float32) {
		of := float32(norm(x))
		single = max(single, clip(x, of, 1, same, same))
		singleLowered = max(singleLowered, clip(x, of, 1-0x1p-20, same, same))
		for i := range x {
			x[i] = bfloat(x[i])
		}
		of = float32(norm(x))
		products = max(products, clip(x, of, 1, same, bfloat))
		factors = max(factors, clip(x, of, 1, bfloat, bfloat))
		norms = max(norms, clip(x, bfloat(of), 1, bfloat, bfloat))
		factorsLowered = max(factorsLowered, clip(x, of, 1-0x1p-7, bfloat, bfloat))
		normsLowered = max(normsLowered, clip(x, bfloat(of), 1-0x1p-6, bfloat, bfloat))
	}
	gradients(rand.New(rand.NewPCG(2, 2)), 1000, 1000, measure)
	for size := 1; size < 500; size += 2 { // of one value: all are rounded alike
		for m := range 128 {
			x := make([]float32, size)
			for i := range x {
				x[i] = 1 + float32(m)/128
			}
			measure(x)
		}
	}
	t.Logf("clipped to 1: float32 1 + %.2g; bfloat16: products %.5f, and factor %.5f, and norm %.5f", single-1, products, factors, norms)
	t.Logf("float32 to 1 - 2^-20: 1 - %.2g; bfloat16 products and factor to 1 - 2^-7: %.5f; and norm to 1 - 2^-6: %.5f", 1-singleLowered, factorsLowered, normsLowered)
	for _, c := range []struct {
		name           string
		got, low, high float64
	}{
		{"float32", single, 1, 1 + 0x1p-22},
		{"products", products, 1.0036, 1 + 0x1p-8},
		{"products and factor", factors, 1.006, (1 + 0x1p-8) * (1 + 0x1p-8)},
		{"products, factor and norm", norms, 1.008, (1 + 0x1p-8) * (1 + 0x1p-8) * (1 + 0x1p-8)},
		{"float32, lowered", singleLowered, 0, 1},
		{"products and factor, lowered", factorsLowered, 0, 1},
		{"products, factor and norm, lowered", normsLowered, 0, 1},
	} {
		if c.got < c.low || c.got > c.high {
			t.Errorf("%s: the largest norm is %v, docs/noise.md says %v to %v", c.name, c.got, c.low, c.high)
		}
	}
}

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
		if err := generator(t, r, 0, width).Fill32(values); err != nil {
			t.Fatal(err)
		}
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
