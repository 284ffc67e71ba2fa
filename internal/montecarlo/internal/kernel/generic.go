package kernel

import "math"

// The inner loops in portable Go; kernels.go chooses. Products and sums are fused only by
// math.FMA, so that the bits equal the assembly's on every processor.

func normalRowsGeneric(z []Row, words []uint64) {
	for i := range z {
		w, row := (*[Lanes]uint64)(words[Lanes*i:]), &z[i]
		for l := range Lanes / 2 {
			row[l], row[l+4] = normals(w[l], w[l+4])
		}
	}
}

func exp2RowsGeneric(dst, t []Row) {
	for i := range t {
		for l, x := range t[i] {
			dst[i][l] = exp2(x)
		}
	}
}

func turnRowsGeneric(f []Row, at, out, in, apart int, weights []float64, jump *Row, stay float64) {
	for i, weight := range weights {
		to, from, other := &f[at+i], &f[out+i], &f[in+i*apart]
		for l := range to {
			to[l] = math.FMA(weight*jump[l], other[l], stay*from[l])
		}
	}
}

func betweenGeneric(x []Row, low, high float64) bool {
	for i := range x {
		for _, v := range x[i] {
			if !(v >= low && v <= high) {
				return false
			}
		}
	}
	return true
}

func correlateRowGeneric(out *Row, z []Row, filter []float64) {
	z = z[:len(filter)]
	for half := 0; half < Lanes; half += 4 {
		var t0, t1, t2, t3 float64
		for j, c := range filter {
			x := (*[4]float64)(z[j][half:])
			t0 = math.FMA(c, x[0], t0)
			t1 = math.FMA(c, x[1], t1)
			t2 = math.FMA(c, x[2], t2)
			t3 = math.FMA(c, x[3], t3)
		}
		*(*[4]float64)(out[half:]) = [4]float64{t0, t1, t2, t3}
	}
}

// times returns (u + iv)(re + i·im).
func times(u, v, re, im float64) (float64, float64) {
	return math.FMA(u, re, -(v * im)), math.FMA(u, im, v*re)
}

// timesConj returns (u + iv)(re - i·im).
func timesConj(u, v, re, im float64) (float64, float64) {
	return math.FMA(u, re, v*im), math.FMA(v, re, -(u * im))
}

// forwardGeneric is one block of forward.
func forwardGeneric(x []Row, twiddles []twiddle) {
	q := len(x) / 4
	x0, x1, x2, x3, twiddles := x[:q], x[q:2*q], x[2*q:3*q], x[3*q:], twiddles[:q]
	for j := range x0 {
		w := &twiddles[j]
		r0, r1, r2, r3 := &x0[j], &x1[j], &x2[j], &x3[j]
		for l := range 4 {
			a, b, c, d := r0[l], r1[l], r2[l], r3[l]
			ai, bi, ci, di := r0[l+4], r1[l+4], r2[l+4], r3[l+4]
			e, f, g, h := a+c, a-c, b+d, bi-di
			ei, fi, gi, hi := ai+ci, ai-ci, bi+di, d-b
			r0[l], r0[l+4] = e+g, ei+gi
			r1[l], r1[l+4] = times(f+h, fi+hi, w.re1, w.im1)
			r2[l], r2[l+4] = times(e-g, ei-gi, w.re2, w.im2)
			r3[l], r3[l+4] = times(f-h, fi-hi, w.re3, w.im3)
		}
	}
}

// backwardGeneric is one block of backward.
func backwardGeneric(x []Row, twiddles []twiddle) {
	q := len(x) / 4
	x0, x1, x2, x3, twiddles := x[:q], x[q:2*q], x[2*q:3*q], x[3*q:], twiddles[:q]
	for j := range x0 {
		w := &twiddles[j]
		r0, r1, r2, r3 := &x0[j], &x1[j], &x2[j], &x3[j]
		for l := range 4 {
			a, ai := r0[l], r0[l+4]
			b, bi := timesConj(r1[l], r1[l+4], w.re1, w.im1)
			c, ci := timesConj(r2[l], r2[l+4], w.re2, w.im2)
			d, di := timesConj(r3[l], r3[l+4], w.re3, w.im3)
			e, f, g, h := a+c, a-c, b+d, di-bi
			ei, fi, gi, hi := ai+ci, ai-ci, bi+di, b-d
			r0[l], r0[l+4] = e+g, ei+gi
			r1[l], r1[l+4] = f+h, fi+hi
			r2[l], r2[l+4] = e-g, ei-gi
			r3[l], r3[l+4] = f-h, fi-hi
		}
	}
}

// leafGeneric is one leaf of leaves.
func leafGeneric(x *[4]Row, spectrum *[4]complex128) {
	for l := range 4 {
		a, b, c, d := x[0][l], x[1][l], x[2][l], x[3][l]
		ai, bi, ci, di := x[0][l+4], x[1][l+4], x[2][l+4], x[3][l+4]
		e, f, g, h := a+c, a-c, b+d, bi-di
		ei, fi, gi, hi := ai+ci, ai-ci, bi+di, d-b
		a, ai = times(e+g, ei+gi, real(spectrum[0]), imag(spectrum[0]))
		b, bi = times(f+h, fi+hi, real(spectrum[1]), imag(spectrum[1]))
		c, ci = times(e-g, ei-gi, real(spectrum[2]), imag(spectrum[2]))
		d, di = times(f-h, fi-hi, real(spectrum[3]), imag(spectrum[3]))
		e, f, g, h = a+c, a-c, b+d, di-bi
		ei, fi, gi, hi = ai+ci, ai-ci, bi+di, b-d
		x[0][l], x[0][l+4] = e+g, ei+gi
		x[1][l], x[1][l+4] = f+h, fi+hi
		x[2][l], x[2][l+4] = e-g, ei-gi
		x[3][l], x[3][l+4] = f-h, fi-hi
	}
}
