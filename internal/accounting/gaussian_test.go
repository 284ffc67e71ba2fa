package accounting

import (
	"errors"
	"math"
	"testing"

	"minsep/internal/must"
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
				sigma := must.Get(GaussianNoiseMultiplier(epsilon, delta, sensitivity))(t)
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
