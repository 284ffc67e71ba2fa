package kernel

import "math"

// useVector says whether to use the instructions of kernels_arm64.s and transform_arm64.s, which
// every arm64 has. Tests change it.
var useVector = true

// vectorTables holds constants, each for a vector of two, or for as many vectors as take part in a
// step of a polynomial. The assembly knows the order.
type vectorTables struct {
	two, threeHalves, toMantissa, mantissa   [2]uint64 // of normals
	sqrtHalf, integer, exponent, minusTwoLn2 [2]uint64
	one, logHighest, sinHighest, cosHighest  [2]uint64
	sinCos                                   [5][8]uint64 // two vectors of each, highest degree first, as all polynomials
	log                                      [6][4]uint64 // times -2, and then -4
	round, exp2Highest                       [2]uint64    // 704
	exp2                                     [9][8]uint64
}

var tables = newVectorTables()

func newVectorTables() (t vectorTables) {
	fill := func(dst []uint64, v float64) {
		for i := range dst {
			dst[i] = math.Float64bits(v)
		}
	}
	all := func(bits uint64) [2]uint64 { return [2]uint64{bits, bits} }
	value := func(v float64) [2]uint64 { return all(math.Float64bits(v)) }
	t.two, t.threeHalves, t.toMantissa, t.mantissa = value(2), value(1.5), all(oneBits-sqrtHalfBits), all(mantissaBits)
	t.sqrtHalf, t.integer, t.exponent, t.minusTwoLn2 = all(sqrtHalfBits), value(0x1p52), value(0x1p52+1023), value(-2*math.Ln2)
	t.one, t.logHighest, t.sinHighest, t.cosHighest = value(1), value(-2*logPoly[5]), value(sinPoly[5]), value(cosPoly[5])
	for i := range t.sinCos {
		fill(t.sinCos[4-i][:4], sinPoly[i])
		fill(t.sinCos[4-i][4:], cosPoly[i])
		fill(t.log[4-i][:], -2*logPoly[i])
	}
	fill(t.log[5][:], -4)
	t.round, t.exp2Highest = value(roundToInt), value(exp2Poly[9])
	for i := range t.exp2 {
		fill(t.exp2[8-i][:], exp2Poly[i])
	}
	return t
}

// The functions below are the functions of kernels.go with NEON: the same operations in each lane,
// so the same bits.

//go:noescape
func normalsVector(z *Row, words *uint64, rows int, t *vectorTables)

//go:noescape
func exp2Vector(dst, t *Row, rows int, a *float64, tables *vectorTables)

// renewalVector takes the addresses of the last row, and goes steps of bytes to the one before.
//
//go:noescape
func renewalVector(f, t *Row, rows int, a, stay *float64, stayStep int, ahead *Row, aheadStep int, tables *vectorTables)

//go:noescape
func pairVector(out, next, other *Row, otherStep, entries int, weights *float64, jump *Row, stay float64)

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
