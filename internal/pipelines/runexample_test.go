package pipelines_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"minsep/internal/pipelines"
	"minsep/internal/stages"
	"minsep/internal/stream"
)

// A plan without a graph, up to the certificate: its scheme has no amplification, so that nothing
// is sampled.
func ExampleRunPlan() {
	dir, err := os.MkdirTemp("", "run")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	key := filepath.Join(dir, "key")
	if err := stream.CreateKeyFile(key); err != nil {
		fmt.Println(err)
		return
	}
	plan, err := stages.ParsePlan("plan.json", []byte(`{
		"examples": 1000,
		"scheme": {"scheme": "fixed", "steps": 64, "min_sep": 16, "batch_size": 20},
		"strategy": {"kind": "banded-toeplitz", "bands": 4},
		"privacy": {"epsilon": 2, "delta": 1e-5},
		"noise": {"coordinates": 10},
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	options := pipelines.Options{KeyFile: key, Out: filepath.Join(dir, "run")}
	ran, err := pipelines.RunPlan(context.Background(), plan, options, pipelines.Settings{Until: "account"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range ran.Stages {
		fmt.Println(s.Stage, s.State)
	}
	fmt.Printf("%s at noise multiplier %.3f\n", ran.Status, ran.NoiseMultiplier)
	// Output:
	// strategy done
	// account done
	// verified at noise multiplier 3.988
}
