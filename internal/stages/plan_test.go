package stages

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/param"
	"minsep/sampling"
)

// TestPaddedEstimate: padded batches have so many rows, whatever is drawn.
func TestPaddedEstimate(t *testing.T) {
	for _, examples := range []string{`"examples": 50000`, `"graph": {"paths": ["none.tsv"]}, "bound": {"max_examples_per_owner": 1}`} {
		text := `{` + examples + `, "scheme": {"scheme": "b-min-sep", "steps": 300, "min_sep": 4, "batch_size": 64, "max_batch_size": 128, "pad": true}, "privacy": {"epsilon": 8, "delta": 1e-3}, "batches": {"shards": 3}}`
		p := must.Get(ParsePlan("plan", []byte(text)))(t)
		e := estimateForm(p)
		if want := int64(4*300*128 + 8*(300+3) + 2*3*headerBytes); e.Rows != 300*128 || e.Bytes != want {
			t.Errorf("%s: %d rows and %d bytes, want %d and %d", examples, e.Rows, e.Bytes, 300*128, want)
		}
	}
}

// TestPaddedFacts: padded batches of owners have entries for all examples that an owner brings.
func TestPaddedFacts(t *testing.T) {
	spec := sampling.Spec{
		Poisson:    &sampling.Poisson{Prob: 0.5, Steps: 8},
		Owners:     &sampling.OwnerSampling{ExamplesPerOwner: 3},
		Truncation: &sampling.Truncation{MaxBatchSize: 4, Pad: true},
	}
	of := sampling.Population{Examples: 30, Owners: sampling.OwnerSizes{3: 10}}
	if f := BatchesFacts(spec, of, 30, 1, manifest.RowsOfBounded); f.BatchSize != 12 || f.Owners != 10 || f.ExpectedExamples != 15 {
		t.Errorf("%+v", f)
	}
}

// TestUnknownFieldsPlaces: a field in a wrong group is told where it belongs.
func TestUnknownFieldsPlaces(t *testing.T) {
	for text, want := range map[string]string{
		`{"batches": {"pad": true}}`:      "batches.pad: unknown field: it is scheme.pad",
		`{"epsilon": 4}`:                  "epsilon: unknown field: it is privacy.epsilon",
		`{"scheme": {"shards": 4}}`:       "scheme.shards: unknown field: it is batches.shards or noise.shards",
		`{"bound": {"examples": 4}}`:      "bound.examples: unknown field: it is examples outside of all groups",
		`{"bound": {"max_per_owner":4}}`:  "bound.max_per_owner: unknown field: it is bound.max_examples_per_owner",
		`{"scheme": {"kind": "poisson"}}`: "scheme.kind: unknown field: it is strategy.kind",
		`{"bound": {"out": "x"}}`:         "bound.out: unknown field: it is out outside of all groups",
		`{"batches": {"padding": 4}}`:     "batches.padding: unknown field: there are shards",
		`{"bound": {"limit": 4}}`:         "bound.limit: unknown field: there are max_examples_per_owner, duplicates",
		`{"nosie": {}}`:                   "nosie: unknown field: there are name, graph, bound, examples, scheme, strategy",
	} {
		must.Fail(t, text, want)(ParsePlan("plan", []byte(text)))
	}
}

// TestPlanText: a byte order mark is not taken for a part of the plan, and no text is not taken for
// a plan.
func TestPlanText(t *testing.T) {
	if p, err := ParsePlan("marked", []byte("\ufeff"+PlanExample)); err != nil || p.Validate() != nil {
		t.Errorf("with a byte order mark: %v, %v", err, p.Validate())
	}
	for _, text := range []string{"", " \n", "\ufeff"} {
		must.Fail(t, text, "empty.json: is empty; minsep run --example")(ParsePlan("empty.json", []byte(text)))
	}
}

func TestProduct(t *testing.T) {
	for _, c := range []struct {
		counts []int64
		want   int64
	}{{nil, 1}, {[]int64{3, 0, 5}, 0}, {[]int64{3, 4, 5}, 60}, {[]int64{1e8, 1 << 48, 4}, 1 << 62}, {[]int64{1 << 31, 1 << 31}, 1 << 62}, {[]int64{1 << 31, 1<<31 - 1}, 1<<62 - 1<<31}} {
		if got := Product(c.counts...); got != c.want {
			t.Errorf("%v: %d, want %d", c.counts, got, c.want)
		}
	}
}

