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
