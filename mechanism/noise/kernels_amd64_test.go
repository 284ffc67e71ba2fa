package noise

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// both runs f with vector instructions and without, and requires the same bits.
func both(t *testing.T, what string, f func() []float64) {
	t.Helper()
	if !useVector {
		t.Skip("this processor has no AVX2 and FMA")
	}
	defer func() { useVector = true }()
	vector := f()
	useVector = false
	generic := f()
	useVector = true
	if !slices.EqualFunc(vector, generic, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) {
		t.Errorf("%s: vector and portable code differ", what)
	}
}

func random(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// TestKernelsAgree compares the kernels at every length around their unrolling.
func TestKernelsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, history := range []int{0, 1, 2, 3, 5, 16, 33} {
		for _, steps := range []int{1, 2, 3, 4, 7} {
			p := random(rng, (history+steps)*lanes)
			gain, f := random(rng, steps), random(rng, steps*history)
			both(t, "feedback", func() []float64 {
				q := slices.Clone(p)
				feedback(q, history, steps, gain, f)
				return q
			})
			if history > 0 && steps <= history {
				const panels = 3 // of which the second is made
				ring, z, slot := random(rng, history*panels*lanes), random(rng, steps*panels*lanes), rng.IntN(history)
				both(t, "feedbackRing", func() []float64 {
					q := slices.Clone(ring)
					feedbackRing(q[lanes:], panels*lanes, history, slot, steps, z[lanes:], gain, f)
					return q
				})
			}
			taps := random(rng, history+1)
			both(t, "filter", func() []float64 {
				q := slices.Clone(p)
				filter(q, steps, taps)
				return q
			})
			if history > 0 {
				s, scales, decays := random(rng, history*lanes), random(rng, history), random(rng, history)
				both(t, "buffers", func() []float64 {
					q := slices.Clone(append(slices.Clone(p), s...))
					buffers(q[:len(p)], steps, q[len(p):], scales, decays)
					return q
				})
			}
		}
	}
}

func TestNormalKernelsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, groups := range []int{1, 2, 3, 1000} {
		words := make([]uint64, groups*lanes)
		for i := range words {
			words[i] = max(shortWord, rng.Uint64()>>rng.IntN(12))
		}
		copy(words, []uint64{math.MaxUint64, math.MaxUint64, shortWord, 0, shortWord + 1, 1, 1<<63 - 1, 2, 1 << 63, 4, 0xb504f333f9de6484, 7, 0xb504f333f9de6400, 8, 0xb504f333f9de6000, 9})
		stride := lanes * 3
		both(t, "normals", func() []float64 {
			z := make([]float64, groups*stride)
			if normals(z, stride, words) {
				t.Error("no word is short")
			}
			return z
		})
		for _, i := range []int{0, 2, 4, 6, 8, 10, 12, 14} {
			short := slices.Clone(words)
			short[len(short)-lanes+i] = shortWord - 1
			both(t, "short word", func() []float64 {
				if !normals(make([]float64, groups*stride), stride, short) {
					t.Errorf("the short word at %d is not seen", i)
				}
				return nil
			})
		}
	}
}

func TestRoundingKernelsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, rows := range []int{1, 2, 5} {
		roundingAgrees(t, rng, rounding{magic: 0x1.8p52 * 0x1p-20, limit: 0x1p4}, rows, 100)
		roundingAgrees(t, rng, rounding{limit: math.MaxFloat32}, rows, 1e39) // no grid
	}
}

// roundingAgrees rounds some rows, and again with a value in the last one that is beyond the limit.
func roundingAgrees(t *testing.T, rng *rand.Rand, r rounding, rows int, large float64) {
	p, scales := random(rng, rows*lanes), random(rng, rows)
	copy(p, []float64{0, math.Copysign(0, -1), 0x1p-140, 0x1p-150, -0x1p-1070})
	const stride = 40
	for _, bad := range []float64{0, large, -large, math.NaN(), math.Inf(1)} {
		q := slices.Clone(p)
		if bad != 0 {
			scales[rows-1] = 1
			q[len(q)-1-rng.IntN(lanes)] = bad
		}
		both(t, "rounding", func() []float64 {
			dst := make([]float32, rows*stride)
			ok := r.round32(dst, stride, q, 0, lanes, scales)
			if ok != (bad == 0) {
				t.Errorf("with %v: %v", bad, ok)
			}
			if !ok {
				return nil
			}
			out := make([]float64, len(dst))
			for i, v := range dst {
				out[i] = float64(v)
			}
			return out
		})
	}
}
