package mechanism_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/must"
	"minsep/mechanism"
)

// column is a random column that is not negative.
func column(r *rand.Rand, bands int) []float64 {
	c := make([]float64, bands)
	for j := range c {
		c[j] = r.Float64()
	}
	c[0] += .1
	return c
}

// TestAmplifiedNoise compares the closed form with its definition, its bounds, and where it is
// exact: for one band, and where the columns of one example do not overlap.
func TestAmplifiedNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, independent := range []float64{.05, .3, .7, 1, 3, 40, 1e4} {
		for _, bands := range []int{1, 2, 5, 33} {
			c := column(r, bands)
			sigma := mechanism.AmplifiedNoise(c, independent)
			sum, square := 0.0, 0.0
			for _, v := range c {
				sum, square = sum+v, square+v*v
			}
			if low, high := independent*math.Sqrt(square), independent*sum; sigma < low*(1-1e-12) || sigma > high*(1+1e-12) {
				t.Errorf("%d bands, %g: %g is not between %g and %g", bands, independent, sigma, low, high)
			}
			if x := 1 / (independent * independent); x < 600 { // by the definition, where that is no overflow
				excess := 0.0
				for lag := -bands + 1; lag < bands; lag++ {
					a := 0.0
					for i := range c {
						if j := i + lag; j >= 0 && j < bands {
							a += c[i] * c[j]
						}
					}
					excess += math.Expm1(a / (sigma * sigma))
				}
				if want := math.Expm1(x); math.Abs(excess/want-1) > 1e-9*max(1, x) {
					t.Errorf("%d bands, %g: the sum is %g, want %g", bands, independent, excess, want)
				}
			}
			if back := mechanism.IndependentNoise(c, sigma); math.Abs(back/independent-1) > 1e-9 {
				t.Errorf("%d bands: %g came back as %g", bands, independent, back)
			}
			for j := range c {
				c[j] *= 3
			}
			if more := mechanism.AmplifiedNoise(c, independent); math.Abs(more/sigma-3) > 1e-9 {
				t.Errorf("three times the column needs %g times the noise", more/sigma)
			}
		}
	}
}

// TestAmplifiedGradient compares the gradient by the implicit function theorem with finite
// differences.
func TestAmplifiedGradient(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, independent := range []float64{.1, .5, 1, 4, 100} {
		for _, bands := range []int{1, 2, 7, 20} {
			c, grad := column(r, bands), make([]float64, bands)
			value := mechanism.LogAmplifiedNoise(c, grad, independent)
			if want := 2 * math.Log(mechanism.AmplifiedNoise(c, independent)); math.Abs(value-want) > 1e-12 {
				t.Errorf("ln σ² is %g, want %g", value, want)
			}
			for j := range c {
				const step = 1e-5
				held := c[j]
				c[j] = held + step
				up := 2 * math.Log(mechanism.AmplifiedNoise(c, independent))
				c[j] = held - step
				down := 2 * math.Log(mechanism.AmplifiedNoise(c, independent))
				c[j] = held
				if want := (up - down) / (2 * step); math.Abs(grad[j]-want) > 1e-6*max(1, math.Abs(want)) {
					t.Errorf("%d bands, %g: the derivative by entry %d is %g, by differences %g", bands, independent, j, grad[j], want)
				}
			}
		}
	}
}

// TestAmplifiedToeplitz: no other column that is not negative has a smaller error times noise
// multiplier, the column is the best Toeplitz one where nothing is amplified, and a wider one is
// never worse.
func TestAmplifiedToeplitz(t *testing.T) {
	const n = 60
	r := rand.New(rand.NewPCG(5, 6))
	for name, a := range map[string]*mechanism.Workload{
		"prefix":   mechanism.Prefix(n),
		"forgets":  {Steps: n, Momentum: .9, Forgetting: 2. / n},
		"schedule": {Steps: n, LearningRates: mechanism.RatesOf(mechanism.WarmupCosineSchedule, n, 6), Forgetting: 2. / n},
	} {
		problem := mechanism.Problem{Workload: a}
		loss := func(c []float64, independent float64) float64 {
			e := must.Get((&mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: n, Toeplitz: c}).Error(a))(t)
			return math.Pow(e.RMSE*mechanism.AmplifiedNoise(c, independent), 2)
		}
		for _, independent := range []float64{.1, .6, 2, 30} {
			before := math.Inf(1)
			for _, bands := range []int{1, 2, 4, 12} {
				s, err := mechanism.AmplifiedToeplitz(t.Context(), problem, bands, independent)
				if err != nil {
					t.Fatalf("%s, %d bands, %g: %v", name, bands, independent, err)
				}
				least := loss(s.Toeplitz, independent)
				if least > before*(1+1e-6) || !s.NonNegative() {
					t.Errorf("%s, %d bands, %g: a loss of %g; with fewer bands %g", name, bands, independent, least, before)
				}
				before = least
				for range 30 {
					other := make([]float64, bands)
					for j, v := range s.Toeplitz {
						other[j] = math.Max(0, v+.02*r.NormFloat64())
					}
					other[0] += 1e-3
					if v := loss(other, independent); v < least*(1-1e-6) {
						t.Fatalf("%s, %d bands, %g: %v has %g in place of %g", name, bands, independent, other, v, least)
					}
				}
			}
		}
		best := must.Get(problem.Make(t.Context(), mechanism.KindBandedToeplitz, 6))(t)
		s := must.Get(mechanism.AmplifiedToeplitz(t.Context(), problem, 6, .05))(t)
		for j, v := range s.Toeplitz {
			if name != "schedule" && math.Abs(v-best.Toeplitz[j]) > 1e-3 {
				t.Errorf("%s: without amplification %v, the best %v", name, s.Toeplitz, best.Toeplitz)
				break
			}
		}
	}
	for _, bad := range []float64{-1, math.NaN(), 1e-3, math.Inf(1)} {
		if (mechanism.Params{Kind: mechanism.KindAmplified, Steps: n, Bands: 2, IndependentNoise: bad}).Validate() == nil {
			t.Errorf("independent noise %g was taken", bad)
		}
	}
}
