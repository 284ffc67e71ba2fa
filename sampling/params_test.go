package sampling_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"minsep/internal/must"
	"minsep/internal/param"
	"minsep/sampling"
)

// TestParameters: every field of Params is a parameter, by its name in a plan.
func TestParameters(t *testing.T) {
	for field := range reflect.TypeFor[sampling.Params]().Fields() {
		plan, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Tag.Get("flag") != strings.ReplaceAll(plan, "_", "-") || field.Tag.Get("help") == "" {
			t.Errorf("%s: named %q, with help %q", plan, field.Tag.Get("flag"), field.Tag.Get("help"))
		}
	}
}

// kindParams are parameters of every kind that are without fault for 1000 examples.
var kindParams = map[string]sampling.Params{
	"b-min-sep":      {Steps: 40, MinSep: 4, BatchSize: 100},
	"epoch-min-sep":  {Steps: 40, MinSep: 4, BatchSize: 100},
	"poisson":        {Steps: 40, BatchSize: 100},
	"balls-in-bins":  {Steps: 40, MinSep: 4},
	"cyclic-poisson": {Steps: 40, MinSep: 4, BatchSize: 100},
	"multi-owner":    {Steps: 40, MinSep: 4, BatchSize: 100},
	"fixed":          {Steps: 40, MinSep: 4, BatchSize: 100},
	"rotation":       {Steps: 40, BatchSize: 100},
	"law":            {Steps: 40, Law: tabulated(sampling.Poisson{Prob: 0.1, Steps: 40})},
}

func tabulated(s sampling.Scheme) *sampling.Table {
	t, err := sampling.TableOf(s)
	if err != nil {
		panic(err)
	}
	return t
}

// TestKinds: the parameters of every kind make a scheme of that kind, which JSON holds under the
// kind's name, and which has the batch size that was asked for.
func TestKinds(t *testing.T) {
	population := sampling.Population{Examples: 1000, Neighborhoods: sampling.Neighborhoods{1: 1000}}
	spec := reflect.TypeFor[sampling.Spec]()
	for i := range spec.NumField() {
		name, _, _ := strings.Cut(spec.Field(i).Tag.Get("json"), ",")
		if name != "truncation" && name != "owners" && !slices.Contains(sampling.KindNames(), name) {
			t.Errorf("field %s of Spec has no kind", name)
		}
	}
	for _, kind := range sampling.Kinds {
		p, ok := kindParams[kind.Name]
		if !ok {
			t.Errorf("%s: no case", kind.Name)
			continue
		}
		p.Scheme = kind.Name
		s, err := p.Spec(population)
		if err != nil {
			t.Errorf("%s: %v", kind.Name, err)
			continue
		}
		if s.Scheme().Name() != kind.Name || s.Kind().Name != kind.Name || p.Kind().Name != kind.Name {
			t.Errorf("%s: is called %s", kind.Name, s.Scheme().Name())
		}
		if got := s.ExpectedBatchSize(population); p.BatchSize != 0 && !near(got, p.BatchSize) {
			t.Errorf("%s: batches of %g, want %g", kind.Name, got, p.BatchSize)
		}
		if drawn := s.DrawnPerStep(population); drawn < s.ExpectedBatchSize(population)*(1-1e-12) {
			t.Errorf("%s: %g drawn for batches of %g", kind.Name, drawn, s.ExpectedBatchSize(population))
		}
		b, err := json.Marshal(s)
		var fields map[string]json.RawMessage
		if err != nil || json.Unmarshal(b, &fields) != nil || len(fields) != 1 || fields[kind.Name] == nil {
			t.Errorf("%s: JSON %s, %v", kind.Name, b, err)
		}
		for _, line := range strings.Split(kind.Help, "\n") {
			if line == "" || len(line) > 104 {
				t.Errorf("%s: help of %d columns", kind.Name, len(line))
			}
		}
	}
}

// TestNoKind: what has no scheme has a kind that says nothing, and its faults are reported.
func TestNoKind(t *testing.T) {
	for name, s := range map[string]sampling.Spec{"nothing": {}, "a truncation": {Truncation: &sampling.Truncation{MaxBatchSize: 3}}} {
		if k := s.Kind(); k.Name != "" || k.Owners != sampling.OwnersIgnored {
			t.Errorf("%s: is of kind %q", name, k.Name)
		}
		must.Fail(t, name, "schemes 0: must be exactly 1")(s.Validate())
	}
	if k := (sampling.Params{Scheme: "none"}).Kind(); k.Name != "" {
		t.Errorf("an unknown scheme is of kind %q", k.Name)
	}
}

func near(a, b float64) bool { return a > b*(1-1e-12) && a < b*(1+1e-12) }

