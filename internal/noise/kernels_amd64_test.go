package noise

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"minsep/internal/must"
)

// alike runs f with vectors of each width that the processor has, and without, and requires the
// same bits.
func alike(t *testing.T, what string, f func() []float64) {
	t.Helper()
	if vectors == 0 {
		t.Skip("this processor has no vector instructions that the kernels know")
	}
	widest := vectors
	defer func() { vectors = widest }()
	vectors = 0
	generic := f()
	for vectors = min(4, widest); vectors <= widest; vectors *= 2 {
		if !slices.EqualFunc(f(), generic, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) {
			t.Errorf("%s: vectors of %d and portable code differ", what, vectors)
		}
	}
}

func random(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// TestKernelsAgree compares the kernels at every length around their unrolling, for panels one and
// two at a time.
func TestKernelsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, history := range []int{0, 1, 2, 3, 5, 16, 33} {
		for _, steps := range []int{1, 2, 3, 4, 7} {
			for panels := 1; panels <= 5; panels++ {
				panelsAgree(t, rng, history, steps, panels)
			}
		}
	}
}

func panelsAgree(t *testing.T, rng *rand.Rand, history, steps, panels int) {
	for _, a := range []arithmetic{fused, apart} {
		a.panelsAgree(t, rng, history, steps, panels)
	}
}

func (a arithmetic) panelsAgree(t *testing.T, rng *rand.Rand, history, steps, panels int) {
	distance := (history+steps)*lanes + 3
	p := random(rng, panels*distance)
	gain, f := random(rng, steps), random(rng, steps*history)
	taps := random(rng, history+1)
	alike(t, "filter", func() []float64 {
		q := slices.Clone(p)
		a.filter(q, panels, distance, steps, taps)
		return q
	})
	if history == 0 {
		return
	}
	if steps <= history {
		// of whose panels the first and the last are not made
		stride := (panels + 2) * lanes
		ring, z, slot := random(rng, history*stride), random(rng, steps*stride), rng.IntN(history)
		alike(t, "feedback", func() []float64 {
			q := slices.Clone(ring)
			a.feedback(q[lanes:], panels, stride, history, slot, steps, z[lanes:], gain, f)
			return q
		})
	}
	s, scales, decays := random(rng, panels*history*lanes), random(rng, history), random(rng, history)
	alike(t, "buffers", func() []float64 {
		q := append(slices.Clone(p), s...)
		a.buffers(q[:len(p)], panels, distance, steps, q[len(p):], scales, decays)
		return q
	})
}

// cornerWords are words at the edges of what normals tells apart.
var cornerWords = []uint64{
	math.MaxUint64, math.MaxUint64 - 1<<10, 1 << 63, 1<<63 - 1, 1 << 52, 1<<52 + 1, 1<<53 - 1,
	0xb504f333f9de6484, 0xb504f333f9de6400, 0xb504f333f9de6000, // about 2⁶³·⁵
}

func TestNormalKernelsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, a := range []arithmetic{fused, apart} {
		a.normalKernelsAgree(t, rng)
	}
}

func (a arithmetic) normalKernelsAgree(t *testing.T, rng *rand.Rand) {
	cornerWords := append(slices.Clone(cornerWords), a.shortWord(), a.shortWord()+1, 2*a.shortWord()-1)
	for _, groups := range []int{1, 2, 3, 1000} {
		words := make([]uint64, groups*lanes)
		for i := range words {
			words[i] = max(a.shortWord(), rng.Uint64()>>rng.IntN(24))
			if rng.IntN(4) == 0 {
				words[i] = cornerWords[rng.IntN(len(cornerWords))]
			}
			if i%2 == 1 && rng.IntN(4) == 0 { // an angle may be any word
				words[i] = rng.Uint64N(8)
			}
		}
		a.normalsAgree(t, rng, words)
	}
	for i := range cornerWords { // each in each lane
		words := make([]uint64, len(cornerWords)*lanes)
		for j := range words {
			words[j] = cornerWords[(i+j)%len(cornerWords)]
		}
		a.normalsAgree(t, rng, words)
	}
}

// normalsAgree compares the normals of words, none of which is short, and then whether a
// short one is seen in each place.
func (a arithmetic) normalsAgree(t *testing.T, rng *rand.Rand, words []uint64) {
	groups := len(words) / lanes
	const stride = lanes * 3
	near := make([]float64, len(words))
	alike(t, "normals", func() []float64 {
		z := make([]float64, groups*stride)
		if a.normals(z, stride, words, near, near) {
			t.Error("no word is short")
		}
		return z
	})
	for i := 0; i < lanes; i += 2 {
		for _, word := range []uint64{a.shortWord() - 1, 0, 1, a.shortWord() / 2} {
			short := slices.Clone(words)
			short[rng.IntN(groups)*lanes+i] = word
			alike(t, "short word", func() []float64 {
				if !a.normals(make([]float64, groups*stride), stride, short, nil, nil) {
					t.Errorf("vectors of %d: the short word %d in place %d is not seen", vectors, word, i)
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

// roundingAgrees rounds some rows, and again with a value in the last one that is at the limit or
// beyond.
func roundingAgrees(t *testing.T, rng *rand.Rand, r rounding, rows int, large float64) {
	p, scales := random(rng, rows*lanes), random(rng, rows)
	copy(p, []float64{0, math.Copysign(0, -1), 0x1p-140, 0x1p-150, -0x1p-1070})
	const stride = 40
	beyond := r.limit * (1 + 0x1p-20)
	for _, last := range []float64{0, r.limit, -r.limit, beyond, -beyond, large, -large, math.NaN(), math.Inf(1)} {
		q := slices.Clone(p)
		if last != 0 {
			scales[rows-1] = 1
			q[len(q)-1-rng.IntN(lanes)] = last
		}
		alike(t, "rounding", func() []float64 {
			dst := make([]float32, rows*stride)
			ok := r.round32(dst, stride, q, 0, lanes, scales)
			if ok != (math.Abs(last) <= r.limit) {
				t.Errorf("vectors of %d with %v: %v", vectors, last, ok)
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

// TestNoiseAgrees compares whole rows of every kind, of panels of even and odd number.
func TestNoiseAgrees(t *testing.T) { eachWords(t, noiseAgrees) }

func noiseAgrees(t *testing.T, words Words) {
	const steps, coordinates = 23, 1000
	for name, strategy := range strategies(steps) {
		r := bind(t, Config{Strategy: strategy, Coordinates: coordinates, NoiseMultiplier: 1, ClipNorm: 1, Words: words})
		for _, hi := range []int64{coordinates, coordinates - 20} {
			alike(t, name, func() []float64 {
				rows := make([]float32, steps*(hi-3))
				must.Do(t, generator(t, r, 3, hi).Fill32(rows))
				all := make([]float64, len(rows))
				for i, v := range rows {
					all[i] = float64(v)
				}
				return all
			})
		}
	}
}