// TestPreflight: what no analysis covers is refused before a strategy is made, also where the
// strategy is dense or of stamps.
func TestPreflight(t *testing.T) {
	const plan = `{"graph": {"paths": ["x.csv"]}, "bound": {"max_examples_per_owner": 2}, "scheme": {"scheme": "b-min-sep", "steps": 8, "min_sep": 2, "prob": 0.1},
		"strategy": {%s}, "privacy": {"epsilon": 1, "delta": 1e-5}, "noise": {"coordinates": 10}, "out": "r"}`
	for strategy, refused := range map[string]bool{
		`"kind": "banded-toeplitz", "bands": 2`:                    false,
		`"kind": "banded-toeplitz", "bands": 3`:                    true,
		`"kind": "dense", "min_sep": 2`:                            true,
		`"kind": "dense", "min_sep": 2, "stamps": 4`:               false,
		`"kind": "toeplitz", "column": [1, 0.5], "stamps": 2`:      false,
		`"kind": "toeplitz", "column": [1, 0.5, 0.2], "stamps": 2`: true,
		`"kind": "toeplitz", "column": [1, -0.5], "stamps": 2`:     true,
	} {
		p, err := ParsePlan("test", []byte(fmt.Sprintf(plan, strategy)))
		if err = errors.Join(err, p.Validate()); err != nil {
			t.Fatalf("%s: %v", strategy, err)
		}
		if err := p.Preflight(); errors.As(err, new(*accounting.RefusedError)) != refused {
			t.Errorf("%s: %v", strategy, err)
		}
	}
}

// The record holds what decides the results, and not where things are.
func TestPlanRecord(t *testing.T) {
	p := must.Get(ParsePlan("example", []byte(PlanExample)))(t)
	a := must.Get(p.Record(nil))(t)
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
	if got := strings.Join(JSONDifferences(a.Plan, b.Plan, "in the plan"), "\n"); got != "privacy.samples is 500000 there, 500001 in the plan" {
		t.Errorf("they differ in %q", got)
	}
}

