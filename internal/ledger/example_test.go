package ledger_test

import (
	"fmt"
	"os"

	"minsep/internal/accounting"
	"minsep/internal/ledger"
	"minsep/internal/montecarlo"
	"minsep/mechanism"
	"minsep/sampling"
)

// A verification of 30000 samples in units of 10000, one of which is done before the program ends.
func Example() {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	protocol := &accounting.Protocol{
		Format: 1, CodeVersion: "example", KernelID: "portable",
		Run: accounting.Run{
			Sampler:             sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 64, MinSep: 4, WarmStart: true}},
			Strategy:            mechanism.Identity(64),
			MaxExamplesPerOwner: 1,
		},
		Points: []accounting.Point{{Epsilon: 1, Delta: 0.01, Thresholds: accounting.Thresholds{Accept: 0.005, Verify: 0.0099, FailureProbability: 1e-9}}},
		Candidates: []accounting.Candidate{{NoiseMultiplier: 2, Trials: []accounting.Trial{
			{Direction: "P", Method: accounting.MonteCarlo, Bound: 1, Samples: 30000},
			{Direction: "Q", Method: accounting.RenyiBound, Bound: 0.004},
		}}},
	}
	for range 2 { // the second time it resumes
		l, err := ledger.Create(dir, protocol)
		if err != nil {
			fmt.Println(err)
			return
		}
		missing := l.Missing(0, 10000)
		fmt.Println(len(missing), "units missing")
		if err := l.AddAll([]ledger.Entry{{Unit: missing[0], Result: ledger.Result{Sums: make([]montecarlo.Sum, 40)}}}); err != nil {
			fmt.Println(err)
			return
		}
		l.Close()
	}
	// Output:
	// 3 units missing
	// 2 units missing
}
