package accounting

import (
	"context"
	"errors"
	"math"
	"testing"

	"minsep/internal/accounting/pld"
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

// TestMethodTable is the table of schemes: what is exact or bounded, and by what, and what is
// refused.
func TestMethodTable(t *testing.T) {
	cut := &sampling.Truncation{MaxBatchSize: 50}
	negative := &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 32, Toeplitz: []float64{1, -0.5}}
	bMinSep := sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 32, MinSep: 4, WarmStart: true}}
	poisson := sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.1, Steps: 32}}
	bins := sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 32, Period: 8}}
	cyclic := sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.1, Steps: 32, MinSep: 4}}
	secret := sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.1, Steps: 32, MinSep: 4, SecretPartition: true}}
	multi := sampling.Spec{MultiOwner: &sampling.MultiOwner{Prob: 0.1, Steps: 32, MinSep: 4}}
	fixed := sampling.Spec{Fixed: &sampling.Fixed{BatchSize: 10, Steps: 32, MinSep: 4}}
	rotation := sampling.Spec{Rotation: &sampling.Rotation{Steps: 32, EpochSteps: 8}}
	with := func(s sampling.Spec) sampling.Spec { s.Truncation = cut; return s }
	for _, c := range []struct {
		name     string
		sampler  sampling.Spec
		strategy *mechanism.Strategy
		owners   int
		want     Method // "": refused
	}{
		{"b-min-sep", bMinSep, banded(32, 4), 1, MonteCarlo},
		{"b-min-sep k_u = 3", bMinSep, banded(32, 4), 3, MonteCarlo},
		{"b-min-sep bands > b", bMinSep, banded(32, 6), 1, MonteCarlo},
		{"b-min-sep bands > b, k_u = 2", bMinSep, banded(32, 6), 2, ""},
		{"b-min-sep truncated", with(bMinSep), banded(32, 4), 1, MonteCarlo},
		{"b-min-sep truncated k_u = 2", with(bMinSep), banded(32, 4), 2, MonteCarlo},
		{"b-min-sep truncated bands > b", with(bMinSep), banded(32, 5), 1, MonteCarlo},
		{"b-min-sep negative", bMinSep, negative, 1, ""},
		{"poisson", poisson, mechanism.Identity(32), 1, PLD},
		{"poisson k_u = 4", poisson, mechanism.Identity(32), 4, PLD},
		{"poisson truncated", with(poisson), mechanism.Identity(32), 1, PLD},
		{"poisson bands > 1", poisson, banded(32, 2), 1, MonteCarlo},
		{"poisson bands > 1, truncated", with(poisson), banded(32, 2), 1, MonteCarlo},
		{"poisson truncated k_u = 4", with(poisson), mechanism.Identity(32), 4, PLD},
		{"poisson bands > 1, k_u = 2", poisson, banded(32, 2), 2, ""},
		{"balls-in-bins", bins, banded(32, 20), 1, MonteCarlo},
		{"balls-in-bins k_u = 2", bins, banded(32, 4), 2, ""},
		{"balls-in-bins truncated", with(bins), banded(32, 4), 1, MonteCarlo},
		{"cyclic", cyclic, banded(32, 4), 1, PLD},
		{"cyclic truncated", with(cyclic), banded(32, 4), 1, PLD},
		{"cyclic secret parts", secret, banded(32, 4), 1, MonteCarlo},
		{"cyclic secret parts negative", secret, negative, 1, PLD},
		{"cyclic secret parts truncated", with(secret), banded(32, 4), 1, MonteCarlo},
		{"cyclic bands > b", cyclic, banded(32, 5), 1, ""},
		{"cyclic k_u = 2", cyclic, banded(32, 4), 2, ""},
		{"multi-owner", multi, banded(32, 4), 2, Unproven},
		{"multi-owner bands > b", multi, banded(32, 5), 2, ""},
		{"multi-owner truncated", with(multi), banded(32, 4), 1, ""},
		{"rotation", rotation, banded(32, 4), 1, MonteCarlo},
		{"rotation truncated", with(rotation), banded(32, 4), 1, MonteCarlo},
		{"rotation, independent noise, truncated", with(rotation), mechanism.Identity(32), 1, PLD},
		{"fixed", fixed, banded(32, 8), 1, ClosedForm},
		{"fixed owners", fixed, negative, 5, ClosedForm},
	} {
		r := Run{Sampler: c.sampler, Strategy: c.strategy, MaxExamplesPerOwner: c.owners, Examples: 1000}
		got, err := r.Method()
		var refused *RefusedError
		switch {
		case got != c.want:
			t.Errorf("%s: %q, want %q (%v)", c.name, got, c.want, err)
		case c.want == "" && !errors.As(err, &refused):
			t.Errorf("%s: got %v, want a RefusedError", c.name, err)
		case c.want == MonteCarlo || c.want == Unproven:
			if err := r.Loss(1).Validate(); err != nil {
				t.Errorf("%s: its loss is refused: %v", c.name, err)
			}
			if cut := c.sampler.Truncation != nil; r.TruncatedPair() == cut && c.want == MonteCarlo {
				t.Errorf("%s: a pair of its own: %t", c.name, cut)
			}
		case c.want == PLD || c.want == ClosedForm:
			if !r.TruncatedPair() {
				if _, _, err := r.Prove(2, 1); !errors.As(err, &refused) {
					t.Errorf("%s: a proof without a pair: %v", c.name, err)
				}
				r = r.Untruncated()
			}
			if pq, qp, err := r.Prove(2, 1); err != nil || !(pq.Upper > 0 && pq.Upper < 1 && qp.Upper > 0 && pq.Lower <= pq.Upper) {
				t.Errorf("%s: %v %v %v", c.name, pq, qp, err)
			}
			if c.name != "poisson" && c.name != "cyclic" && c.name != "fixed" {
				continue
			}
			sigma, err := r.Calibrate(t.Context(), 1, 1e-3)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			enough, other, _ := r.Prove(sigma.Upper, 1)
			if d := max(enough.Upper, other.Upper); d > 1e-3 || d < 0.999e-3 {
				t.Errorf("%s: calibrated to %g, where δ is %g", c.name, sigma.Upper, d)
			}
		}
	}
	independent := Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: .1, Steps: 32}}, Strategy: mechanism.Identity(32), MaxExamplesPerOwner: 1}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := independent.Calibrate(stopped, 1, 1e-3); !errors.Is(err, context.Canceled) {
		t.Errorf("a search that was stopped: %v", err)
	}
	var pe *ParamError
	if _, err := (Run{Sampler: bMinSep, Strategy: banded(31, 4)}).Method(); !errors.As(err, &pe) {
		t.Errorf("wrong steps and no k_u: %v", err)
	}
}

