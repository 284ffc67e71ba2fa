package noise

import (
	"math"

	"golang.org/x/sys/cpu"
)

// vectors is the number of doubles to a vector: 8 with the instructions of kernels512_amd64.s,
// 4 with the ones of kernels_amd64.s, 0 where the processor has neither. Tests change it.
var vectors = widest()

// widest returns the number of doubles in the widest vectors that this processor has kernels for.
func widest() int {
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ:
		return 8
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return 4
	}
	return 0
}

// vectorTables holds the constants of normals256 and normals512, each four times. The assembly
// knows the order.
type vectorTables struct {
	half32, half84, split, sqrtHalf [4]uint64    // 0, 32, 64, 96: of the conversion of words, and of radius
	exponent, one, twoLn2, four     [4]uint64    // 128, 160, 192, 224
	ulp, sign                       [4]uint64    // 256, 288
	log, sin, cos                   [7][4]uint64 // 320, 544, 768: highest degree first
}

// tables are the constants of the kernels.
var tables = newVectorTables()

// newVectorTables lays out the constants in the order that the assembly knows.
func newVectorTables() (t vectorTables) {
	all := func(bits uint64) [4]uint64 { return [4]uint64{bits, bits, bits, bits} }
	value := func(v float64) [4]uint64 { return all(math.Float64bits(v)) }
	t.half32, t.half84, t.split = value(0x1p52), value(0x1p84), value(0x1p84+0x1p52)
	t.sqrtHalf, t.exponent = all(sqrtHalf), value(0x1p52+64)
	t.one, t.twoLn2, t.four = value(1), value(twoLn2), value(4)
	t.ulp, t.sign = value(0x1p-53), all(1<<63)
	for i := range logCoef {
		t.log[6-i], t.sin[6-i], t.cos[6-i] = value(logCoef[i]), value(sinCoef[i]), value(cosCoef[i])
	}
	return t
}

// kernelsOf are the kernels of each arithmetic, by the doubles to a vector.
var kernelsOf = [...]kernels{
	fused: {normals256, normals512, feedback256, feedback512, filter256, filter512, buffers256, buffers512},
	apart: {
		normals256Apart,
		normals512Apart,
		feedback256Apart,
		feedback512Apart,
		filter256Apart,
		filter512Apart,
		buffers256Apart,
		buffers512Apart,
	},
}

//go:noescape
func normals256(dst *float64, stride int, words *uint64, groups int, t *vectorTables) (short int)

//go:noescape
func normals256Apart(dst *float64, stride int, words *uint64, groups int, t *vectorTables) (short int)

//go:noescape
func normals512(
	dst *float64,
	stride int,
	words *uint64,
	groups int,
	t *vectorTables,
	soon, later *float64,
) (short int)

//go:noescape
func normals512Apart(
	dst *float64,
	stride int,
	words *uint64,
	groups int,
	t *vectorTables,
	soon, later *float64,
) (short int)

//go:noescape
func feedback256(rows *float64, across, stride, history, slot, slots, out, steps int, z, gain, f *float64)

//go:noescape
func feedback256Apart(rows *float64, across, stride, history, slot, slots, out, steps int, z, gain, f *float64)

//go:noescape
func feedback512(rows *float64, across, stride, history, slot, slots, out, steps int, z, gain, f *float64)

//go:noescape
func feedback512Apart(rows *float64, across, stride, history, slot, slots, out, steps int, z, gain, f *float64)

//go:noescape
func filter256(p *float64, across, taps, steps int, h *float64)

//go:noescape
func filter256Apart(p *float64, across, taps, steps int, h *float64)

//go:noescape
func filter512(p *float64, across, taps, steps int, h *float64)

//go:noescape
func filter512Apart(p *float64, across, taps, steps int, h *float64)

//go:noescape
func buffers256(p *float64, across, steps int, s *float64, acrossBuffers, n int, minusScales, decays *float64)

//go:noescape
func buffers256Apart(p *float64, across, steps int, s *float64, acrossBuffers, n int, minusScales, decays *float64)

//go:noescape
func buffers512(p *float64, across, steps int, s *float64, acrossBuffers, n int, minusScales, decays *float64)

//go:noescape
func buffers512Apart(p *float64, across, steps int, s *float64, acrossBuffers, n int, minusScales, decays *float64)

// round256 returns 15 if all values are within the limit.
//
//go:noescape
func round256(dst *float32, stride int, p *float64, rows int, scales *float64, magic, limit float64) (ok int)

// round512 returns 0 if all values are within the limit.
//
//go:noescape
func round512(dst *float32, stride int, p *float64, rows int, scales *float64, magic, limit float64) (bad int)
