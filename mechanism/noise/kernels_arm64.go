package noise

import "math"

// vectors is the number of doubles to a vector. Every arm64 has the instructions of
// kernels_arm64.s. Tests change it.
var vectors = 2

// vectorTables holds the constants of normals128, each twice. The assembly knows the order.
type vectorTables struct {
	one, sqrtHalf, exponent, sign [2]uint64    // of radius and circle
	twoLn2, four, ulp, bit        [2]uint64    // as well
	log, sin, cos                 [7][2]uint64 // highest degree first
}

// tables are the constants of the kernels.
var tables = newVectorTables()

// newVectorTables lays out the constants in the order that the assembly knows.
func newVectorTables() (t vectorTables) {
	all := func(bits uint64) [2]uint64 { return [2]uint64{bits, bits} }
	value := func(v float64) [2]uint64 { return all(math.Float64bits(v)) }
	t.one, t.sqrtHalf, t.exponent, t.sign = value(1), all(sqrtHalf), all(64), all(1<<63)
	t.twoLn2, t.four, t.ulp, t.bit = value(twoLn2), value(4), value(0x1p-53), all(1)
	for i := range logCoef {
		t.log[6-i], t.sin[6-i], t.cos[6-i] = value(logCoef[i]), value(sinCoef[i]), value(cosCoef[i])
	}
	return t
}

// kernelsOf are the kernels of each arithmetic. They take one panel, as those with AVX2 do.
var kernelsOf = [...]kernels{
	fused: {normals256: normals128, feedback256: feedback128, filter256: filter128, buffers256: buffers128},
	apart: {normals256: normals128Apart, feedback256: feedback128Apart, filter256: filter128Apart, buffers256: buffers128Apart},
}

//go:noescape
func normals128(dst *float64, stride int, words *uint64, groups int, t *vectorTables) (short int)

//go:noescape
func normals128Apart(dst *float64, stride int, words *uint64, groups int, t *vectorTables) (short int)

//go:noescape
func feedback128(rows *float64, across, stride, history, slot, slots, out, steps int, z, gain, f *float64)

//go:noescape
func feedback128Apart(rows *float64, across, stride, history, slot, slots, out, steps int, z, gain, f *float64)

//go:noescape
func filter128(p *float64, across, taps, steps int, h *float64)

//go:noescape
func filter128Apart(p *float64, across, taps, steps int, h *float64)

//go:noescape
func buffers128(p *float64, across, steps int, s *float64, acrossBuffers, n int, minusScales, decays *float64)

//go:noescape
func buffers128Apart(p *float64, across, steps int, s *float64, acrossBuffers, n int, minusScales, decays *float64)

// round256 has the name of the AVX2 kernel, so that the code around it is the same.
func round256(dst *float32, stride int, p *float64, rows int, scales *float64, magic, limit float64) (ok int) {
	return round128(dst, stride, p, rows, scales, magic, limit)
}

// round128 returns 15 if all values are within the limit.
//
//go:noescape
func round128(dst *float32, stride int, p *float64, rows int, scales *float64, magic, limit float64) (ok int)

// round512 is never called: there are no vectors of 8 doubles.
func round512(*float32, int, *float64, int, *float64, float64, float64) int { panic("unreachable") }
