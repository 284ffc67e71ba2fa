package kernel

// The inner loops: with vector instructions where the processor has them, else in portable Go
// (generic.go). Both do the same operations in each lane, fused ones included, so the bits are the
// same.

// normalRows sets rows to the normals of Lanes words each: the normals of lanes l and l+4 are
// made of the words l and l+4.
func normalRows(z []Row, words []uint64) {
	if useVector && len(z) > 0 {
		_ = words[Lanes*len(z)-1]
		normalsVector(&z[0], &words[0], len(z), &tables)
		return
	}
	normalRowsGeneric(z, words)
}

// exp2Rows sets dst[i] to 2^t[i].
func exp2Rows(dst, t []Row) {
	if useVector && len(t) > 0 {
		_ = dst[len(t)-1]
		exp2Vector(&dst[0], &t[0], len(t), &tables)
		return
	}
	exp2RowsGeneric(dst, t)
}

const rowBytes = 8 * Lanes

// turnRows sets f[at+i] = stay·f[out+i] + weights[i]·jump·f[in+i·apart] for every weight, at least one.
func turnRows(f []Row, at, out, in, apart int, weights []float64, jump *Row, stay float64) {
	last := len(weights) - 1
	if useVector {
		_, _, _ = f[at+last], f[out+last], f[in+last*apart]
		turnVector(&f[at], &f[out], &f[in], rowBytes*apart, last+1, &weights[0], jump, stay)
		return
	}
	turnRowsGeneric(f, at, out, in, apart, weights, jump, stay)
}

// between reports whether all values of x are in [low, high]. NaN is not.
func between(x []Row, low, high float64) bool {
	if useVector && len(x) > 0 {
		return betweenVector(&x[0], len(x), low, high) == 15
	}
	return betweenGeneric(x, low, high)
}

// correlateRows sets out[i] = Σ_j filter[j]·z[i+j].
func correlateRows(out, z []Row, filter []float64) {
	if whole := len(out) &^ 3; useVector && whole > 0 && len(filter) >= 4 {
		_ = z[whole+len(filter)-2]
		correlateVector(&out[0], &z[0], whole, &filter[0], len(filter))
		out, z = out[whole:], z[whole:]
	}
	for i := range out {
		correlateRow(&out[i], z[i:], filter)
	}
}

// correlateRow sets out = Σ_j filter[j]·z[j].
func correlateRow(out *Row, z []Row, filter []float64) {
	if useVector && len(filter) > 0 {
		_ = z[len(filter)-1]
		correlateRowVector(out, &z[0], &filter[0], len(filter))
		return
	}
	correlateRowGeneric(out, z, filter)
}

// forward does a step of decimation in frequency in every block of size rows, a power of 4; size/4
// twiddles.
func forward(x []Row, size int, twiddles []twiddle) {
	if useVector && len(x) >= size {
		_ = twiddles[size/4-1]
		forwardVector(&x[0], size/4, len(x)/size, &twiddles[0])
		return
	}
	for ; len(x) >= size; x = x[size:] {
		forwardGeneric(x[:size], twiddles)
	}
}

// backward does a step of decimation in time in every block of size rows.
func backward(x []Row, size int, twiddles []twiddle) {
	if useVector && len(x) >= size {
		_ = twiddles[size/4-1]
		backwardVector(&x[0], size/4, len(x)/size, &twiddles[0])
		return
	}
	for ; len(x) >= size; x = x[size:] {
		backwardGeneric(x[:size], twiddles)
	}
}

// leaves transforms every four rows, multiplies them with their part of the spectrum and transforms
// them back.
func leaves(x []Row, spectrum [][4]complex128) {
	if useVector && len(x) >= 4 {
		_ = spectrum[len(x)/4-1]
		leavesVector(&x[0], len(x)/4, &spectrum[0])
		return
	}
	for ; len(x) >= 4; x, spectrum = x[4:], spectrum[1:] {
		leafGeneric((*[4]Row)(x), &spectrum[0])
	}
}
