package noise

func normals(dst []float64, stride int, words []uint64) bool {
	return normalsGeneric(dst, stride, words)
}

func feedback(p []float64, history, steps int, gain, f []float64) {
	feedbackGeneric(p, history, steps, gain, 1, f, history)
}

func filter(p []float64, steps int, h []float64) { filterGeneric(p, steps, h) }

func buffers(p []float64, steps int, s, minusScales, decays []float64) {
	buffersGeneric(p, steps, s, minusScales, decays)
}
