package pld

import "math"

// binomialMass is Pr[Binom(n,p) = j], to about 1e-13 relative for any n (Loader 2000: the saddle point with
// Stirling's error and the deviance taken apart, so that nothing cancels).
func binomialMass(n int, p float64, j int) float64 {
	switch {
	case j < 0 || j > n:
		return 0
	case p == 1:
		if j == n {
			return 1
		}
		return 0
	case j == 0:
		return math.Exp(float64(n) * math.Log1p(-p))
	case j == n:
		return math.Exp(float64(n) * math.Log(p))
	}
	N, x := float64(n), float64(j)
	e := stirlingError(N) - stirlingError(x) - stirlingError(N-x) - deviance(x, N*p) - deviance(N-x, N*(1-p))
	return math.Exp(e) * math.Sqrt(N/(2*math.Pi*x*(N-x)))
}

// stirlingError is ln n! - ln(√(2πn) (n/e)^n).
func stirlingError(n float64) float64 {
	if n < 16 {
		factorial := 1.0
		for i := 2.0; i <= n; i++ {
			factorial *= i
		}
		return math.Log(factorial) - (n+0.5)*math.Log(n) + n - 0.5*math.Log(2*math.Pi)
	}
	s := n * n
	return (1./12 - (1./360-(1./1260-(1./1680-1./1188/s)/s)/s)/s) / n
}

// deviance is x ln(x/m) + m - x.
func deviance(x, m float64) float64 {
	if d := x - m; math.Abs(d) < 0.1*(x+m) {
		// With v = d/(x+m): d v + 2 x Σ_{k≥1} v^(2k+1)/(2k+1).
		v := d / (x + m)
		sum, term := d*v, 2*x*v
		for k := 3.0; ; k += 2 {
			term *= v * v
			next := sum + term/k
			if next == sum {
				return sum
			}
			sum = next
		}
	}
	return x*math.Log(x/m) + m - x
}
