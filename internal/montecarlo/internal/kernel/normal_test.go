package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/stattest"
)

func TestNormalsAgainstLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	worst := 0.0
	for i := range 200000 {
		radius, angle := rng.Uint64(), rng.Uint64()
		switch i % 8 {
		case 0:
			radius = ^uint64(0) << (i / 8 % 64) // u near 0: the tail
		case 1:
			radius >>= i / 8 % 64 // u near 1
		case 2:
			angle = uint64(i) << 58
		}
		x, y := normals(radius, angle)
		r := math.Sqrt(-2 * math.Log(1-math.Ldexp(float64(radius>>12), -52)))
		sin, cos := math.Sincos(2 * math.Pi * (math.Ldexp(float64(angle>>12), -52) - 0.5))
		worst = max(worst, math.Abs(x-r*cos), math.Abs(y-r*sin))
	}
	if !(worst < 3e-12) {
		t.Errorf("normals are off by %.2g", worst)
	}
	if x, y := normals(math.MaxUint64, 0); !(math.Hypot(x, y) > 8.48 && math.Hypot(x, y) < maxNormal) {
		t.Errorf("largest radius %g", math.Hypot(x, y))
	}
	if x, y := normals(0, 1<<62); x != 0 || y != 0 {
		t.Errorf("smallest radius gives %g, %g", x, y)
	}
}

func TestExp2(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100000 {
		x := (2*rng.Float64() - 1) * maxExponent
		if got, want := exp2(x), math.Exp2(x); !(math.Abs(got/want-1) < 3e-14) {
			t.Fatalf("2^%g: %g, want %g", x, got, want)
		}
	}
}

// normalFault judges normals: their distribution in cells of probability 1/64, and the tail counts
// beyond 2 to 5.
func normalFault(draw func() float64, draws int) error {
	cells, tail := make([]int, 64), make([]int, 6)
	for range draws {
		x := draw()
		cells[min(63, int(64*0.5*math.Erfc(-x/math.Sqrt2)))]++
		for k := 2; k < len(tail); k++ {
			if math.Abs(x) > float64(k) {
				tail[k]++
			}
		}
	}
	distribution := make([]float64, len(cells))
	for i := range distribution {
		distribution[i] = 1.0 / 64
	}
	if err := stattest.Distribution(cells, distribution); err != nil {
		return err
	}
	for k := 2; k < len(tail); k++ {
		if err := stattest.Count(tail[k], draws, math.Erfc(float64(k)/math.Sqrt2)); err != nil {
			return err
		}
	}
	return nil
}

func TestNormalsDistribution(t *testing.T) {
	draws := 1 << 24
	if testing.Short() {
		draws = 1 << 21
	}
	bulk, number := testBulk(), uint64(0)
	source := func(mask uint64) func() float64 {
		words, values := make([]uint64, 1024), []float64(nil)
		return func() float64 {
			if len(values) == 0 {
				number++
				bulk.Words(words, number, 0)
				for i := 0; i < len(words); i += 2 {
					x, y := normals(words[i]&mask, words[i+1])
					values = append(values, x, y)
				}
			}
			x := values[0]
			values = values[1:]
			return x
		}
	}
	if err := normalFault(source(^uint64(0)), draws); err != nil {
		t.Error(err)
	}
	if normalFault(source(^(uint64(1)<<54-1)), draws) == nil {
		t.Error("normals of a radius of 10 bits were accepted")
	}
	biased := source(^uint64(0))
	if normalFault(func() float64 { return biased() * 1.01 }, draws) == nil {
		t.Error("normals of variance 1.02 were accepted")
	}
}
