package mechanism_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/mat"

	"minsep/internal/must"
	"minsep/internal/param"
	"minsep/mechanism"
)

// samples are small strategies in every representation, normalised and not.
func samples() []*mechanism.Strategy {
	const n = 9
	plain := []*mechanism.Strategy{
		mechanism.Identity(n),
		{Kind: mechanism.KindToeplitz, Steps: n, Toeplitz: []float64{1.5, .5, 0, .25}},
		{Kind: mechanism.KindBISR, Steps: n, InverseToeplitz: []float64{1, -.5, -.125}},
		{Kind: mechanism.KindBLT, Steps: n, BLT: &mechanism.BLT{Scales: []float64{.3, .2}, Decays: []float64{.9, .5}}},
		{Kind: mechanism.KindBanded, Steps: n, Columns: [][]float64{{1, .5}, {.7, .1, .2}, {1}, {2, .3, .4}, {1, .5}, {1}, {.9, .2}, {1, 1}, {3}}},
	}
	var all []*mechanism.Strategy
	for _, s := range plain {
		t := *s
		t.Normalized = true
		all = append(all, s, &t)
	}
	return all
}

// matrix builds C from its columns.
func matrix(s *mechanism.Strategy) *mat.Dense {
	c := mat.NewDense(s.Steps, s.Steps, nil)
	for i := range s.Steps {
		for j, v := range s.Column(nil, i) {
			c.Set(i+j, i, v)
		}
	}
	return c
}

func TestViewsAgree(t *testing.T) {
	for _, s := range samples() {
		must.Do(t, s.Validate())
		n := s.Steps
		c := matrix(s)
		norms := s.ColumnNorms()
		for i := range n {
			column := s.Column(nil, i)
			if want := min(s.Bands(), n-i); len(column) != want {
				t.Errorf("%s: column %d has %d entries, want %d", s.Kind, i, len(column), want)
			}
			norm := mat.Norm(c.ColView(i), 2)
			if s.Normalized && math.Abs(norm-1) > 1e-14 || !s.Normalized && math.Abs(norm-norms[i]) > 1e-14 {
				t.Errorf("%s normalised=%v: column %d has norm %v, ColumnNorms says %v", s.Kind, s.Normalized, i, norm, norms[i])
			}
			unit := make([]float64, n)
			unit[i] = 1
			product, solved := s.Multiply(unit), s.Solve(s.Multiply(unit))
			for j := range n {
				if math.Abs(product[j]-c.At(j, i)) > 1e-14 {
					t.Errorf("%s normalised=%v: (C e_%d)[%d] = %v, want %v", s.Kind, s.Normalized, i, j, product[j], c.At(j, i))
				}
				if math.Abs(solved[j]-unit[j]) > 1e-13 {
					t.Errorf("%s normalised=%v: (C⁻¹C e_%d)[%d] = %v", s.Kind, s.Normalized, i, j, solved[j])
				}
			}
		}
	}
}

func TestJSONRoundTrip(t *testing.T) {
	for _, s := range samples() {
		if s.Toeplitz != nil {
			s.Toeplitz[0] = 1 + math.Pi*1e-10 // many digits
		}
		data := must.Get(json.Marshal(s))(t)
		back, err := mechanism.ReadStrategy(strings.NewReader(string(data)))
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if diff := cmp.Diff(s, back); diff != "" {
			t.Errorf("%s:\n%s", data, diff)
		}
	}
}

func TestReadStrategyRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"version":2,"kind":"identity","steps":1,"toeplitz":[1]}`:           "version 2",
		`{"kind":"identity","steps":1,"toeplitz":[1]}`:                       "version 0",
		`{"version":1,"kind":"identity","steps":1,"toeplitz":[1],"sigma":1}`: "unknown field",
		`{"version":1,"kind":"identity","steps":1,"toeplitz":[1]} x`:         "invalid character",
		"\x8fkey": "strategy: not JSON: it begins with neither { nor [",
		`{"version":1,"kind":"magic","steps":1,"toeplitz":[1]}`:                            "known kind",
		`{"version":1,"kind":"toeplitz","steps":1,"toeplitz":[1,2]}`:                       "must have 1",
		`{"version":1,"kind":"toeplitz","steps":3,"toeplitz":[0,2]}`:                       "above 0",
		`{"version":1,"kind":"toeplitz","steps":3,"toeplitz":[1e999]}`:                     "1e999",
		`{"version":1,"kind":"toeplitz","steps":1e40,"toeplitz":[1]}`:                      "strategy: steps must be a whole number in digits, not 1e40",
		`{"version":1,"kind":"blt","steps":3,"blt":{"scales":"x"}}`:                        "strategy: blt.scales must be a list",
		`{"version":"a","kind":"blt","steps":3}`:                                           "strategy: version must be a whole number in digits, not string",
		`[]`:                                                                               "strategy: must be an object, not array",
		`{"version":1,"kind":"toeplitz","steps":3000000000,"toeplitz":[1]}`:                "must be 1 to 16777216",
		`{"version":1,"kind":"toeplitz","steps":3}`:                                        "exactly one",
		`{"version":1,"kind":"toeplitz","steps":3,"toeplitz":[1],"columns":[[1],[1],[1]]}`: "exactly one",
		`{"version":1,"kind":"dense","steps":3,"columns":[[1],[1],[1,1]]}`:                 "must have 1",
		`{"version":1,"kind":"dense","steps":3,"columns":[[1],[1]]}`:                       "as many as the steps",
		`{"version":1,"kind":"blt","steps":3,"blt":{"scales":[1],"decays":[1]}}`:           "[0, 1)",
		`{"version":1,"kind":"blt","steps":3,"blt":{"scales":[1],"decays":[]}}`:            "must have 0",
		`{"version":1,"kind":"toeplitz","steps":200,"toeplitz":[1,3]}`:                     "unstable",
		`{"version":1,"kind":"bisr","steps":200,"inverse_toeplitz":[1,3]}`:                 "unstable",
	} {
		_, err := mechanism.ReadStrategy(strings.NewReader(text))
		must.Fail(t, text, want)(err)
	}
}

func TestValidateReportsEveryFault(t *testing.T) {
	s := &mechanism.Strategy{Kind: "dense", Steps: 2, Columns: [][]float64{{-1, math.NaN()}, {0}}}
	err := s.Validate()
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("want three faults, got %v", err)
	}
	var fault *param.Error
	if !errors.As(err, &fault) {
		t.Errorf("%v holds no ParamError", err)
	}
}

func FuzzReadStrategy(f *testing.F) {
	for _, s := range samples() {
		data, _ := json.Marshal(s)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s mechanism.Strategy
		if json.Unmarshal(data, &s) != nil {
			return
		}
		again := must.Get(json.Marshal(&s))(t)
		var back mechanism.Strategy
		if err := json.Unmarshal(again, &back); err != nil {
			t.Fatalf("%s is read, but not once it is written: %v", data, err)
		}
		if diff := cmp.Diff(s, back); diff != "" {
			t.Error(diff)
		}
	})
}
