package montecarlo

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"minsep/mechanism"
	"minsep/sampling"
)

func toeplitz(steps int, first ...float64) *mechanism.Strategy {
	return &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: first}
}

func validSpec() Spec {
	return specOf(sampling.BMinSep{Steps: 12, MinSep: 3, Prob: 0.2, WarmStart: true}, toeplitz(12, 1, 0.5, 0.375), 0.8)
}

func TestSpecGuards(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Spec)
		faults []string // a part of each; none: valid
	}{
		"as it is":           {func(*Spec) {}, nil},
		"more bands":         {func(s *Spec) { s.Strategy = toeplitz(12, 1, 0.5, 0.375, 0.2, 0.1) }, nil},
		"two examples":       {func(s *Spec) { s.MaxExamplesPerOwner = 2 }, nil},
		"no law":             {func(s *Spec) { s.Law = nil }, []string{"law"}},
		"two laws":           {func(s *Spec) { s.MultiOwner = &sampling.MultiOwner{Prob: .1, Steps: 12, MinSep: 3} }, []string{"law"}},
		"many examples":      {func(s *Spec) { s.MaxExamplesPerOwner = 1001 }, []string{"examples per owner 1001"}},
		"no strategy":        {func(s *Spec) { s.Strategy = nil }, []string{"strategy nil"}},
		"strategy of others": {func(s *Spec) { s.Strategy = toeplitz(13, 1) }, []string{"steps of the law 12"}},
		"negative entry":     {func(s *Spec) { s.Strategy = toeplitz(12, 1, -0.5) }, []string{"no negative entry"}},
		"hidden negative": {func(s *Spec) {
			s.Strategy = &mechanism.Strategy{Kind: mechanism.KindBandInv, Steps: 12, InverseToeplitz: []float64{1, 0.5}}
		}, []string{"no negative entry"}},
		"algorithm 3 bands": {func(s *Spec) {
			s.Law, s.MultiOwner = nil, &sampling.MultiOwner{Prob: .1, Steps: 12, MinSep: 2}
		}, []string{"bands 3: must be at most min-sep, 2"}},
		"too little noise": {func(s *Spec) { s.NoiseMultiplier = 1e-4 }, []string{"squared column norm"}},
		"infinite noise":   {func(s *Spec) { s.NoiseMultiplier = math.Inf(1) }, []string{"noise multiplier +Inf"}},
	} {
		s := validSpec()
		c.change(&s)
		err := s.Validate()
		if len(c.faults) == 0 {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var parameter *ParamError
		if !errors.As(err, &parameter) {
			t.Errorf("%s: %v is no ParamError", name, err)
			continue
		}
		for _, fault := range c.faults {
			if !strings.Contains(err.Error(), fault) {
				t.Errorf("%s: %q does not say %q", name, err, fault)
			}
		}
		if f, err := s.LogRatio(); err == nil || f != nil {
			t.Errorf("%s: the ratio of a faulty spec", name)
		}
	}
}

func TestExactness(t *testing.T) {
	four := toeplitz(40, sqrtColumn(4)...)
	warm := sampling.BMinSep{Prob: 0.1, Steps: 40, MinSep: 4, WarmStart: true}
	for name, c := range map[string]struct {
		scheme   sampling.Scheme
		examples int
		want     Exactness
	}{
		"one":            {warm, 1, Exact},
		"two":            {warm, 2, Exact},
		"three":          {warm, 3, Drawn},
		"two of epochs":  {sampling.EpochMinSep{Steps: 40, MinSep: 4, EpochSteps: 9}, 2, Drawn},
		"two, few steps": {sampling.Poisson{Prob: 0.1, Steps: 40}, 2, Drawn}, // columns overlap
	} {
		s := specOf(c.scheme, four, 1)
		s.MaxExamplesPerOwner = c.examples
		if got := s.Exactness(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if _, err := NewSampler(s, P, testKey(t)); (err == nil) != (c.want == Exact) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := kinds()["published"].Exactness(); got != NotProven {
		t.Errorf("algorithm 3: %s", got)
	}
}

// TestTooManyTurns: a strategy of many bands over a law without separation has no loss.
func TestTooManyTurns(t *testing.T) {
	s := specOf(sampling.Poisson{Prob: 0.1, Steps: 60}, toeplitz(60, sqrtColumn(40)...), 1)
	var fault *ParamError
	if _, err := NewSampler(s, Q, testKey(t)); !errors.As(err, &fault) || !strings.Contains(err.Error(), "bands 40") {
		t.Errorf("40 bands of Poisson sampling: %v", err)
	}
}

// TestSpecJSON: specs of different laws have different JSON, from which keys are derived.
func TestSpecJSON(t *testing.T) {
	a, b := validSpec(), validSpec()
	b.Law = specOf(sampling.BMinSep{Steps: 12, MinSep: 3, Prob: 0.2}, b.Strategy, 0.8).Law
	text, err := json.Marshal(a)
	other, _ := json.Marshal(b)
	if err != nil || !strings.Contains(string(text), a.Law.Hash()) || string(text) == string(other) || !strings.Contains(string(text), `"toeplitz":[1,0.5,0.375]`) {
		t.Errorf("%s and %s, %v", text, other, err)
	}
}
