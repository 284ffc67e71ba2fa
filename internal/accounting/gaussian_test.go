package accounting

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/google/differential-privacy/go/v3/noise"
)

// TestGaussianDeltaAgainstManyDigits holds δ(ε) against the same formula in 400 digits (mpmath),
// down to 1e-303.
func TestGaussianDeltaAgainstManyDigits(t *testing.T) {
	for _, c := range []struct{ epsilon, mu, want float64 }{
		{0, 1, 0.38292492254802621},
		{0, 1e-10, 3.9894228040143269e-11},
		{1, 1, 0.12693673750664395},
		{8, 1, 3.6508216874217909e-15},
		{0.5, 0.1, 6.8565824558387371e-9},
		{10, 0.3, 8.3750628459424142e-244},
		{30, 1, 4.7093263180975222e-193},
		{600, 20, 1.3742480638151288e-89},
		{1, 0.027, 1.742395210492646e-303},
		{1, 0.03, 9.4078678561398582e-247},
		{2, 0.5, 9.4391686349472338e-6},
		{700, 30, 3.0641704385121704e-17},
		{0, 0.001, 0.00039894226377883829},
		{0.001, 0.001, 8.3357132125208494e-5},
		{12, 5, 0.46183846304409661},
		{100, 10, 1.8797170020519157e-7},
	} {
		if got := gaussianDelta(c.epsilon, c.mu); math.Abs(got/c.want-1) > 1e-11 {
			t.Errorf("δ(%g), μ = %g: got %.15g, want %.15g", c.epsilon, c.mu, got, c.want)
		}
	}
}

// TestGaussianInverse: GaussianNoiseMultiplier is rounded up, and by little.
func TestGaussianInverse(t *testing.T) {
	for _, delta := range []float64{0.3, 1e-3, 1e-8, 1e-30, 1e-300} {
		for _, epsilon := range []float64{0, 1e-3, 0.5, 1, 8, 50} {
			for _, sensitivity := range []float64{1e-3, 1, 7} {
				sigma, err := GaussianNoiseMultiplier(epsilon, delta, sensitivity)
				if err != nil {
					t.Fatal(err)
				}
				got, err := Gaussian{sensitivity, sigma}.Delta(epsilon)
				if err != nil || got > delta {
					t.Errorf("(%g, %g): σ = %g gives δ = %g, %v", epsilon, delta, sigma, got, err)
				}
				if less, _ := (Gaussian{sensitivity, sigma * (1 - 1e-9)}).Delta(epsilon); less <= delta {
					t.Errorf("(%g, %g): σ = %g is not the smallest", epsilon, delta, sigma)
				}
			}
		}
	}
}

// TestGaussianAgainstGoogle compares with google/differential-privacy, whose σ is good to 1e-3.
func TestGaussianAgainstGoogle(t *testing.T) {
	for _, epsilon := range []float64{0.1, 1, 3, 10} {
		for _, delta := range []float64{1e-2, 1e-5, 1e-9} {
			theirs := noise.SigmaForGaussian(4, 0.5, epsilon, delta) // ℓ2 sensitivity √4·0.5
			ours, err := GaussianNoiseMultiplier(epsilon, delta, 1)
			if err != nil || ours > theirs*(1+1e-9) || ours < theirs*(1-1.1e-3) {
				t.Errorf("(%g, %g): σ = %g, theirs %g, %v", epsilon, delta, ours, theirs, err)
			}
		}
	}
}

// TestGaussianGolden holds ε(δ) between the optimistic and pessimistic figures of dp_accounting.
func TestGaussianGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/dp_accounting_gaussian.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Sigma       float64
		T           float64
		Pessimistic map[string]float64
		Optimistic  map[string]float64
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) != 3 {
		t.Fatalf("%d cases, want 3", len(cases))
	}
	for _, c := range cases {
		for key, high := range c.Pessimistic {
			delta, _ := strconv.ParseFloat(key, 64)
			low, g := c.Optimistic[key], Gaussian{math.Sqrt(c.T), c.Sigma}
			above, errLow := g.Delta(low)
			below, errHigh := g.Delta(high)
			if errLow != nil || errHigh != nil || below > delta || above < delta {
				t.Errorf("σ = %g, T = %g: ε(%g) outside [%g, %g]: δ of %g to %g there, %v, %v", c.Sigma, c.T, delta, low, high, below, above, errLow, errHigh)
			}
		}
	}
}

func TestGaussianRefusesBadInput(t *testing.T) {
	_, err := Gaussian{math.NaN(), -1}.Delta(math.Inf(1))
	var list interface{ Unwrap() []error }
	if !errors.As(err, &list) || len(list.Unwrap()) < 2 {
		t.Errorf("got %v, want every fault", err)
	}
	var pe *ParamError
	if _, err := GaussianNoiseMultiplier(1, 0, 1); !errors.As(err, &pe) || pe.Param != "delta" {
		t.Errorf("delta 0: got %v", err)
	}
	if _, err := GaussianNoiseMultiplier(1, math.NaN(), 1); err == nil {
		t.Error("delta NaN was taken")
	}
}