// TestProveAgrees: the same mechanism by different routes.
func TestProveAgrees(t *testing.T) {
	const sigma, epsilon = 1.3, 1.0
	// Cyclic Poisson with one part is Poisson.
	a := Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.1, Steps: 20}}, Strategy: mechanism.Identity(20), MaxExamplesPerOwner: 1}
	b := a
	b.Sampler = sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.1, Steps: 20, MinSep: 1}}
	x, _, err := a.Prove(sigma, epsilon)
	if err != nil {
		t.Fatal(err)
	}
	y, _, err := b.Prove(sigma, epsilon)
	if err != nil || x != y {
		t.Errorf("poisson %v, cyclic with one part %v, %v", x, y, err)
	}
	// Certain participation once every 4 steps, 5 times, is the fixed scheme at its most.
	strategy := banded(20, 4)
	c := Run{Sampler: sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 1, Steps: 20, MinSep: 4}}, Strategy: strategy, MaxExamplesPerOwner: 1}
	d := Run{Sampler: sampling.Spec{Fixed: &sampling.Fixed{BatchSize: 7, Steps: 20, MinSep: 4}}, Strategy: strategy, MaxExamplesPerOwner: 1}
	cyclic, _, err := c.Prove(3, epsilon)
	if err != nil {
		t.Fatal(err)
	}
	fixed, _, err := d.Prove(3, epsilon)
	if err != nil || cyclic.Lower > fixed.Upper || cyclic.Upper < fixed.Lower || cyclic.Upper > fixed.Upper*(1+1e-3) {
		t.Errorf("cyclic with certainty %v, fixed %v, %v", cyclic, fixed, err)
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
			deltas[i] = max(pq.Upper, qp.Upper)
		}
		if deltas[0] != deltas[1] || deltas[0] == 0 {
			t.Errorf("%s: δ = %g for the identity, %g for its multiple, normalised", name, deltas[0], deltas[1])
		}
	}
}

