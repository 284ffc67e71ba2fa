package kernel

import (
	"math"
	"math/bits"
	"math/cmplx"
)

// transform correlates blocks of rows, a power of 4 in number, circularly with one filter: radix-4
// decimation in frequency, a product in the order that this leaves, and decimation in time back.
// The lanes 0–3 are real, 4–7 imaginary parts.
type transform struct {
	twiddles [][]twiddle     // of the sizes 16, 64, …
	spectrum [][4]complex128 // conj(DFT(filter))/size, four a leaf
}

// twiddle is w^j, w^2j, w^3j for w = e^(-2πi/size).
type twiddle struct{ re1, im1, re2, im2, re3, im3 float64 }

func newTransform(size int, filter []float64) *transform {
	t := &transform{}
	for s := 16; s <= size; s *= 4 {
		level := make([]twiddle, s/4)
		for j := range level {
			w := func(k int) (float64, float64) {
				sin, cos := math.Sincos(2 * math.Pi * float64(k*j%s) / float64(s))
				return cos, -sin
			}
			v := &level[j]
			v.re1, v.im1 = w(1)
			v.re2, v.im2 = w(2)
			v.re3, v.im3 = w(3)
		}
		t.twiddles = append(t.twiddles, level)
	}
	x := make([]complex128, size)
	for j, v := range filter {
		x[j] = complex(v/float64(size), 0)
	}
	frequencies(x)
	t.spectrum = make([][4]complex128, size/4)
	for i, v := range x {
		t.spectrum[i/4][i%4] = cmplx.Conj(v)
	}
	return t
}

// frequencies is the transform of one vector, in the order that decimation in frequency leaves.
func frequencies(x []complex128) {
	size := len(x)
	if size == 1 {
		return
	}
	q := size / 4
	for j := range q {
		a, b, c, d := x[j], x[j+q], x[j+2*q], x[j+3*q]
		w := func(k int) complex128 { return cmplx.Rect(1, -2*math.Pi*float64(k*j%size)/float64(size)) }
		e, f, g, h := a+c, a-c, b+d, (b-d)*-1i
		x[j], x[j+q], x[j+2*q], x[j+3*q] = e+g, (f+h)*w(1), (e-g)*w(2), (f-h)*w(3)
	}
	for k := range 4 {
		frequencies(x[k*q : (k+1)*q])
	}
}

// cached is how many rows of a transform stay in the first cache.
const cached = 256

// correlate transforms x, multiplies with a part of the spectrum and transforms back. It goes down to
// blocks that stay in a cache, and finishes each there.
func (t *transform) correlate(x []Row, spectrum [][4]complex128) {
	level := (bits.Len(uint(len(x)))-1)/2 - 1 // the logarithm to the base 4, less one
	if len(x) <= cached {
		for l, size := level, len(x); l > 0; l, size = l-1, size/4 {
			forward(x, size, t.twiddles[l-1])
		}
		leaves(x, spectrum)
		for l, size := 1, 16; l <= level; l, size = l+1, 4*size {
			backward(x, size, t.twiddles[l-1])
		}
		return
	}
	forward(x, len(x), t.twiddles[level-1])
	q := len(x) / 4
	for k := range 4 {
		t.correlate(x[k*q:(k+1)*q], spectrum[k*q/4:(k+1)*q/4])
	}
	backward(x, len(x), t.twiddles[level-1])
}
