package noise

// The inner loops, for one panel or for some that lie distance values apart: with vectors two
// panels at a time, one, or in portable Go.

// kernels do the operations of the portable functions in each lane, with AVX2 and FMA or with
// AVX-512, and so give the same bits. Kernels over rows take one panel with AVX2, its second
// half across = 8 values from the first, and with AVX-512 two panels, across values apart.
type kernels struct {
	normals256 func(dst *float64, stride int, words *uint64, groups int, t *vectorTables) (short int)
	// Memory at soon and later is brought nearer.
	normals512 func(dst *float64, stride int, words *uint64, groups int, t *vectorTables, soon, later *float64) (short int)
	// The history rows before each of steps rows begin in slot, the oldest first, and the first row
	// is put into slot out. From slot slots on the slots begin anew.
	feedback256, feedback512 func(rows *float64, across, stride, history, slot, slots, out, steps int, z, gain, f *float64)
	filter256, filter512     func(p *float64, across, taps, steps int, h *float64)
	buffers256, buffers512   func(p *float64, across, steps int, s *float64, acrossBuffers, n int, minusScales, decays *float64)
}

// wide is the number of doubles to the widest vectors, which take two panels at a time; half is
// the second half of a panel's row, for vectors that take one.
const wide, half = 8, lanes / 2

// normals sets dst[stride·g : stride·g+lanes] to the normals of words[lanes·g : lanes·(g+1)] for
// every group of words, and reports whether a radius word among them needs its tail, in which case
// those pairs are not yet right. Memory that is read next, soon and later, as much of each as dst
// takes, is brought nearer meanwhile; nil is nothing.
func (a arithmetic) normals(dst []float64, stride int, words []uint64, soon, later []float64) bool {
	groups := len(words) / lanes
	if vectors == 0 || groups == 0 {
		return a.normalsGeneric(dst, stride, words)
	}
	_ = dst[(groups-1)*stride+lanes-1]
	if vectors == wide {
		near, far := &dst[0], &dst[0]
		if len(soon) >= len(words) {
			near = &soon[0]
		}
		if len(later) >= len(words) {
			far = &later[0]
		}
		return kernelsOf[a].normals512(&dst[0], stride, &words[0], groups, &tables, near, far) != 0
	}
	return kernelsOf[a].normals256(&dst[0], stride, &words[0], groups, &tables) != 0
}

// feedback makes rows of panels that lie side by side, with the earlier rows in a ring of history
// slots: it sets the slot of each of steps rows, the first slot and those after it, to u_t. A slot
// holds the oldest row until then, and steps are at most history. stride values lie from slot to
// slot; z holds the normals in the same way, a row a step. f holds history coefficients a step, the
// oldest first, gain one.
func (a arithmetic) feedback(ring []float64, panels, stride, history, slot, steps int, z, gain, f []float64) {
	if vectors == 0 {
		for i := range panels {
			a.feedbackGeneric(ring[i*lanes:], stride, history, slot, steps, z[i*lanes:], gain, f)
		}
		return
	}
	last := panels*lanes - 1
	_, _, _, _ = ring[(history-1)*stride+last], z[(steps-1)*stride+last], gain[steps-1], f[steps*history-1]
	for i := 0; i < panels; i++ {
		rows, z := &ring[i*lanes], &z[i*lanes]
		if vectors == wide && i+1 < panels {
			kernelsOf[a].feedback512(rows, lanes, stride, history, slot, history, slot, steps, z, &gain[0], &f[0])
			i++
			continue
		}
		kernelsOf[a].feedback256(rows, half, stride, history, slot, history, slot, steps, z, &gain[0], &f[0])
	}
}

// filter replaces row t of panels by the sum of h[j] times row t+j, for the first steps rows. h has
// the coefficient of the oldest input first.
func (a arithmetic) filter(p []float64, panels, distance, steps int, h []float64) {
	if vectors == 0 {
		for i := range panels {
			a.filterGeneric(p[i*distance:], steps, h)
		}
		return
	}
	_ = p[(panels-1)*distance+(steps+len(h)-1)*lanes-1]
	for i := 0; i < panels; i++ {
		if vectors == wide && i+1 < panels {
			kernelsOf[a].filter512(&p[i*distance], distance, len(h), steps, &h[0])
			i++
			continue
		}
		kernelsOf[a].filter256(&p[i*distance], half, len(h), steps, &h[0])
	}
}

// buffers replaces the rows of panels by u_t of a BLT. s has the buffers, lanes entries each, panel
// after panel. minusScales and decays have one entry for each buffer.
func (a arithmetic) buffers(p []float64, panels, distance, steps int, s, minusScales, decays []float64) {
	n := len(decays)
	if vectors == 0 {
		for i := range panels {
			a.buffersGeneric(p[i*distance:], steps, s[i*n*lanes:], minusScales, decays)
		}
		return
	}
	_, _, _ = p[(panels-1)*distance+steps*lanes-1], s[panels*n*lanes-1], minusScales[n-1]
	for i := 0; i < panels; i++ {
		rows, kept := &p[i*distance], &s[i*n*lanes]
		if vectors == wide && i+1 < panels {
			kernelsOf[a].buffers512(rows, distance, steps, kept, n*lanes, n, &minusScales[0], &decays[0])
			i++
			continue
		}
		kernelsOf[a].buffers256(rows, half, steps, kept, half, n, &minusScales[0], &decays[0])
	}
}

// round32 sets row t of dst, stride apart, to row t of a panel times scales[t], rounded to the
// nearest multiple of the grid, and reports whether all of them are within the limit. Only the
// lanes [from, to) are taken.
func (r rounding) round32(dst []float32, stride int, p []float64, from, to int, scales []float64) bool {
	if vectors == 0 || to-from < lanes || len(scales) == 0 {
		return roundGeneric(r, dst, stride, p, from, to, scales)
	}
	_, _ = dst[(len(scales)-1)*stride+lanes-1], p[len(scales)*lanes-1]
	if vectors == wide {
		return round512(&dst[0], stride, &p[0], len(scales), &scales[0], r.magic, r.limit) == 0
	}
	return round256(&dst[0], stride, &p[0], len(scales), &scales[0], r.magic, r.limit) == 0xf
}
