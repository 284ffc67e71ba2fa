package verification

import (
	"errors"
	"testing"
	"time"

	"minsep/accounting/ledger"
	"minsep/sampling"
)

// TestSmallDelta: a δ that no samples and no bounds prove is refused before either is looked for,
// and of one that takes more samples than there may be an outlook says so.
func TestSmallDelta(t *testing.T) {
	var bad *ParamError
	for _, delta := range []float64{1e-300, 0.9 * leastSampled} {
		if _, err := (Problem{Run: smallRun(), Epsilon: 2, Delta: delta}).Outlook(t.Context()); !errors.As(err, &bad) || bad.Param != "delta" || bad.Value != delta {
			t.Errorf("δ = %g: %v", delta, err)
		}
	}
	if err := (Problem{Run: smallRun(), Epsilon: 2, Delta: leastSampled}).Validate(); err != nil {
		t.Error(err)
	}
	if err := (Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-300, NoiseMultiplier: 9}).Validate(); err != nil {
		t.Errorf("a noise multiplier that is given: %v", err)
	}
	var texts []string
	p := Problem{Run: plainRun(), Epsilon: 2, Delta: 1e-30, CPUTime: time.Second, Watch: func(p Phase) { texts = append(texts, p.Text) }}
	o, err := p.Outlook(t.Context())
	if err != nil || !o.Hopeless() || !o.Refused() {
		t.Errorf("%+v, %v", o, err)
	}
	if len(texts) == 0 || texts[0] != "looking for a σ that needs no samples" {
		t.Errorf("told of %q", texts)
	}
}

// TestOutlook: before anything is estimated it is known whether there are samples at all, whether
// the budget is enough for an estimate, and what is enough. What it says is what a plan then does.
func TestOutlook(t *testing.T) {
	several := smallRun()
	several.MaxExamplesPerOwner = 4
	cyclic := smallRun()
	cyclic.Sampler = sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.25, Steps: 64, MinSep: 4}}
	for _, c := range []struct {
		name            string
		p               Problem
		samples, enough bool
		proven, refused bool
	}{
		{"no samples", Problem{Run: cyclic, Delta: 1e-3}, false, false, false, false},
		{"default budget", Problem{Run: smallRun(), Delta: 1e-3}, true, true, true, false},
		{"few samples, with a proof", Problem{Run: smallRun(), Delta: 1e-3, Samples: 10}, true, false, true, false},
		{"plain losses", Problem{Run: plainRun(), Delta: 0.02, Samples: 100_000}, true, true, true, false},
		{"too few plain losses", Problem{Run: plainRun(), Delta: 0.02, Samples: 100}, true, false, true, true},
		{"too few plain losses for one noise multiplier", Problem{Run: plainRun(), Delta: 0.02, NoiseMultiplier: 2, Samples: 100}, true, false, false, true},
		{"plain losses, small delta", Problem{Run: plainRun(), Delta: 1e-9, CPUTime: time.Second}, true, false, true, true},
		{"one noise multiplier", Problem{Run: smallRun(), Delta: 1e-3, NoiseMultiplier: 1.6, Samples: 100_000}, true, true, false, false},
		{"one noise multiplier, few samples", Problem{Run: smallRun(), Delta: 1e-3, NoiseMultiplier: 1.6, Samples: 2}, true, false, false, true},
		{"one noise multiplier, proven", Problem{Run: smallRun(), Delta: 1e-3, NoiseMultiplier: 3, Samples: 2}, true, true, true, false},
		{"several examples, small delta", Problem{Run: several, Delta: 1e-9, Samples: 1000}, true, true, true, false},
	} {
		c.p.Epsilon, c.p.CodeVersion = 2, "test"
		o, err := c.p.Outlook(t.Context())
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if o.Samples != c.samples || o.Enough != c.enough || (o.Proven > 0) != c.proven || o.Refused() != c.refused {
			t.Errorf("%s: %+v", c.name, *o)
		}
		if c.name == "default budget" || c.name == "plain losses, small delta" {
			continue // what follows would take long
		}
		plan, err := c.p.Plan(t.Context())
		if (err != nil) != c.refused {
			t.Errorf("%s: the plan says %v", c.name, err)
		}
		if err == nil && c.name == "few samples, with a proof" {
			l, err := ledger.Create(t.TempDir(), plan.Protocol)
			if err != nil {
				t.Fatal(err)
			}
			if c, err := Finish(t.Context(), l, 1000, 1); err != nil || c.NoiseMultiplier > o.Proven || c.NoiseMultiplier < o.Proven/proofRatio {
				t.Errorf("%v, where %g was said to need no samples: %+v", err, o.Proven, c)
			}
			l.Close()
		}
	}
}
