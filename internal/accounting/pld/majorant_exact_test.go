package pld

import (
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/must"
)

// lognormal is E(X-x)_+ of X = exp(m z - m²/2), z normal.
func lognormal(m, x float64) float64 {
	if x <= 0 {
		return 1 - x
	}
	tail := func(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }
	d := (math.Log(x) + m*m/2) / m
	return tail(d-m) - x*tail(d)
}

// overNormal integrates a function of a normal variable by Simpson's rule.
func overNormal(value func(z float64) float64) (sum float64) {
	const points, far = 2000, 12.
	h := 2 * far / points
	for i := range points + 1 {
		weight := []float64{2, 4}[i%2]
		if i == 0 || i == points {
			weight = 1
		}
		z := -far + h*float64(i)
		sum += weight * value(z) * math.Exp(-z*z/2)
	}
	return sum * h / 3 / math.Sqrt(2*math.Pi)
}

// hull is the lower convex hull of points by rising x, at x: the least of all chords.
func hull(points []knot, x float64) float64 {
	least := math.Inf(1)
	for i, a := range points {
		for _, b := range points[i:] {
			switch {
			case a.x == x:
				least = min(least, a.value)
			case b.x == x:
				least = min(least, b.value)
			case a.x < x && x < b.x:
				least = min(least, a.value+(b.value-a.value)*(x-a.x)/(b.x-a.x))
			}
		}
	}
	return least
}

// TestMajorantIsTheHull: at grid points and between them a majorant is the convex hull of its
// bounds, of (0, 1) and of the line of the mean, and what is cut is the hull of the points before
// the cut and of (T, 0): no less, and no more than by rounding. Bounds are random, convex or not.
func TestMajorantIsTheHull(t *testing.T) {
	rng := rand.New(rand.NewPCG(2026, 15))
	const grid, size = 0.1, 40
	for range 30 {
		low := -25 + rng.IntN(10)
		bounds := make([]float64, size)
		m := math.Exp(rng.NormFloat64())
		points := []knot{{x: 0, value: 1}}
		least := 1.0
		for j := range bounds {
			x := math.Exp(grid * float64(low+j))
			bounds[j] = min(1, lognormal(m, x)*(1+rng.Float64()*float64(rng.IntN(2))))
			least = min(least, bounds[j]) // it cannot rise
			points = append(points, knot{low + j, x, max(least, 1-x)})
		}
		of := must.Get(NewMajorant(grid, low, bounds))(t)
		cut := rng.IntN(low + size)
		end := math.Exp(grid * float64(cut))
		var before []knot
		for _, p := range points {
			if p.x < end*(1-1e-9) {
				before = append(before, p)
			}
		}
		before = append(before, knot{x: end})
		short := of.Cut(cut)
		for j := 0; j+1 < size; j++ {
			for _, x := range []float64{points[j+1].x, (points[j+1].x + points[j+2].x) / 2, points[1].x / 2} {
				want := hull(points, x)
				if got := of.Excess(x); !(got >= want*(1-1e-10) && got <= want+1e-8) {
					t.Errorf("σ = %g at %g: %g, the hull is %g", m, x, got, want)
				}
				want = 0
				if x < end {
					want = hull(before, x)
				}
				if got := short.Excess(x); !(got >= want*(1-1e-10) && got <= want+1e-8) {
					t.Errorf("σ = %g, cut at %g, at %g: %g, the hull is %g", m, end, x, got, want)
				}
			}
		}
		if got := of.Excess(-3); !(got >= 4*(1-1e-10) && got <= 4+1e-7) { // the mean is 1
			t.Errorf("σ = %g: E(X+3) is %g", m, got)
		}
		if got, want := of.Excess(1e9), points[size].value; !(got >= want && got <= want*(1+1e-8)+1e-17) {
			t.Errorf("σ = %g: at infinity there is %g, the last bound is %g", m, got, want)
		}
	}
}

// TestMajorantOfSums: sums of lognormal variables are as integrals say, to the square of the grid,
// and so is the ratio of a period.
func TestMajorantOfSums(t *testing.T) {
	const grid, low, size = 0.004, -2000, 4000
	for _, m := range []float64{0.3, 0.8, 1.5} {
		bounds := make([]float64, size)
		for j := range bounds {
			bounds[j] = min(1, lognormal(m, math.Exp(grid*float64(low+j))))
		}
		one := must.Get(NewMajorant(grid, low, bounds))(t)
		two := func(x float64) float64 {
			return overNormal(func(z float64) float64 { return lognormal(m, x-math.Exp(m*z-m*m/2)) })
		}
		three := func(x float64) float64 {
			return overNormal(func(z float64) float64 {
				rest := x - math.Exp(m*z-m*m/2)
				if rest <= 0 {
					return 2 - rest
				}
				return two(rest)
			})
		}
		half := Allocation{Steps: 4, Places: 2, NoiseMultiplier: 1, Sensitivity: m} // ½ + (X_1 + X_2)/4
		ratio := must.Get(half.Majorant(grid))(t)
		for _, x := range []float64{-1, 0.5, 1.5, 2, 2.7, 4, 7, 15} {
			for name, c := range map[string][2]float64{
				"two": {two(x), one.Sum(2).Excess(x)}, "one and one": {two(x), one.Plus(one).Excess(x)}, "alone": {lognormal(m, x), one.Sum(1).Excess(x)},
				"a period": {two(4*x-2) / 4, ratio.Excess(x)},
			} {
				if want, got := c[0], c[1]; !(got >= want*(1-1e-6) && got <= want*(1+4e-3)+1e-12) {
					t.Errorf("σ = %g, %s at %g: %g, by the integral %g", m, name, x, got, want)
				}
			}
		}
		if m == 0.8 {
			for _, x := range []float64{2, 5} {
				want := three(x)
				for i, got := range []float64{one.Sum(3).Excess(x), one.Sum(2).Plus(one).Excess(x), one.Plus(one.Sum(2)).Excess(x)} {
					if !(got >= want*(1-1e-6) && got <= want*(1+4e-3)) {
						t.Errorf("three at %g, sum %d: %g, by the integral %g", x, i, got, want)
					}
				}
			}
		}
	}
}
