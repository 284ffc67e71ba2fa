package accounting

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"minsep/internal/accounting/pld"
	"minsep/internal/must"
	"minsep/mechanism"
	"minsep/sampling"
)

func banded(steps, bands int) *mechanism.Strategy {
	c := make([]float64, bands)
	for i := range c {
		c[i] = math.Pow(0.5, float64(i))
	}
	return &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: c}
}

// TestMethodsThatAreRefused: what no analysis covers, beside the tables of docs/schemes.md, and a run
// that is calibrated: it is proven at δ, and hardly with less noise.
func TestMethodsThatAreRefused(t *testing.T) {
	multi := sampling.Spec{MultiOwner: &sampling.MultiOwner{Prob: 0.1, Steps: 32, MinSep: 4}, Truncation: &sampling.Truncation{MaxBatchSize: 50}}
	rotation := sampling.Spec{Rotation: &sampling.Rotation{Steps: 32, EpochSteps: 8}}
	poisson := Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.1, Steps: 32}}, Strategy: mechanism.Identity(32), MaxExamplesPerOwner: 1}
	var refused *RefusedError
	for want, r := range map[string]Run{
		"":                               {Sampler: multi, Strategy: banded(32, 4), MaxExamplesPerOwner: 1, Examples: 1000},
		"has 10 bands, epoch-steps is 8": {Sampler: rotation, Strategy: banded(32, 10), MaxExamplesPerOwner: 1},
		"leave out max per":              {Sampler: rotation, Strategy: mechanism.Identity(32), MaxExamplesPerOwner: 2},
	} {
		if _, err := r.Method(); !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for _, r := range []Run{
		poisson,
		{Sampler: sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.1, Steps: 32, MinSep: 4}}, Strategy: banded(32, 4), MaxExamplesPerOwner: 1},
		{Sampler: sampling.Spec{Fixed: &sampling.Fixed{BatchSize: 10, Steps: 32, MinSep: 4}}, Strategy: banded(32, 8), MaxExamplesPerOwner: 1},
	} {
		sigma := must.Get(r.Calibrate(t.Context(), 1, 1e-3))(t)
		pq, qp, _ := r.Prove(sigma, 1)
		if d := max(pq, qp); d > 1e-3 || d < 0.999e-3 {
			t.Errorf("%+v: calibrated to %g, where δ is %g", r.Sampler, sigma, d)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := poisson.Calibrate(stopped, 1, 1e-3); !errors.Is(err, context.Canceled) {
		t.Errorf("a search that was stopped: %v", err)
	}
	var pe *ParamError
	if _, err := (Run{Sampler: poisson.Sampler, Strategy: banded(31, 4)}).Method(); !errors.As(err, &pe) {
		t.Errorf("wrong steps and no k_u: %v", err)
	}
}

// TestNormalizedColumns: a normalised strategy is accounted for with columns of norm 1, whatever it
// is held by.
func TestNormalizedColumns(t *testing.T) {
	for name, sampler := range map[string]sampling.Spec{
		"poisson": {Poisson: &sampling.Poisson{Prob: 0.1, Steps: 32}},
		"cyclic":  {CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.1, Steps: 32, MinSep: 4}},
	} {
		var deltas [2]float64
		for i, s := range []*mechanism.Strategy{mechanism.Identity(32), {Kind: mechanism.KindToeplitz, Steps: 32, Toeplitz: []float64{0.25}, Normalized: true}} {
			pq, qp, err := Run{Sampler: sampler, Strategy: s, MaxExamplesPerOwner: 1}.Prove(1, 1)
			if err != nil {
				t.Fatal(err)
			}
			deltas[i] = max(pq, qp)
		}
		if deltas[0] != deltas[1] || deltas[0] == 0 {
			t.Errorf("%s: δ = %g for the identity, %g for its multiple, normalised", name, deltas[0], deltas[1])
		}
	}
}

// TestEventsComposeToTheProof: the events by which runs are composed with others give the run's own
// proof, where it has one and cuts no batches.
func TestEventsComposeToTheProof(t *testing.T) {
	const sigma = 1.3
	cut := sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.1, Steps: 32}, Truncation: &sampling.Truncation{MaxBatchSize: 40}}
	for name, c := range map[string]struct {
		run  Run
		none bool
	}{
		"poisson":      {Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.1, Steps: 32}}, Strategy: mechanism.Identity(32), MaxExamplesPerOwner: 3}, false},
		"public parts": {Run{Sampler: sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.3, Steps: 30, MinSep: 4}}, Strategy: banded(30, 4), MaxExamplesPerOwner: 1}, false},
		"fixed":        {Run{Sampler: sampling.Spec{Fixed: &sampling.Fixed{BatchSize: 10, Steps: 32, MinSep: 8}}, Strategy: banded(32, 4), MaxExamplesPerOwner: 1}, false},
		"a maximum":    {Run{Sampler: cut, Strategy: mechanism.Identity(32), MaxExamplesPerOwner: 1, Examples: 300}, true},
		"samples":      {Run{Sampler: sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 32, MinSep: 4}}, Strategy: banded(32, 4), MaxExamplesPerOwner: 1}, true},
		"secret parts": {Run{Sampler: sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.1, Steps: 32, MinSep: 4, SecretPartition: true}}, Strategy: banded(32, 4), MaxExamplesPerOwner: 1}, true},
		"of any sign":  {Run{Sampler: sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.1, Steps: 32, MinSep: 4}}, Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 32, Toeplitz: []float64{1, -0.5}}, MaxExamplesPerOwner: 1}, false},
	} {
		events, err := c.run.Events(sigma)
		if errors.Is(err, ErrNoProof) != c.none || !c.none && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.none {
			continue
		}
		together := must.Get(pld.Compose(events, pld.Options{}))(t)
		for _, epsilon := range []float64{0.2, 1, 3} {
			pq, qp, err := c.run.Prove(sigma, epsilon)
			if err != nil {
				t.Fatal(err)
			}
			got, err := together.Delta(epsilon)
			if want := max(pq, qp); err != nil || got < want*(1-1e-6) || got > want*(1+1e-3)+1e-18 {
				t.Errorf("%s, ε = %g: the events have δ = %g, %v; the proof has %g", name, epsilon, got, err, want)
			}
		}
	}
}
