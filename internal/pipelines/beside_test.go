package pipelines_test

import (
	"testing"

	"minsep/internal/pipelines"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestBeside: a plan whose certificate is worse than DP-SGD says so when it makes the certificate,
// by its own workload, and a plan of DP-SGD itself says nothing.
func TestBeside(t *testing.T) {
	d := newDirectory(t)
	if r := d.must(d.run(t.Context(), 40, pipelines.Settings{Until: "account"})); r.Beside != nil || r.WithoutSamples {
		t.Errorf("DP-SGD: %+v", r)
	}
	var ratios []float64
	for _, momentum := range []float64{0, .9} {
		d := newDirectory(t)
		p := d.plan(40)
		p.Scheme = sampling.Params{Scheme: "fixed", Steps: 12, MinSep: 4, BatchSize: 2}
		p.Strategy = mechanism.Params{Kind: "banded-toeplitz", Steps: 12, Bands: 2}
		p.Strategy.Momentum = momentum
		how := pipelines.Settings{Until: "account"}
		r := d.must(pipelines.RunPlan(t.Context(), p, pipelines.Options{}, how))
		if r.Beside == nil || r.Beside.Ratio <= 1 || r.WithoutSamples {
			t.Fatalf("momentum %v: %+v", momentum, r)
		}
		ratios = append(ratios, r.Beside.Ratio)
		if r := d.must(pipelines.RunPlan(t.Context(), p, pipelines.Options{}, how)); r.Beside != nil {
			t.Errorf("momentum %v, skipped: %+v", momentum, r.Beside)
		}
	}
	if ratios[0] == ratios[1] {
		t.Error("the workload does not matter")
	}
}
