package kernel

import "math"

// Polynomials, fitted at Chebyshev nodes; the comments give their largest relative error on their
// range.
var (
	exp2Poly = [...]float64{
		1.0000000000000134868,
		0.69314718055994615897,
		0.2402265069564033974,
		0.055504108664651672007,
		0.0096181291939343133551,
		0.0013333558200794592645,
		0.00015403433751251008921,
		0.000015252672924850736404,
		1.325964524488711024e-6,
		1.0205905413765595794e-7,
	} // 2^x, |x| ≤ 1/2: 1.8e-14
	logPoly = [...]float64{
		0.66666666666662083223,
		0.40000000011206506321,
		0.28571424138324160585,
		0.22222862280108715552,
		0.1814019380286599109,
		0.16621817152858928181,
	} // (ln((1+s)/(1-s)) - 2s)/s³ in s², |s| ≤ 0.172: 7e-14
	sinPoly = [...]float64{
		1.5707963267948898932,
		-0.64596409750430907012,
		0.079692626155746035458,
		-0.0046817525914582083288,
		0.00016042926504495615863,
		-3.5563862607047840034e-6,
	} // sin(πx/2)/x in x², |x| ≤ 1/2: 4.7e-15
	cosPoly = [...]float64{
		0.99999999999994441026,
		-1.2337005501201592267,
		0.25366950715370431605,
		-0.020863468002244644457,
		0.00091916173695395725189,
		-0.000024850963357813637224,
	} // cos(πx/2) in x², |x| ≤ 1/2: 7.6e-14
)

const (
	oneBits      = 0x3ff0000000000000 // 1.0
	sqrtHalfBits = 0x3fe6a09e667f3bcd // √½
	mantissaBits = 1<<52 - 1
	roundToInt   = 3 << 51 // adding it to a small float rounds it to an integer, held in the low bits
)

// normals makes two independent standard normals of two words (Box and Muller), the first of the
// radius, the second of the angle.
func normals(radius, angle uint64) (x, y float64) {
	// u in (0, 1] in steps of 2^-52, as m·2^e with m in [√½, √2), and ln m = 2 artanh s.
	u := math.Float64bits(2-math.Float64frombits(radius>>12|oneBits)) + (oneBits - sqrtHalfBits)
	e := float64(int(u>>52) - 1023)
	m := math.Float64frombits(u&mantissaBits + sqrtHalfBits)
	s := (m - 1) / (m + 1)
	log := s * math.FMA(s*s, polynomial6(&logPoly, s*s), 2)
	r := math.Sqrt(math.FMA(e, -2*math.Ln2, -2*log))
	// The sine and cosine of the angle 2πv, v in [-½, ½), follow from half of the angle, and these
	// from a quarter of it.
	v := math.Float64frombits(angle>>12|oneBits) - 1.5
	sin, cos := polynomial6(&sinPoly, v*v)*v, polynomial6(&cosPoly, v*v)
	sin2, cos2 := 2*sin*cos, math.FMA(-2*sin, sin, 1)
	return r * math.FMA(-2*sin2, sin2, 1), r * (2 * sin2 * cos2)
}

func polynomial6(c *[6]float64, x float64) float64 {
	p := c[5]
	for i := 4; i >= 0; i-- {
		p = math.FMA(p, x, c[i])
	}
	return p
}

// exp2 returns 2^x for |x| ≤ maxExponent to 3e-14 of its size.
func exp2(x float64) float64 {
	k := x + roundToInt
	r := x - (k - roundToInt)
	p := exp2Poly[9]
	for i := 8; i >= 0; i-- {
		p = math.FMA(p, r, exp2Poly[i])
	}
	return math.Float64frombits(math.Float64bits(p) + math.Float64bits(k)<<52)
}

// maxExponent bounds the arguments of exp2.
const maxExponent = 1000
