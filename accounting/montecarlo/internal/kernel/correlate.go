package kernel

import (
	"math"
	"math/cmplx"

	"minsep/accounting/montecarlo/internal/law"
)

// Lanes is the number of samples of a batch.
const Lanes = 8

// Row is one step of a batch.
type Row = [Lanes]float64

// correlator computes t_i = Σ_j filter_i[j]·z_{i+j} for a block of rows; filter_i is column i of C times a factor.
type correlator struct {
	columns *law.Columns
	block   int   // rows of a block
	work    []Row // the rows z of a block, bands-1 rows of the next, and what the method needs besides
	out     []Row // results of the direct methods

	filter  []float64   // of every step but for its scale
	filters [][]float64 // of each step, when they differ
	scaled  bool
	fft     *transform // nil: direct
}

// directBands is the number of bands up to which the direct method is faster than the transform, as measured.
const directBands = 24

func newCorrelator(c *law.Columns, factor float64) *correlator {
	k := &correlator{columns: c, block: min(192, c.Steps+c.Steps%2)}
	first := c.First()
	if first == nil {
		for i := range c.Steps {
			column, _ := c.Column(i)
			k.filters = append(k.filters, multiplied(column, factor))
		}
	} else {
		k.filter = multiplied(first, factor)
		for i := range c.Steps {
			k.scaled = k.scaled || c.Scale(i) != 1
		}
	}
	if first == nil || c.Bands <= directBands {
		k.work = make([]Row, k.block+c.Bands)
		k.out = make([]Row, k.block)
		return k
	}
	size := transformSize(c.Steps, c.Bands)
	blocks := ceilDiv(c.Steps, size-c.Bands+1)
	k.block = ceilDiv(c.Steps, blocks)
	k.fft = newTransform(size, k.filter)
	k.work = make([]Row, size)
	return k
}

func multiplied(values []float64, factor float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = factor * v
	}
	return out
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// transformSize returns the power of 4 of the least work: rows of all blocks times the levels.
func transformSize(steps, bands int) int {
	best, least := 0, math.Inf(1)
	for size, levels := 16, 2.0; size <= 16*(steps+bands); size, levels = 4*size, levels+1 {
		if size < bands {
			continue
		}
		if work := float64(size*ceilDiv(steps, size-bands+1)) * (levels + 1.5); work < least {
			best, least = size, work
		}
	}
	return best
}

// correlate returns t for the rows first … first+count-1, whose z are the first count rows of work; the bands-1 rows
// after them hold z of the next block or zeros. It uses up work.
func (k *correlator) correlate(first, count int) []Row {
	switch {
	case k.fft != nil:
		clear(k.work[min(len(k.work), count+k.columns.Bands-1):])
		k.fft.correlate(k.work)
		k.out = k.work
	case k.filters != nil:
		for i := range count {
			k.out[i] = correlateRow(k.filters[first+i], k.work[i:])
		}
	default:
		correlateRows(k.out[:count], k.work, k.filter)
	}
	if k.scaled {
		for i := range count {
			scale := k.columns.Scale(first + i)
			for l := range k.out[i] {
				k.out[i][l] *= scale
			}
		}
	}
	return k.out[:count]
}

func correlateRow(filter []float64, z []Row) (t Row) {
	z = z[:len(filter)]
	for j, c := range filter {
		for l := range t {
			t[l] += c * z[j][l]
		}
	}
	return t
}

// correlateRows computes two rows and four lanes at a time, so that the sums stay in registers.
func correlateRows(out, z []Row, filter []float64) {
	for i := 0; i < len(out); i += 2 {
		window := z[i : i+len(filter)+1]
		for half := 0; half < Lanes; half += 4 {
			var a0, a1, a2, a3, b0, b1, b2, b3 float64
			x := (*[4]float64)(window[0][half:])
			x0, x1, x2, x3 := x[0], x[1], x[2], x[3]
			for j, c := range filter {
				next := (*[4]float64)(window[j+1][half:])
				a0 += c * x0
				a1 += c * x1
				a2 += c * x2
				a3 += c * x3
				x0, x1, x2, x3 = next[0], next[1], next[2], next[3]
				b0 += c * x0
				b1 += c * x1
				b2 += c * x2
				b3 += c * x3
			}
			*(*[4]float64)(out[i][half:]) = [4]float64{a0, a1, a2, a3}
			if i+1 < len(out) {
				*(*[4]float64)(out[i+1][half:]) = [4]float64{b0, b1, b2, b3}
			}
		}
	}
}

