package accounting_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/montecarlo"
	"minsep/mechanism"
	"minsep/sampling"
)

// weekly takes part with a probability at most twice, at least a week apart, and never on the first
// day.
func weekly(p float64) sampling.Law {
	return sampling.Law{
		Start: []sampling.Start{{Point: sampling.Point{Step: 1}, Prob: 1}},
		Next: func(at sampling.Point) (float64, sampling.Point, sampling.Point) {
			in := sampling.Point{Step: at.Step + 7, State: at.State + 1}
			if at.State == 1 {
				in.Step = sampling.Never
			}
			return p, in, sampling.Point{Step: at.Step + 1, State: at.State}
		},
	}
}

// TestLawAgainstEnumeration holds the loss of a law to the sum over all its patterns, written down
// here, for columns that overlap and for those that do not.
func TestLawAgainstEnumeration(t *testing.T) {
	const steps, p = 24, 0.1
	table, err := weekly(p).Tabulate(steps)
	if err != nil {
		t.Fatal(err)
	}
	q := func(count int) float64 { return math.Pow(1-p, float64(max(0, count))) }
	prob := map[[2]int]float64{{-1, -1}: q(steps - 1)}
	for i := 1; i < steps; i++ {
		prob[[2]int{i, -1}] = q(i-1) * p * q(steps-i-7)
		for j := i + 7; j < steps; j++ {
			prob[[2]int{i, j}] = q(i-1) * p * q(j-i-7) * p
		}
	}
	rng := rand.New(rand.NewPCG(18, 7))
	for _, bands := range []int{1, 4, 7, 8, 20} {
		column := make([]float64, bands)
		for k := range column {
			column[k] = 1 / math.Sqrt(1+float64(k))
		}
		for _, sigma := range []float64{0.7, 2} {
			run := accounting.Run{Sampler: sampling.Spec{Law: table}, Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: column}, MaxExamplesPerOwner: 1}
			loss, err := montecarlo.NewEvaluator(run.Loss(sigma))
			if err != nil {
				t.Fatal(err)
			}
			y := make([]float64, steps)
			for i := range y {
				y[i] = sigma*rng.NormFloat64() + 0.3
			}
			sum, total := 0.0, 0.0
			for pattern, weight := range prob {
				mean := make([]float64, steps)
				for _, i := range pattern {
					for k := 0; i >= 0 && k < bands && i+k < steps; k++ {
						mean[i+k] += column[k]
					}
				}
				exponent := 0.0
				for i, m := range mean {
					exponent += m*y[i] - m*m/2
				}
				sum += weight * math.Exp(exponent/(sigma*sigma))
				total += weight
			}
			got, err := loss.LogRatio(y)
			if err != nil || math.Abs(got-math.Log(sum)) > 1e-11 || math.Abs(total-1) > 1e-12 {
				t.Errorf("%d bands, σ = %g: ln P/Q = %v, by all patterns %v of probability %v: %v", bands, sigma, got, math.Log(sum), total, err)
			}
		}
	}
}