// TestEveryKindHasAnAnalysis: a scheme that can be chosen is accounted for by an analysis of its
// own, which has what its method needs.
func TestEveryKindHasAnAnalysis(t *testing.T) {
	of := sampling.Population{Examples: 1000, Neighborhoods: sampling.Neighborhoods{1: 1000}}
	for _, kind := range sampling.Kinds {
		p := sampling.Params{Scheme: kind.Name, Steps: 8, MinSep: 2, BatchSize: 10}
		switch kind.Name {
		case "poisson":
			p.MinSep = 0
		case "balls-in-bins":
			p.BatchSize = 0
		case "rotation":
			p.MinSep = 0
		}
		s, err := p.Spec(of)
		if err != nil {
			t.Errorf("%s: %v: teach this test its parameters", kind.Name, err)
			continue
		}
		r := Run{Sampler: s, Strategy: mechanism.Identity(8), MaxExamplesPerOwner: 1, Examples: 1000}
		method, err := r.Method()
		if err != nil {
			t.Errorf("%s: %v", kind.Name, err)
		}
		a := r.analysis()
		hasLoss := r.Loss(1).Validate() == nil
		_, hasEvents := a.(eventAnalysis)
		_, hasSensitivity := a.(boundedAnalysis)
		if ok := map[Method]bool{MonteCarlo: hasLoss && (hasSensitivity || r.Majorized()), Unproven: hasLoss, PLD: hasEvents && hasLoss, ClosedForm: hasSensitivity}[method]; !ok {
			t.Errorf("%s: nothing for the method %q", kind.Name, method)
		}
	}
	r := Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.1, Steps: 8}}, Strategy: mechanism.Identity(8), MaxExamplesPerOwner: 1}
	analyse := analyses["poisson"]
	delete(analyses, "poisson")
	defer func() { analyses["poisson"] = analyse }()
	var refused *RefusedError
	if method, err := r.Method(); !errors.As(err, &refused) || refused.Scheme != "poisson" || method != "" {
		t.Errorf("without an analysis: %q, %v", method, err)
	}
	if _, _, err := r.Prove(1, 1); !errors.As(err, &refused) {
		t.Errorf("proof without an analysis: %v", err)
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
		together, err := pld.Together([]pld.Training{{Events: events, Count: 1}})
		if err != nil {
			t.Fatal(err)
		}
		for _, epsilon := range []float64{0.2, 1, 3} {
			pq, qp, err := c.run.Prove(sigma, epsilon)
			if err != nil {
				t.Fatal(err)
			}
			got, err := together.UpperDelta(epsilon)
			if want := max(pq.Upper, qp.Upper); err != nil || got < max(pq.Lower, qp.Lower) || got > want*(1+1e-3)+1e-18 {
				t.Errorf("%s, ε = %g: the events have δ = %g, %v; the proof has %g", name, epsilon, got, err, want)
			}
		}
	}
}