// transform correlates blocks of a power of 4 of rows circularly with one filter: radix-4 decimation in frequency,
// product in the order that leaves, decimation in time back. The lanes 0–3 are real, 4–7 imaginary parts.
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

func (t *transform) correlate(x []Row) { t.level(x, len(t.twiddles), t.spectrum) }

// level goes down to blocks of four rows, multiplies there and comes back: a block that fits a cache is finished in it.
func (t *transform) level(x []Row, level int, spectrum [][4]complex128) {
	if level == 0 {
		leaf((*[4]Row)(x), &spectrum[0])
		return
	}
	q := len(x) / 4
	x0, x1, x2, x3 := x[:q], x[q:2*q], x[2*q:3*q], x[3*q:]
	w := t.twiddles[level-1]
	forward(x0, x1, x2, x3, w)
	for k := range 4 {
		t.level(x[k*q:(k+1)*q], level-1, spectrum[k*q/4:(k+1)*q/4])
	}
	backward(x0, x1, x2, x3, w)
}

func forward(x0, x1, x2, x3 []Row, twiddles []twiddle) {
	x1, x2, x3, twiddles = x1[:len(x0)], x2[:len(x0)], x3[:len(x0)], twiddles[:len(x0)]
	for j := range x0 {
		w := &twiddles[j]
		r0, r1, r2, r3 := &x0[j], &x1[j], &x2[j], &x3[j]
		for l := range 4 {
			a, b, c, d := r0[l], r1[l], r2[l], r3[l]
			ai, bi, ci, di := r0[l+4], r1[l+4], r2[l+4], r3[l+4]
			e, f, g, h := a+c, a-c, b+d, bi-di
			ei, fi, gi, hi := ai+ci, ai-ci, bi+di, d-b
			r0[l], r0[l+4] = e+g, ei+gi
			u, v := f+h, fi+hi
			r1[l], r1[l+4] = u*w.re1-v*w.im1, u*w.im1+v*w.re1
			u, v = e-g, ei-gi
			r2[l], r2[l+4] = u*w.re2-v*w.im2, u*w.im2+v*w.re2
			u, v = f-h, fi-hi
			r3[l], r3[l+4] = u*w.re3-v*w.im3, u*w.im3+v*w.re3
		}
	}
}

func backward(x0, x1, x2, x3 []Row, twiddles []twiddle) {
	x1, x2, x3, twiddles = x1[:len(x0)], x2[:len(x0)], x3[:len(x0)], twiddles[:len(x0)]
	for j := range x0 {
		w := &twiddles[j]
		r0, r1, r2, r3 := &x0[j], &x1[j], &x2[j], &x3[j]
		for l := range 4 {
			a, ai := r0[l], r0[l+4]
			b, bi := r1[l]*w.re1+r1[l+4]*w.im1, r1[l+4]*w.re1-r1[l]*w.im1
			c, ci := r2[l]*w.re2+r2[l+4]*w.im2, r2[l+4]*w.re2-r2[l]*w.im2
			d, di := r3[l]*w.re3+r3[l+4]*w.im3, r3[l+4]*w.re3-r3[l]*w.im3
			e, f, g, h := a+c, a-c, b+d, di-bi
			ei, fi, gi, hi := ai+ci, ai-ci, bi+di, b-d
			r0[l], r0[l+4] = e+g, ei+gi
			r1[l], r1[l+4] = f+h, fi+hi
			r2[l], r2[l+4] = e-g, ei-gi
			r3[l], r3[l+4] = f-h, fi-hi
		}
	}
}

// leaf transforms four rows, multiplies them with their part of the spectrum and transforms them back.
func leaf(x *[4]Row, spectrum *[4]complex128) {
	for l := range 4 {
		a, b, c, d := complex(x[0][l], x[0][l+4]), complex(x[1][l], x[1][l+4]), complex(x[2][l], x[2][l+4]), complex(x[3][l], x[3][l+4])
		e, f, g, h := a+c, a-c, b+d, b-d
		h = complex(imag(h), -real(h))
		a, b, c, d = (e+g)*spectrum[0], (f+h)*spectrum[1], (e-g)*spectrum[2], (f-h)*spectrum[3]
		e, f, g, h = a+c, a-c, b+d, b-d
		h = complex(-imag(h), real(h))
		a, b, c, d = e+g, f+h, e-g, f-h
		x[0][l], x[0][l+4] = real(a), imag(a)
		x[1][l], x[1][l+4] = real(b), imag(b)
		x[2][l], x[2][l+4] = real(c), imag(c)
		x[3][l], x[3][l+4] = real(d), imag(d)
	}
}
