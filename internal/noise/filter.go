package noise

import "math"

// The inner loops, portable; kernels.go chooses. A panel is lanes coordinates side by side: row t
// of it is p[lanes·t : lanes·(t+1)]. Each lane does the same operations in the same order, so that
// a loop over one lane at a time, over four in a vector or over all gives the same bits.

// feedbackGeneric is feedback in portable Go.
func (a arithmetic) feedbackGeneric(ring []float64, stride, history, slot, steps int, z, gain, f []float64) {
	for t := range steps {
		c := f[t*history:][:history]
		var u [lanes]float64
		for l, v := range z[t*stride:][:lanes] {
			u[l] = v * gain[t]
		}
		for j, v := range c {
			r := ring[(slot+j)%history*stride:][:lanes]
			for l := range u {
				u[l] = a.add(v, r[l], u[l])
			}
		}
		copy(ring[slot*stride:], u[:])
		slot = (slot + 1) % history
	}
}

// filterGeneric is filter in portable Go.
func (a arithmetic) filterGeneric(p []float64, steps int, h []float64) {
	for t := range steps {
		for q := 0; q < lanes; q += 4 {
			var u0, u1, u2, u3 float64
			for j, v := range h {
				r := p[(t+j)*lanes+q:][:4]
				u0 = a.add(v, r[0], u0)
				u1 = a.add(v, r[1], u1)
				u2 = a.add(v, r[2], u2)
				u3 = a.add(v, r[3], u3)
			}
			out := p[t*lanes+q:][:4]
			out[0], out[1], out[2], out[3] = u0, u1, u2, u3
		}
	}
}

// buffersGeneric is buffers in portable Go.
func (a arithmetic) buffersGeneric(p []float64, steps int, s, minusScales, decays []float64) {
	for t := range steps {
		row := p[t*lanes:][:lanes]
		for m, v := range minusScales {
			b := s[m*lanes:][:lanes]
			for l := range row {
				row[l] = a.add(v, b[l], row[l])
			}
		}
		for m, v := range decays {
			b := s[m*lanes:][:lanes]
			for l, u := range row {
				b[l] = a.add(v, b[l], u)
			}
		}
	}
}

// roundGeneric is [rounding.round32] in portable Go, for either type.
func roundGeneric[T float32 | float64](
	r rounding,
	dst []T,
	stride int,
	p []float64,
	from, to int,
	scales []float64,
) (ok bool) {
	ok = true
	for t, scale := range scales {
		out := dst[t*stride:][:to-from]
		for l, u := range p[t*lanes+from : t*lanes+to] {
			v := float64(u * scale)
			v = (v + r.magic) - r.magic
			ok = ok && math.Abs(v) <= r.limit
			out[l] = T(v)
		}
	}
	return ok
}
