package kernel

import (
	"math"

	"golang.org/x/sys/cpu"
)

// useVector says whether the processor has the instructions of kernels_amd64.s. Tests change it.
var useVector = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// vectorTables holds constants, each four times. The assembly knows the order.
type vectorTables struct {
	one, two, threeHalves, toMantissa [4]uint64     // 0, 32, 64, 96
	mantissa, sqrtHalf                [4]uint64     // 128, 160
	integer, exponent                 [4]uint64     // 192, 224
	log                               [6][4]uint64  // 256: times -2, highest degree first, as all polynomials
	minusFour, minusTwoLn2            [4]uint64     // 448, 480
	sin, cos                          [6][4]uint64  // 512, 704
	round                             [4]uint64     // 896
	exp2                              [10][4]uint64 // 928
}

var tables = newVectorTables()

func newVectorTables() (t vectorTables) {
	all := func(bits uint64) [4]uint64 { return [4]uint64{bits, bits, bits, bits} }
	value := func(v float64) [4]uint64 { return all(math.Float64bits(v)) }
	t.one, t.two, t.threeHalves, t.toMantissa = value(1), value(2), value(1.5), all(oneBits-sqrtHalfBits)
	t.mantissa, t.sqrtHalf = all(mantissaBits), all(sqrtHalfBits)
	t.integer, t.exponent = value(0x1p52), value(0x1p52+1023)
	t.minusFour, t.minusTwoLn2, t.round = value(-4), value(-2*math.Ln2), value(roundToInt)
	for i := range logPoly {
		t.log[5-i], t.sin[5-i], t.cos[5-i] = value(-2*logPoly[i]), value(sinPoly[i]), value(cosPoly[i])
	}
	for i := range exp2Poly {
		t.exp2[9-i] = value(exp2Poly[i])
	}
	return t
}

// The functions below are the functions of kernels.go with AVX2 and FMA: the same
// operations in each lane, so the same bits.

//go:noescape
func normalsVector(z *Row, words *uint64, rows int, t *vectorTables)

//go:noescape
func exp2Vector(dst, t *Row, rows int, tables *vectorTables)

//go:noescape
func turnVector(out, next, other *Row, otherStep, entries int, weights *float64, jump *Row, stay float64)

// betweenVector returns 15 if all values are.
//
//go:noescape
func betweenVector(x *Row, rows int, low, high float64) (all int)

// correlateVector is for multiples of four rows and at least four taps.
//
//go:noescape
func correlateVector(out, z *Row, rows int, filter *float64, taps int)

//go:noescape
func correlateRowVector(out, z *Row, filter *float64, taps int)

//go:noescape
func forwardVector(x *Row, quarter, blocks int, twiddles *twiddle)

//go:noescape
func backwardVector(x *Row, quarter, blocks int, twiddles *twiddle)

//go:noescape
func leavesVector(x *Row, leaves int, spectrum *[4]complex128)
