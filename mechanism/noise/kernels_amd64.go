package noise

import (
	"math"

	"golang.org/x/sys/cpu"
)

// useVector says whether the processor has the instructions of kernels_amd64.s. Tests change it.
var useVector = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// vectorTables holds the constants of normalsVector, each four times. The assembly knows the order.
type vectorTables struct {
	half32, half84, split, sqrtHalf [4]uint64    // 0, 32, 64, 96: of the conversion of words, and of radius
	exponent, one, twoLn2, four     [4]uint64    // 128, 160, 192, 224
	ulp, sign                       [4]uint64    // 256, 288
	log, sin, cos                   [7][4]uint64 // 320, 544, 768: highest degree first
}

var tables = newVectorTables()

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

// The functions below are those of kernels.go with AVX2 and FMA: the same operations in each lane,
// so the same bits.

//go:noescape
func normalsVector(dst *float64, stride int, words *uint64, groups int, t *vectorTables) (short int)

//go:noescape
func feedbackVector(p *float64, history, steps int, gain, f *float64)

//go:noescape
func ringVector(ring *float64, stride, history, slot, steps int, z, gain, f *float64)

//go:noescape
func filterVector(p *float64, taps, steps int, h *float64)

//go:noescape
func buffersVector(p *float64, steps int, s *float64, n int, minusScales, decays *float64)

// round32Vector returns 15 if all values are within the limit.
//
//go:noescape
func round32Vector(dst *float32, stride int, p *float64, rows int, scales *float64, magic, limit float64) (ok int)
