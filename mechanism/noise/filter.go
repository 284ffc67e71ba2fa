package noise

import "math"

// The inner loops. A panel is lanes coordinates side by side: row t of it is p[lanes·t : lanes·(t+1)]. Each lane does the same
// operations in the same order, so that a loop over one lane at a time, over four in a vector or over all gives the same bits.

// feedbackGeneric replaces the rows of a panel after its first history rows by u_t, where the rows before a row are
// its earlier outputs. f holds the coefficients of a step with the oldest first; a step's are
// fStride entries after those of the step before it, its gain gainStride entries.
func feedbackGeneric(p []float64, history, steps int, gain []float64, gainStride int, f []float64, fStride int) {
	for t := range steps {
		g := gain[t*gainStride]
		c := f[t*fStride:][:history]
		for q := 0; q < lanes; q += 4 {
			out := p[(history+t)*lanes+q:][:4]
			u0, u1, u2, u3 := out[0]*g, out[1]*g, out[2]*g, out[3]*g
			for j, v := range c {
				r := p[(t+j)*lanes+q:][:4]
				u0 = math.FMA(v, r[0], u0)
				u1 = math.FMA(v, r[1], u1)
				u2 = math.FMA(v, r[2], u2)
				u3 = math.FMA(v, r[3], u3)
			}
			out[0], out[1], out[2], out[3] = u0, u1, u2, u3
		}
	}
}

// filterGeneric replaces row t of a panel by the sum of h[j] times row t+j, for the first steps rows. h has the
// coefficient of the oldest input first.
func filterGeneric(p []float64, steps int, h []float64) {
	for t := range steps {
		for q := 0; q < lanes; q += 4 {
			var u0, u1, u2, u3 float64
			for j, v := range h {
				r := p[(t+j)*lanes+q:][:4]
				u0 = math.FMA(v, r[0], u0)
				u1 = math.FMA(v, r[1], u1)
				u2 = math.FMA(v, r[2], u2)
				u3 = math.FMA(v, r[3], u3)
			}
			out := p[t*lanes+q:][:4]
			out[0], out[1], out[2], out[3] = u0, u1, u2, u3
		}
	}
}

// buffersGeneric replaces the rows of a panel by u_t of a BLT with the buffers s, lanes entries each. minusScales and decays
// have one entry a buffer.
func buffersGeneric(p []float64, steps int, s, minusScales, decays []float64) {
	for t := range steps {
		row := p[t*lanes:][:lanes]
		for m, v := range minusScales {
			b := s[m*lanes:][:lanes]
			for l := range row {
				row[l] = math.FMA(v, b[l], row[l])
			}
		}
		for m, v := range decays {
			b := s[m*lanes:][:lanes]
			for l, u := range row {
				b[l] = math.FMA(v, b[l], u)
			}
		}
	}
}

// roundGeneric sets dst[l] to row[l]·scale rounded to the nearest multiple of g, where magic is 1.5·2⁵²·g, and reports
// whether all of them are within ±limit.
func roundGeneric[T float32 | float64](dst []T, row []float64, scale, magic, limit float64) (ok bool) {
	ok = true
	for l := range dst {
		v := float64(row[l] * scale)
		v = (v + magic) - magic
		ok = ok && math.Abs(v) <= limit
		dst[l] = T(v)
	}
	return ok
}
