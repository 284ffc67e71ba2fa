package stages

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"minsep/internal/param"
)

func TestPlanExampleIsAPlan(t *testing.T) {
	p, err := ParsePlan("example", []byte(PlanExample))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
}

// The record holds what decides the results, and not where things are.
func TestPlanRecord(t *testing.T) {
	p, err := ParsePlan("example", []byte(PlanExample))
	if err != nil {
		t.Fatal(err)
	}
	a, err := p.Record(nil)
	if err != nil {
		t.Fatal(err)
	}
	moved := p
	moved.Key, moved.Out, moved.Graph = "other-key", "other-out", &PlanGraph{Paths: []string{"other.tsv"}}
	if b, err := moved.Record(nil); err != nil || b.SHA256 != a.SHA256 {
		t.Errorf("a plan that was moved has another hash (%v)", err)
	}
	p.Privacy.Samples++
	b, err := p.Record(nil)
	if err != nil || b.SHA256 == a.SHA256 {
		t.Errorf("a plan with other samples has the same hash (%v)", err)
	}
	if got := strings.Join(JSONDifferences(a.Plan, b.Plan), "\n"); got != "privacy.samples is 100000 there, 100001 in the plan" {
		t.Errorf("they differ in %q", got)
	}
}

func FuzzParsePlan(f *testing.F) {
	f.Add([]byte(PlanExample))
	f.Add([]byte(`{"graph": null, "privacy": {"delta": 1, "delta": 2}, "x": 1,}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePlan("fuzz", b)
		if err != nil || p.unread != nil {
			p.Validate()
			return
		}
		encoded, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParsePlan("again", encoded)
		if err != nil {
			t.Fatalf("%s: %v", encoded, err)
		}
		if twice, _ := json.Marshal(again); string(twice) != string(encoded) {
			t.Fatalf("%s became %s", encoded, twice)
		}
	})
}

// TestPlanFaults: every fault is told, whatever else is wrong; what follows from a field that could not be read is not.
func TestPlanFaults(t *testing.T) {
	const plan = `{"examples": 100, "scheme": {"scheme": "b-min-sep", "steps": 8, "min_sep": 2, "batch_size": 4},
		"strategy": {"kind": "banded-toeplitz", "bands": 2}, "privacy": {"epsilon": 1, "delta": 1e-5}, "noise": {"coordinates": 10}, "out": "r"}`
	for _, c := range []struct {
		name, old, new string
		want           []string // the fields at fault
	}{
		{"nothing", "", "", nil},
		{"shards of two kinds", `"coordinates": 10`, `"coordinates": 10, "shards": -1, "steps_per_file": "x"`, []string{"noise.steps_per_file", "noise.shards"}},
		{"a field of the same words", `"steps": 8`, `"steps": 0, "step": 1`, []string{"scheme.step", "scheme.steps"}},
		{"four faults", `"delta": 1e-5}, "noise": {"coordinates": 10}`, `"delta": 2, "sample": 3}, "noise": {"coordinates": -1, "coordinate": 2}`,
			[]string{"privacy.sample", "noise.coordinate", "privacy.delta", "noise.coordinates"}},
		{"no epsilon", `"epsilon": 1, `, ``, []string{"privacy.epsilon"}},
		{"no privacy", `"privacy": {"epsilon": 1, "delta": 1e-5}, `, ``, []string{"privacy.epsilon", "privacy.delta"}},
		{"epsilon 0", `"epsilon": 1`, `"epsilon": 0`, nil},
		{"zeros", `"examples": 100`, `"examples": 0`, []string{"examples"}},
		{"zero samples", `"epsilon": 1`, `"epsilon": 1, "samples": 0`, []string{"privacy.samples"}},
		{"zero shards", `"coordinates": 10`, `"coordinates": 10, "shards": 0.0`, []string{"noise.shards"}},
		{"a field without a name", `"examples": 100`, `"examples": 100, "": []`, []string{`""`}},
		{"two of which one is needed", `"batch_size": 4`, `"batch_size": 4, "prob": 0.5`, []string{"scheme.batch_size, scheme.prob"}},
		{"none of them", `, "batch_size": 4`, ``, []string{"scheme.batch_size, scheme.prob"}},
		{"min-sep of a scheme without one", `"b-min-sep"`, `"poisson"`, []string{"scheme.min_sep"}},
	} {
		if !strings.Contains(plan, c.old) {
			t.Fatalf("%s: nothing to replace", c.name)
		}
		p, err := ParsePlan("test", []byte(strings.Replace(plan, c.old, c.new, 1)))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		param.Each(p.Validate(), func(bad *param.Error) { got = append(got, bad.Field) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: faults of %q, want of %q:\n%v", c.name, got, c.want, p.Validate())
		}
	}
}
