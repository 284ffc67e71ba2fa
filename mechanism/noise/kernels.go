package noise

// normals sets dst[stride·g : stride·g+lanes] to the normals of words[lanes·g : lanes·(g+1)] for
// every group of words, and reports whether a radius word among them needs its tail, in which case
// those pairs are not yet right.
func normals(dst []float64, stride int, words []uint64) bool {
	groups := len(words) / lanes
	if useVector && groups > 0 {
		_ = dst[(groups-1)*stride+lanes-1]
		return normalsVector(&dst[0], stride, &words[0], groups, &tables) != 0
	}
	return normalsGeneric(dst, stride, words)
}

// feedback replaces the rows of a panel after its first history rows by u_t, where the rows before
// a row are its earlier outputs. f holds history coefficients a step, the oldest first, gain one.
func feedback(p []float64, history, steps int, gain, f []float64) {
	if history == 0 && allOnes(gain[:steps]) {
		return
	}
	if useVector && history > 0 {
		_, _, _ = p[(history+steps)*lanes-1], gain[steps-1], f[steps*history-1]
		feedbackVector(&p[0], history, steps, &gain[0], &f[0])
		return
	}
	feedbackGeneric(p, history, steps, gain, f)
}

// feedbackRing is feedback with the earlier rows in a ring of history slots: it sets the slot of
// each of steps rows, the first slot and those after it, to u_t. A slot holds the oldest row until
// then, and steps are at most history. The first lanes values of a slot are the panel's, and
// stride values lie from slot to slot; z holds the normals in the same way, a row a step.
func feedbackRing(ring []float64, stride, history, slot, steps int, z, gain, f []float64) {
	if useVector {
		_, _, _, _ = ring[(history-1)*stride+lanes-1], z[(steps-1)*stride+lanes-1], gain[steps-1], f[steps*history-1]
		ringVector(&ring[0], stride, history, slot, steps, &z[0], &gain[0], &f[0])
		return
	}
	feedbackRingGeneric(ring, stride, history, slot, steps, z, gain, f)
}

func allOnes(gain []float64) bool {
	for _, g := range gain {
		if g != 1 {
			return false
		}
	}
	return true
}

// filter replaces row t of a panel by the sum of h[j] times row t+j, for the first steps rows. h
// has the coefficient of the oldest input first.
func filter(p []float64, steps int, h []float64) {
	if useVector {
		_ = p[(steps+len(h)-1)*lanes-1]
		filterVector(&p[0], len(h), steps, &h[0])
		return
	}
	filterGeneric(p, steps, h)
}

// buffers replaces the rows of a panel by u_t of a BLT with the buffers s, lanes entries each.
// minusScales and decays have one entry a buffer.
func buffers(p []float64, steps int, s, minusScales, decays []float64) {
	if useVector {
		n := len(decays)
		_, _, _ = p[steps*lanes-1], s[n*lanes-1], minusScales[n-1]
		buffersVector(&p[0], steps, &s[0], n, &minusScales[0], &decays[0])
		return
	}
	buffersGeneric(p, steps, s, minusScales, decays)
}

// round32 sets row t of dst, stride apart, to row t of a panel times scales[t], rounded to the
// nearest multiple of the grid, and reports whether all of them are within the limit. Only the
// lanes [from, to) are taken.
func (r rounding) round32(dst []float32, stride int, p []float64, from, to int, scales []float64) bool {
	if useVector && to-from == lanes && len(scales) > 0 {
		_, _ = dst[(len(scales)-1)*stride+lanes-1], p[len(scales)*lanes-1]
		return round32Vector(&dst[0], stride, &p[0], len(scales), &scales[0], r.magic, r.limit) == 0xf
	}
	return roundGeneric(r, dst, stride, p, from, to, scales)
}