func FuzzParsePlan(f *testing.F) {
	f.Add([]byte(PlanExample))
	f.Add([]byte(`{"graph": null, "privacy": {"delta": 1, "delta": 2}, "x": 1,}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePlan("fuzz", b)
		p.Validate()
		if err != nil {
			return
		}
		encoded := must.Get(json.Marshal(p))(t)
		again, err := ParsePlan("again", encoded)
		if err != nil {
			t.Fatalf("%s: %v", encoded, err)
		}
		if twice, _ := json.Marshal(again); string(twice) != string(encoded) {
			t.Fatalf("%s became %s", encoded, twice)
		}
	})
}

// TestPlanFaults: every fault is told, whatever else is wrong; what follows from a field that could
// not be read is not.
func TestPlanFaults(t *testing.T) {
	const plan = `{"examples": 100, "scheme": {"scheme": "b-min-sep", "steps": 8, "min_sep": 2, "batch_size": 4},
		"strategy": {"kind": "banded-toeplitz", "bands": 2}, "privacy": {"epsilon": 1, "delta": 1e-5}, "noise": {"coordinates": 10}, "out": "r"}`
	for _, c := range []struct {
		name, old, new string
		want           string // the fields at fault, with bars between them
	}{
		{"nothing", "", "", ""},
		{"shards of two kinds", `"coordinates": 10`, `"coordinates": 10, "shards": -1, "steps_per_file": "x"`, "noise.steps_per_file"},
		{"a misspelt field", `"batch_size": 4`, `"batchsize": 4`, "scheme.batchsize"},
		{"a misspelt field that is required", `"epsilon": 1`, `"eps": 1`, "privacy.eps|privacy.epsilon"},
		{"a misspelt group", `"noise": {`, `"noize": {`, "noize"},
		{"two faults", `"delta": 1e-5}, "noise": {"coordinates": 10}`, `"delta": 2}, "noise": {"coordinates": -1}`, "privacy.delta|noise.coordinates"},
		{"no epsilon", `"epsilon": 1, `, ``, "privacy.epsilon"},
		{"no privacy", `"privacy": {"epsilon": 1, "delta": 1e-5}, `, ``, "privacy.epsilon|privacy.delta"},
		{"epsilon 0", `"epsilon": 1`, `"epsilon": 0`, ""},
		{"zeros", `"examples": 100`, `"examples": 0`, "examples"},
		{"zero samples", `"epsilon": 1`, `"epsilon": 1, "samples": 0`, "privacy.samples"},
		{"zero shards", `"coordinates": 10`, `"coordinates": 10, "shards": 0.0`, "noise.shards"},
		{"a field without a name", `"examples": 100`, `"examples": 100, "": []`, `""`},
		{"two of which one is needed", `"batch_size": 4`, `"batch_size": 4, "prob": 0.5`, "scheme.batch_size, scheme.prob"},
		{"steps beyond every strategy", `"steps": 8`, `"steps": 99999999999999`, "scheme.steps"},
		{"a list for an object", `"noise": {"coordinates": 10}`, `"noise": []`, "noise"},
		{"a number that cannot be held", `"coordinates": 10`, `"coordinates": 1e400`, "noise.coordinates"},
		{"given twice", `"examples": 100`, `"examples": 100, "examples": 200`, "examples"},
		{"no neighbourhood", `"examples": 100`, `"graph": {"paths": ["x.csv"]}, "bound": {"max_examples_per_owner": 1, "max_neighborhood": 0}`, "bound.max_neighborhood"},
		{"a column that is too long", `"kind": "banded-toeplitz", "bands": 2`, `"kind": "toeplitz", "column": [1, 0.5, 0.25], "stamps": 4`, "strategy.column"},
		{"bands of none", `"kind": "banded-toeplitz"`, `"kind": "identity"`, "strategy.bands"},
		{"an unknown field", `"out": "r"`, `"owners": "x", "out": "r"`, "owners"},
		{"none of them", `, "batch_size": 4`, ``, "scheme.batch_size, scheme.prob"},
		{"min-sep of a scheme without one", `"b-min-sep"`, `"poisson"`, "scheme.min_sep"},
	} {
		if !strings.Contains(plan, c.old) {
			t.Fatalf("%s: nothing to replace", c.name)
		}
		p, err := ParsePlan("test", []byte(strings.Replace(plan, c.old, c.new, 1)))
		if err == nil {
			err = p.Validate()
		}
		var got []string
		param.Each(err, func(bad *param.Error) { got = append(got, bad.Field) })
		if want := strings.FieldsFunc(c.want, func(r rune) bool { return r == '|' }); !slices.Equal(got, want) {
			t.Errorf("%s: faults of %q, want of %q:\n%v", c.name, got, c.want, err)
		}
	}
}

// TestDifferencesInALine: a difference of a list is one line, however the files are indented.
func TestDifferencesInALine(t *testing.T) {
	was, want := "{\"a\": {\"list\": [1]}}", "{\n \"a\": {\n  \"list\": [\n   1,\n   2\n  ]\n }\n}"
	if got := JSONDifferences([]byte(was), []byte(want), "in the plan"); !slices.Equal(got, []string{"a.list is [1] there, [1,2] in the plan"}) {
		t.Errorf("%q", got)
	}
}

// TestWithFields: flags in a sentence become fields of a plan, but for those of minsep run itself,
// and nothing in a name of a file does.
func TestWithFields(t *testing.T) {
	for text, want := range map[string]string{
		"set --delimiter ';' or --id-type string": "set graph.delimiter ';' or graph.id_type string",
		"--graph a--steps.csv: is empty":          "graph.paths a--steps.csv: is empty",
		"--cpu-time 8m or more (or --samples 3)":  "privacy.cpu_time 8m or more (or privacy.samples 3)",
		"a smaller --max-per-owner, --min-sep":    "a smaller bound.max_examples_per_owner, scheme.min_sep",
		"give another --out, or --again NEW":      "give another --out, or --again NEW",
	} {
		if got := WithFields(text); got != want {
			t.Errorf("%q became %q, not %q", text, got, want)
		}
	}
}
