package mechanism_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"minsep/internal/must"
	"minsep/internal/param"
	"minsep/mechanism"
)

func TestParams(t *testing.T) {
	half := .5
	// A chosen parameter is at least as good as a given one.
	best := mechanism.Params{Kind: mechanism.KindBIFR, Steps: 64, Bands: 4, MinSep: 16}
	problem := must.Get(best.Problem(nil))(t)
	given := best
	given.Gamma = &half
	var loss [2]float64
	for i, p := range []mechanism.Params{best, given} {
		s := must.Get(p.Make(t.Context(), nil))(t)
		loss[i] = must.Get(problem.Loss(s))(t)
	}
	if !(loss[0] < loss[1]) {
		t.Errorf("the best γ has loss %v, ½ has %v", loss[0], loss[1])
	}
	var faults interface{ Unwrap() []error }
	err := mechanism.Params{Kind: "banded", Bands: 9, Steps: 5, MaxParticipations: 2, Training: mechanism.Training{Momentum: 2}, Arity: -1, Stamps: 2}.Validate()
	if !errors.As(err, &faults) || len(faults.Unwrap()) != 6 {
		t.Errorf("got %v, want six faults", err)
	}
}

// TestColumns: a column is refused by name if it does not fit a stamp.
func TestColumns(t *testing.T) {
	for _, c := range []struct {
		steps, stamps int
		column        []float64
		ok            bool
	}{
		{8, 0, []float64{1, 2, 3, 4, 5, 6, 7, 8}, true},
		{7, 0, []float64{1, 2, 3, 4, 5, 6, 7, 8}, false},
		{8, 4, []float64{1, .5}, true},
		{8, 4, []float64{1, .5, .5}, false},
		{8, 4, []float64{0, .5}, false},
		{8, 4, []float64{1, math.NaN()}, false},
		{8, 4, []float64{1, math.Inf(1)}, false},
		{8, 4, []float64{math.NaN(), 1}, false},
	} {
		p := mechanism.Params{Kind: mechanism.KindToeplitz, Steps: c.steps, Stamps: c.stamps, Column: c.column}
		var bad *param.Error
		if err := p.Validate(); (err == nil) != c.ok || err != nil && (!errors.As(err, &bad) || bad.Param != "column") {
			t.Errorf("%+v: %v", c, err)
		}
		if s := p.StandIn(); c.ok && (s == nil || s.Bands() != len(c.column)) {
			t.Errorf("%+v: the stand-in is %v", c, s)
		}
	}
}

func TestParamsRefuse(t *testing.T) {
	x := func(v float64) *float64 { return &v }
	refused := map[string]mechanism.Params{
		"lambda nan": {Kind: mechanism.KindLambdaCGD, Steps: 8, Lambda: x(math.NaN())},
		"offset inf": {Kind: mechanism.KindOneParameter, Steps: 8, Bands: 4, Offset: x(math.Inf(1))},
	}
	for name, change := range map[string]string{
		"nothing":     `{}`,
		"kind":        `{"kind": "magic", "offset": null}`,
		"steps":       `{"steps": 0}`,
		"whole":       `{"kind": "fft", "steps": 4097, "bands": 0, "offset": null}`,
		"no bands":    `{"bands": 0}`,
		"bands":       `{"bands": 9}`,
		"stamp bands": `{"stamps": 4, "bands": 3}`,
		"entries":     `{"kind": "banded", "steps": 1048576, "bands": 1024, "offset": null}`,
		"no column":   `{"kind": "toeplitz", "offset": null}`,
		"lambda":      `{"kind": "lambda-cgd", "lambda": 1.5, "offset": null}`,
		"gamma":       `{"kind": "bfr", "gamma": -0.1, "offset": null}`,
		"offset":      `{"offset": -0.5}`,
		"file stamps": `{"stamps": 2, "bands": 2, "schedule": "file.json"}`,
	} {
		p := mechanism.Params{Kind: mechanism.KindOneParameter, Steps: 8, Bands: 4, Offset: x(-.25)}
		must.Do(t, json.Unmarshal([]byte(change), &p))
		if name == "nothing" {
			must.Do(t, p.Validate())
		} else {
			refused[name] = p
		}
	}
	for name, p := range refused {
		var bad *param.Error
		if err := p.Validate(); !errors.As(err, &bad) {
			t.Errorf("%s: %v", name, err)
		}
		if s, err := p.Make(t.Context(), nil); err == nil {
			t.Errorf("%s: %+v is made", name, s)
		}
	}
}

// TestForeignParameters: what a family does not have is refused by name, and left out where kinds
// that have it are compared with kinds that do not.
func TestForeignParameters(t *testing.T) {
	half := .5
	for name, p := range map[string]mechanism.Params{
		"gamma":   {Kind: mechanism.KindBSR, Bands: 4, Gamma: &half},
		"lambda":  {Kind: mechanism.KindIdentity, Lambda: &half},
		"offset":  {Kind: mechanism.KindBFR, Bands: 4, Offset: &half},
		"buffers": {Kind: mechanism.KindBSR, Bands: 4, Buffers: 2},
		"arity":   {Kind: mechanism.KindLambdaCGD, Arity: 3},
		"bands":   {Kind: mechanism.KindDense, Bands: 4},
		"column":  {Kind: mechanism.KindBSR, Bands: 4, Column: []float64{1}},

		"independent-noise": {Kind: mechanism.KindBSR, Bands: 4, IndependentNoise: 2},
	} {
		p.Steps = 16
		var bad *param.Error
		if err := p.Validate(); !errors.As(err, &bad) || bad.Param != name {
			t.Errorf("%s for %s: %v", name, p.Kind, err)
		}
	}
	all := mechanism.Params{Steps: 16, Bands: 4, Gamma: &half, Buffers: 2}
	kinds := []string{mechanism.KindBSR, mechanism.KindBFR, mechanism.KindBLT}
	for _, kind := range kinds {
		p := all.Among(kinds, kind)
		if err := p.Validate(); err != nil || (p.Gamma != nil) != (kind == mechanism.KindBFR) || (p.Buffers != 0) != (kind == mechanism.KindBLT) {
			t.Errorf("%s of several: %+v, %v", kind, p, err)
		}
	}
	if all.Among(kinds[:1], kinds[0]).Validate() == nil {
		t.Error("gamma for bsr alone is accepted")
	}
	if all.Gamma == nil {
		t.Error("the caller's parameters changed")
	}
}
