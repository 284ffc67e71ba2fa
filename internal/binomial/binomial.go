// Package binomial has probabilities of the binomial distribution for any number of trials: single
// ones, and upper bounds of upper tails.
package binomial

import "math"

// Mass is Pr[Binom(n,p) = j], to about 1e-13 relative for any n (Loader 2000: the saddle point with
// Stirling's error and the deviance taken apart, so that nothing cancels).
func Mass(n int, p float64, j int) float64 {
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
	exponent, factor, _ := saddle(n, p, j)
	return math.Exp(exponent) * factor
}

// saddle is Pr[Binom(n,p) = j] as e^exponent · factor, for 0 < j < n and 0 < p < 1, and a bound of
// the error of the exponent: n p and n(1-p) are rounded, which moves it by |j - n p| units of
// 2^-53, and the deviances lose at most a digit.
func saddle(n int, p float64, j int) (exponent, factor, errorBound float64) {
	N, x := float64(n), float64(j)
	far := deviance(x, N*p) + deviance(N-x, N*(1-p))
	exponent = stirlingError(N) - stirlingError(x) - stirlingError(N-x) - far
	return exponent, math.Sqrt(N / (2 * math.Pi * x * (N - x))), 0x1p-48 * (16 + math.Abs(x-N*p) + far)
}

// LeastTail is the least result of UpperTail, unless the probability is 0: it keeps bounds away
// from underflow.
const LeastTail = 1e-300

// mostTerms is the number of terms of a tail that are added.
const mostTerms = 1 << 16

// UpperTail is an upper bound of Pr[Binom(n,p) ≥ k] for 0 ≤ p ≤ 1: of at most the mean it is 1;
// above the mean it exceeds the probability by less than a factor 1 + 3e-9 + |k - np|·1e-14, down
// to LeastTail.
//
// The terms Pr[= j] fall from j = k on, by a ratio that falls as well: the terms after the last
// one added are below a geometric series. After mostTerms, which standard deviations above 8000 need,
// this series is all that is known: k near the mean then has a larger bound, by a factor of up to
// 1 + 1/x² at x deviations above it.
func UpperTail(n int, p float64, k int) float64 {
	switch {
	case k <= 0:
		return 1
	case k > n || p <= 0:
		return 0
	case float64(k) <= float64(n)*p*(1+1e-12):
		return 1
	case k == n:
		return max(LeastTail, min(1, math.Exp(float64(n)*math.Log(p))*(1+1e-9)))
	}
	exponent, factor, errorBound := saddle(n, p, k)
	sum, term, odds := 1.0, 1.0, p/(1-p)
	for j := k; j < n; j++ {
		ratio := float64(n-j) / float64(j+1) * odds
		term *= ratio
		sum += term
		if rest := term * ratio / (1 - ratio); rest < 1e-12*sum || j-k == mostTerms {
			sum += rest
			break
		}
	}
	return max(LeastTail, min(1, math.Exp(exponent+errorBound)*factor*sum*(1+2e-9)))
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
