package noise

import (
	"math"
	"math/bits"
)

// Coefficients of the polynomials of the package comment, lowest degree first: minimax in the sense
// of Chebyshev interpolation, computed with 50 digits. Changing one changes all noise.
var (
	// 4 (atanh(s) - s)/s³ as a function of s², on [0, (√2-1)²/(√2+1)²].
	logCoef = [7]float64{
		0x1.5555555555558p+0, 0x1.99999999952e2p-1, 0x1.2492492df148dp-1, 0x1.c71c62e5800a1p-2,
		0x1.7462b4ab2ef6bp-2, 0x1.39fe606542ddep-2, 0x1.2b584aae78a57p-2,
	}
	// sin(π x/4)/x and cos(π x/4) as functions of x², on [0, 1].
	sinCoef = [7]float64{
		0x1.921fb54442d18p-1, -0x1.4abbce625be41p-4, 0x1.466bc677587f8p-9, -0x1.32d2cce2e5b19p-15,
		0x1.50782fda12d96p-22, -0x1.e30071afc3e59p-30, 0x1.e3f38399551bfp-38,
	}
	cosCoef = [7]float64{
		0x1.0000000000000p+0, -0x1.3bd3cc9be458bp-2, 0x1.03c1f081b0780p-6, -0x1.55d3c7dbfd139p-12,
		0x1.e1f4fb60281f6p-19, -0x1.a6c9c1be9eb49p-26, 0x1.f3dbcea61b1a4p-34,
	}
)

const (
	twoLn2   = 0x1.62e42fefa39efp+0 // 2 ln 2
	sqrtHalf = 0x3fe6a09e667f3bcd   // the bits of √½
)

// polynomial evaluates c at x by Horner's rule.
func (a arithmetic) polynomial(c *[7]float64, x float64) float64 {
	p := a.add(c[6], x, c[5])
	p = a.add(p, x, c[4])
	p = a.add(p, x, c[3])
	p = a.add(p, x, c[2])
	p = a.add(p, x, c[1])
	return a.add(p, x, c[0])
}

// radius returns sqrt(-2 ln(u 2⁻ⁱ)) for u in [2⁴⁰, 2⁶⁴] and u 2⁻ⁱ ≤ 1.
func (a arithmetic) radius(u float64, exponent uint64) float64 {
	b := math.Float64bits(u)
	k := (b - sqrtHalf) >> 52 // u = 2ᵏ m
	m := math.Float64frombits(b - k<<52)
	s := (m - 1) / (m + 1)
	q := s * s
	t := a.add(s*q, a.polynomial(&logCoef, q), 4*s)
	return math.Sqrt(a.add(float64(int64(exponent-k)), twoLn2, -t))
}

// circle returns the cosine and sine of the angle that the word w encodes.
func (a arithmetic) circle(w uint64) (cs, sn float64) {
	x := math.Float64frombits(w>>12|0x3ff<<52) - 1 + 0x1p-53
	y := x * x
	sn, cs = x*a.polynomial(&sinCoef, y), a.polynomial(&cosCoef, y)
	if w&1 != 0 {
		sn, cs = cs, sn
	}
	cs = math.Float64frombits(math.Float64bits(cs) ^ w<<62&(1<<63))
	sn = math.Float64frombits(math.Float64bits(sn) ^ w<<61&(1<<63))
	return cs, sn
}

// lanes is the width of a panel: the coordinates that the inner loops take side by side.
const lanes = 16

// normalsGeneric is normals in portable Go.
func (a arithmetic) normalsGeneric(dst []float64, stride int, words []uint64) (short bool) {
	for g := 0; g*lanes < len(words); g++ {
		w := words[g*lanes:][:lanes]
		out := dst[g*stride:][:lanes]
		for i := 0; i < lanes; i += 2 {
			short = short || w[i] < a.shortWord()
			r := a.radius(float64(w[i]), 64)
			cs, sn := a.circle(w[i+1])
			out[i], out[i+1] = r*cs, r*sn
		}
	}
	return short
}

// tailBlocks is the distance between the blocks that extend one pair. It is above the number of
// pairs, at most 2⁴⁷, so that no two uses share a block.
const tailBlocks = 1 << 48

// tailRadius returns the radius of a pair with a radius word below shortWord: more words extend it.
func (a arithmetic) tailRadius(tails wordSource, word, step, pair uint64) float64 {
	exponent := uint64(64)
	var next [2]uint64
	for r := uint64(0); ; r++ {
		tails.Words(next[:], step, pair+r*tailBlocks)
		for _, low := range next {
			if word != 0 {
				zeros := bits.LeadingZeros64(word)
				return a.radius(float64(word<<zeros|low>>(64-zeros)), exponent+uint64(zeros))
			}
			exponent += 64
			word = low
		}
	}
}

// add returns x y + z.
func (a arithmetic) add(x, y, z float64) float64 {
	if a == apart {
		return float64(x*y) + z
	}
	return math.FMA(x, y, z)
}

// shortWord returns the least radius word that is not extended; kernels look for words below it.
// With 2⁴⁰ only one pair in 2²⁴ is extended, so that programs without branches rarely need it.
func (a arithmetic) shortWord() uint64 {
	if a == apart {
		return 1 << 40
	}
	return 1 << 52
}