// TestWithoutExamples: every kind makes a scheme without a number of examples, with the same
// parameters but for its probability.
func TestWithoutExamples(t *testing.T) {
	for name, p := range kindParams {
		p.Scheme = name
		free := p.WithoutExamples()
		s, err := free.Spec(sampling.Population{})
		if err != nil || s.Scheme().Name() != name {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		free.BatchSize, free.Prob, free.EpochSteps = p.BatchSize, p.Prob, p.EpochSteps
		if free != p {
			t.Errorf("%s: %+v of %+v", name, free, p)
		}
	}
}

// TestParamsRefuse: what each kind refuses, in the words of its rule.
func TestParamsRefuse(t *testing.T) {
	for _, c := range []struct {
		name, scheme string
		change       string // in JSON
		param        string // that is at fault
		rule         string // part of it
	}{
		{"an unknown scheme", "b-min-sep", `{"scheme": "epoch"}`, "scheme", "must be one of b-min-sep, epoch-min-sep, poisson, balls-in-bins, cyclic-poisson, multi-owner, fixed"},
		{"no steps", "fixed", `{"steps": 0}`, "steps", "at least 1"},
		{"poisson with min-sep", "poisson", `{"min_sep": 2}`, "min-sep", "b-min-sep"},
		{"b-min-sep without min-sep", "b-min-sep", `{"min_sep": 0}`, "min-sep", "at least 1"},
		{"no rate", "cyclic-poisson", `{"batch_size": 0}`, "batch size and prob", "one of them must be given"},
		{"two rates", "multi-owner", `{"prob": 0.1}`, "batch size and prob", "only one"},
		{"a rate above 1", "poisson", `{"batch_size": 0, "prob": 1.5}`, "prob", "at most 1"},
		{"a negative batch size", "poisson", `{"batch_size": -1}`, "batch size", "above 0"},
		{"balls-in-bins with a batch size", "balls-in-bins", `{"batch_size": 7}`, "batch size", "left out for balls-in-bins"},
		{"balls-in-bins with a rate", "balls-in-bins", `{"prob": 0.5}`, "prob", "left out for balls-in-bins"},
		{"an epoch with a rate", "epoch-min-sep", `{"prob": 0.5}`, "prob", "left out for epoch-min-sep"},
		{"an epoch twice", "epoch-min-sep", `{"epoch_steps": 9}`, "batch size and epoch steps", "exactly one"},
		{"no epoch", "epoch-min-sep", `{"batch_size": 0}`, "batch size and epoch steps", "exactly one"},
		{"an epoch below min-sep", "epoch-min-sep", `{"batch_size": 0, "epoch_steps": 3}`, "epoch steps", "at least min-sep, 4"},
		{"an epoch of b-min-sep", "b-min-sep", `{"epoch_steps": 9}`, "epoch steps", "is for epoch-min-sep and rotation only"},
		{"rotation with a rate", "rotation", `{"prob": 0.5}`, "prob", "left out for rotation"},
		{"rotation with a distance", "rotation", `{"min_sep": 4}`, "min-sep", "left out for rotation"},
		{"rotation of owners", "rotation", `{"sample": "owners", "examples_per_owner": 2}`, "sample", "is not for rotation"},
		{"rotation without a period", "rotation", `{"batch_size": 0}`, "batch size and epoch steps", "exactly one"},
		{"fixed with a rate", "fixed", `{"prob": 0.5}`, "prob", "left out for fixed"},
		{"half an example", "fixed", `{"batch_size": 1.5}`, "batch size", "whole number"},
		{"cold poisson", "poisson", `{"cold": true}`, "cold", "is for b-min-sep only"},
		{"secret parts of b-min-sep", "b-min-sep", `{"secret_partition": true}`, "secret partition", "is for cyclic-poisson only"},
		{"a bound of b-min-sep", "b-min-sep", `{"max_participations": 2}`, "max participations", "is for fixed only"},
		{"a negative bound", "fixed", `{"max_participations": -2}`, "max participations", "at least 1"},
		{"fixed with a limit", "fixed", `{"max_batch_size": 7}`, "max batch size", "all its batches have one size"},
		{"a negative limit", "poisson", `{"max_batch_size": -7}`, "max batch size", "at least 1"},
		{"padding without a limit", "poisson", `{"pad": true}`, "pad", "fills batches up to the max batch size"},
	} {
		p := kindParams[c.scheme]
		p.Scheme = c.scheme
		must.Do(t, p.Validate())
		must.Do(t, json.Unmarshal([]byte(c.change), &p))
		err := p.Validate()
		var bad *param.Error
		if !errors.As(err, &bad) || bad.Param != c.param || !strings.Contains(bad.Rule, c.rule) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := p.Spec(sampling.Population{Examples: 1000}); err == nil {
			t.Errorf("%s: makes a scheme", c.name)
		}
	}
	cut := sampling.Spec{Fixed: &sampling.Fixed{BatchSize: 3, Steps: 4, MinSep: 1}, Truncation: &sampling.Truncation{MaxBatchSize: 2}}
	must.Fail(t, "fixed batches that are cut", "must not be given with fixed batches")(cut.Validate())
	var infeasible *sampling.InfeasibleError
	p := sampling.Params{Scheme: "b-min-sep", Steps: 40, MinSep: 4, BatchSize: 300}
	if s, err := p.Spec(sampling.Population{Examples: 1000}); !errors.As(err, &infeasible) || !reflect.DeepEqual(s, sampling.Spec{}) {
		t.Errorf("infeasible: %+v, %v", s, err)
	}
}
