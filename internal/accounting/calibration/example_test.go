package calibration_test

import (
	"context"
	"fmt"
	"os"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/ledger"
	"minsep/mechanism"
	"minsep/sampling"
)

// draw computes units in this process. Others may do so elsewhere, in any order.
func draw(ctx context.Context, l *ledger.Ledger, candidate int, units []ledger.Unit) error {
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
}

// A verified noise multiplier for b-min-sep sampling at (2, 1e-3).
func Example() {
	run := accounting.Run{
		Sampler:             sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.08, Steps: 64, MinSep: 4, WarmStart: true}},
		Strategy:            &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 64, Toeplitz: []float64{0.8, 0.6}},
		MaxExamplesPerOwner: 1,
	}
	plan, err := calibration.Problem{Run: run, Epsilon: 2, Delta: 1e-3, CodeVersion: "example"}.Plan(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	dir, err := os.MkdirTemp("", "verification")
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
	err = calibration.Release(context.Background(), l, 100_000, draw)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := l.Certificate()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s by %s: noise multiplier below 1.6: %t\n", c.Status, c.Method, c.NoiseMultiplier < 1.6)
	// Output:
	// verified by monte carlo: noise multiplier below 1.6: true
}
