package accounting_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/ledger"
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

// A scheme of one's own, certified: at most twice, at least a week apart, and never on the first day.
func Example_law() {
	table, err := weekly(0.05).Tabulate(30)
	if err != nil {
		fmt.Println(err)
		return
	}
	run := accounting.Run{
		Sampler:             sampling.Spec{Law: table},
		Strategy:            &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 30, Toeplitz: []float64{0.8, 0.6}},
		MaxExamplesPerOwner: 1,
	}
	plan, err := calibration.Problem{Run: run, Epsilon: 2, Delta: 1e-2, CodeVersion: "example"}.Plan(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	dir, err := os.MkdirTemp("", "law")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	l, err := ledger.Create(dir, plan.Protocol)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	err = calibration.Release(context.Background(), l, 100_000, func(ctx context.Context, l *ledger.Ledger, candidate int, units []ledger.Unit) error {
		for _, u := range units {
			worker, err := calibration.NewWorker(l.Protocol(), candidate, u.Trial)
			if err != nil {
				return err
			}
			result, err := worker.Run(ctx, u.First, u.Count, 0)
			if err != nil {
				return err
			}
			if err := l.AddAll([]ledger.Entry{{Unit: u, Result: result}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := l.Certificate()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s by %s, at least %d steps apart, at most %d times; the law is in the certificate: %t\n",
		c.Status, c.Method, table.Separation(), table.MaxParticipations(), c.Run.Sampler.Law.Hash() == table.Hash())
	// Output:
	// verified by monte carlo, at least 7 steps apart, at most 2 times; the law is in the certificate: true
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
			loss, err := montecarlo.NewEvaluator(run.Loss(sigma), montecarlo.P)
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
