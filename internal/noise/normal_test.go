package noise

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/internal/stream"
)

func testRoot(t testing.TB) stream.Root {
	t.Helper()
	b := make([]byte, stream.RootSize)
	for i := range b {
		b[i] = byte(i + 1)
	}
	r := must.Get(stream.ParseRoot(b))(t)
	return r
}

// TestRadiusIsExact compares radii with -2 ln U of math.Log in two parts, which is good to 2e-16
// relative.
func TestRadiusIsExact(t *testing.T) {
	for _, a := range []arithmetic{fused, apart} {
		a.radiusIsExact(t)
	}
}

func (a arithmetic) radiusIsExact(t *testing.T) {
	check := func(u float64, exponent uint64) {
		t.Helper()
		got := a.radius(u, exponent)
		ln := math.Log(u*0x1p-64) - float64(exponent-64)*math.Ln2
		if u > 0x1p63 {
			exact := new(big.Float).SetPrec(200).SetFloat64(u * 0x1p-64)
			below, _ := exact.Sub(big.NewFloat(1), exact).Float64()
			ln = math.Log1p(-below) - float64(exponent-64)*math.Ln2
		}
		want := math.Sqrt(-2 * ln)
		if math.Abs(got-want) > 6e-16*want {
			t.Errorf("radius(%x, %d) = %v, want %v, relative error %.2g", u, exponent, got, want, got/want-1)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200000 {
		check(max(float64(a.shortWord()), float64(rng.Uint64()>>rng.IntN(24))), 64)
	}
	for _, u := range []float64{0x1p64, 0x1.fffffffffffffp63, 0x1.fffffffffff00p63, 0x1p63, 0x1.6a09e667f3bccp63, 0x1.6a09e667f3bcdp63, 0x1.6a09e667f3bcep63, 0x1p52, float64(a.shortWord())} {
		check(u, 64)
	}
	check(0x1p63, 64+200)
	check(0x1.fffffp63, 64+1000)
	if r := a.radius(0x1p64, 64); r != 0 || math.Signbit(r) {
		t.Errorf("the radius of U = 1 is %v, want 0", r)
	}
}

func TestCircleIsExact(t *testing.T) {
	for _, a := range []arithmetic{fused, apart} {
		a.circleIsExact(t)
	}
}

func (a arithmetic) circleIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 200000 {
		w := rng.Uint64()
		switch {
		case i < 8:
			w = uint64(i)
		case i < 16:
			w = math.MaxUint64 - uint64(i-8)
		}
		x := (float64(w>>12) + 0.5) * 0x1p-52
		sn, cs := math.Sincos(math.Pi / 4 * x)
		if w&1 != 0 {
			sn, cs = cs, sn
		}
		if w&2 != 0 {
			cs = -cs
		}
		if w&4 != 0 {
			sn = -sn
		}
		gotCos, gotSin := a.circle(w)
		if math.Abs(gotCos-cs) > 4e-16 || math.Abs(gotSin-sn) > 4e-16 {
			t.Errorf("circle(%x) = %v, %v, want %v, %v", w, gotCos, gotSin, cs, sn)
		}
	}
}

// TestTailExtendsTheWord compares the radius of a short word with that of all its bits as one
// fraction.
func TestTailExtendsTheWord(t *testing.T) { eachWords(t, tailExtendsTheWord) }

func tailExtendsTheWord(t *testing.T, source Words) {
	a, tails := source.arithmetic(), source.source(testRoot(t).Key(stream.RunID{1}, [32]byte{}, "tails"))
	for _, word := range []uint64{0, 1, 5, 1 << 20, a.shortWord() - 1} {
		const step, pair = 3, 77
		bits := new(big.Int).SetUint64(word)
		for r := range uint64(4) {
			var w [2]uint64
			tails.Words(w[:], step, pair+r<<48)
			for _, v := range w {
				bits.Lsh(bits, 64).Or(bits, new(big.Int).SetUint64(v))
			}
		}
		f := new(big.Float).SetInt(bits)
		mantissa := new(big.Float)
		exponent := f.MantExp(mantissa) - 64*9
		m, _ := mantissa.Float64()
		want := math.Sqrt(-2 * (math.Log(m) + float64(exponent)*math.Ln2))
		if got := a.tailRadius(tails, word, step, pair); math.Abs(got-want) > 1e-15*want {
			t.Errorf("word %x: radius %v, want %v", word, got, want)
		}
	}
}

// momentsOf checks moments 1 to 8 and the tails beyond 2 to 6 of steps·width draws, which row
// fills.
func momentsOf(steps, width int, row func(step int, z []float64)) []error {
	var sums [8]float64
	var beyond [5]int
	z := make([]float64, width)
	for s := range steps {
		row(s, z)
		var part [8]float64
		for _, v := range z {
			power := 1.0
			for k := range part {
				power *= v
				part[k] += power
			}
			if a := math.Abs(v); a > 2 {
				for k := range beyond {
					if a > float64(k+2) {
						beyond[k]++
					}
				}
			}
		}
		for k := range sums {
			sums[k] += part[k]
		}
	}
	// Moments of N(0,1): E z^(2m) = (2m-1)!!. A draw is beyond 13 with probability 1e-38, so powers
	// are bounded by 13^k.
	moment := func(k int) float64 {
		if k%2 == 1 {
			return 0
		}
		m := 1.0
		for i := k - 1; i > 0; i -= 2 {
			m *= float64(i)
		}
		return m
	}
	n := float64(steps) * float64(width)
	var errs []error
	for k := 1; k <= 8; k++ {
		mean := moment(k)
		if err := stattest.Sum(sums[k-1], n*mean, n*(moment(2*k)-mean*mean), math.Pow(13, float64(k))); err != nil {
			errs = append(errs, err)
		}
	}
	for k, count := range beyond {
		if err := stattest.Count(count, steps*width, math.Erfc(float64(k+2)/math.Sqrt2)); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
