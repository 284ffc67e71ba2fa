package pipelines

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestWithoutComments(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"a": 1}`, `{"a": 1}`},
		{"{\"a\": 1 // one,\n}", "{\"a\": 1        \n}"},
		{`{"a": [1, 2, ], }`, `{"a": [1, 2  ]  }`},
		{"[1, // \"two\"\n ]", "[1          \n ]"},
		{`{"http://a,]": "\"//,}", "b": "\\",}`, `{"http://a,]": "\"//,}", "b": "\\" }`},
		{`[1,,]`, `[1, ]`}, // one comma is forgiven, two are not
		{`[,]`, `[ ]`},
		{`"open`, `"open`},
		{`"\`, `"\`},
		{`a / b`, `a / b`},
	} {
		if got := string(withoutComments([]byte(c.in))); got != c.want {
			t.Errorf("%q became %q, want %q", c.in, got, c.want)
		}
	}
}

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
	a, err := p.record(nil)
	if err != nil {
		t.Fatal(err)
	}
	moved := p
	moved.Key, moved.Out, moved.Graph = "other-key", "other-out", &PlanGraph{Paths: []string{"other.tsv"}}
	if b, err := moved.record(nil); err != nil || b.SHA256 != a.SHA256 {
		t.Errorf("a plan that was moved has another hash (%v)", err)
	}
	p.Privacy.Samples++
	b, err := p.record(nil)
	if err != nil || b.SHA256 == a.SHA256 {
		t.Errorf("a plan with other samples has the same hash (%v)", err)
	}
	if got := strings.Join(jsonDifferences(a.Plan, b.Plan), "\n"); got != "privacy.samples is 100000 there, 100001 in the plan" {
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
