package montecarlo

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"minsep/mechanism"
)

func toeplitz(steps int, first ...float64) *mechanism.Strategy {
	return &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: first}
}

func validSpec() Spec {
	return Spec{Scheme: BMinSep, Steps: 12, MinSep: 3, Prob: 0.2, WarmStart: true, NoiseMultiplier: 0.8, Strategy: toeplitz(12, 1, 0.5, 0.375)}
}

func TestSpecGuards(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Spec)
		faults []string // a part of each; none: valid
	}{
		"as it is":           {func(*Spec) {}, nil},
		"more bands":         {func(s *Spec) { s.MinSep = 2 }, nil},
		"two examples":       {func(s *Spec) { s.MaxExamplesPerOwner = 2 }, nil},
		"truncated":          {func(s *Spec) { s.MaxBatchSize, s.Examples = 10, 100 }, nil},
		"balls in bins":      {func(s *Spec) { s.Scheme, s.Prob, s.MinSep = BallsInBins, 0, 2 }, nil},
		"everything at once": {func(s *Spec) { s.Steps, s.MinSep, s.Prob, s.NoiseMultiplier = 0, -1, 1.5, math.NaN() }, []string{"steps 0", "min-sep -1", "probability 1.5", "noise multiplier NaN"}},
		"scheme":             {func(s *Spec) { s.Scheme = "b_min_sep" }, []string{"scheme b_min_sep"}},
		"no strategy":        {func(s *Spec) { s.Strategy = nil }, []string{"strategy nil"}},
		"strategy of others": {func(s *Spec) { s.Steps = 13 }, []string{"strategy's steps 12"}},
		"negative entry":     {func(s *Spec) { s.Strategy = toeplitz(12, 1, -0.5) }, []string{"no negative entry"}},
		"hidden negative": {func(s *Spec) {
			s.Strategy = &mechanism.Strategy{Kind: mechanism.KindBandInv, Steps: 12, InverseToeplitz: []float64{1, 0.5}}
			s.MinSep = 12
		}, []string{"no negative entry"}},
		"poisson min-sep":      {func(s *Spec) { s.Scheme = Poisson }, []string{"min-sep 3"}},
		"balls with prob":      {func(s *Spec) { s.Scheme = BallsInBins }, []string{"probability 0.2"}},
		"cyclic bands":         {func(s *Spec) { s.Scheme, s.MinSep = CyclicPoisson, 2 }, []string{"bands 3: must be at most min-sep, 2"}},
		"algorithm 3 bands":    {func(s *Spec) { s.Scheme, s.MinSep = MultiOwner, 2 }, []string{"bands 3: must be at most min-sep, 2"}},
		"two examples, bands":  {func(s *Spec) { s.MaxExamplesPerOwner, s.MinSep = 2, 2 }, []string{"bands 3: must be at most min-sep, 2"}},
		"truncated, bands":     {func(s *Spec) { s.MaxBatchSize, s.Examples, s.MinSep = 10, 100, 2 }, []string{"bands 3: must be at most min-sep, 2"}},
		"truncated, owners":    {func(s *Spec) { s.MaxBatchSize, s.Examples, s.MaxExamplesPerOwner = 10, 100, 2 }, []string{"examples per owner 2"}},
		"truncated, no size":   {func(s *Spec) { s.MaxBatchSize = 10 }, []string{"examples 0"}},
		"cyclic owners":        {func(s *Spec) { s.Scheme, s.MaxExamplesPerOwner = CyclicPoisson, 2 }, []string{"examples per owner 2"}},
		"published warm":       {func(s *Spec) { s.Scheme, s.Published = MultiOwner, true }, []string{"warm start true"}},
		"published of another": {func(s *Spec) { s.Published = true }, []string{"published distribution true"}},
		"too little noise":     {func(s *Spec) { s.NoiseMultiplier = 1e-4 }, []string{"squared column norm"}},
		"infinite noise":       {func(s *Spec) { s.NoiseMultiplier = math.Inf(1) }, []string{"noise multiplier +Inf"}},
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
		if e, err := NewEvaluator(s, P); err == nil || e != nil {
			t.Errorf("%s: an evaluator of a faulty spec", name)
		}
	}
}

func TestExactness(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Spec)
		want   Exactness
	}{
		"b-min-sep":       {func(*Spec) {}, Exact},
		"more bands":      {func(s *Spec) { s.MinSep = 2 }, Bound},
		"poisson, banded": {func(s *Spec) { s.Scheme, s.MinSep = Poisson, 1 }, Bound},
		"two":             {func(s *Spec) { s.MaxExamplesPerOwner = 2 }, Exact},
		"three":           {func(s *Spec) { s.MaxExamplesPerOwner = 3 }, Exact},
		"three, long":     {func(s *Spec) { s.MaxExamplesPerOwner, s.MinSep = 3, 200 }, Bound},
		"balls":           {func(s *Spec) { s.Scheme, s.Prob, s.MinSep = BallsInBins, 0, 2 }, Exact},
		"algorithm 3":     {func(s *Spec) { s.Scheme = MultiOwner }, NotProven},
	} {
		s := validSpec()
		c.change(&s)
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := s.Exactness(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestBoundsStraddle: where a spec has bounds only, that of direction P is above that of direction
// Q.
func TestBoundsStraddle(t *testing.T) {
	bands := validSpec()
	bands.MinSep = 2
	owners := validSpec()
	owners.MaxExamplesPerOwner, owners.Steps, owners.Strategy = 5, 60, toeplitz(60, 1, 0.5)
	owners.MinSep = 30
	for _, s := range []Spec{bands, owners} {
		y := make([]float64, s.Steps)
		for i := range y {
			y[i] = 0.3
		}
		var ratio [2]float64
		for i, d := range Directions {
			e, err := NewEvaluator(s, d)
			if err != nil {
				t.Fatal(err)
			}
			if ratio[i], err = e.LogRatio(y); err != nil {
				t.Fatal(err)
			}
		}
		if s.Exactness() != Bound || !(ratio[0] > ratio[1]) {
			t.Errorf("%s: upper bound %g, lower bound %g", s.Exactness(), ratio[0], ratio[1])
		}
	}
}

func TestEvaluatorRefuses(t *testing.T) {
	s := validSpec()
	e, err := NewEvaluator(s, P)
	if err != nil {
		t.Fatal(err)
	}
	y := make([]float64, s.Steps)
	y[3] = math.NaN()
	if _, err := e.LogRatio(y); err == nil || !strings.Contains(err.Error(), "y[3] NaN") {
		t.Errorf("NaN in y: %v", err)
	}
	y[3] = 1e300
	if v, err := e.LogRatio(y); err == nil && math.IsInf(v, 0) {
		t.Errorf("1e300 in y: %g without an error", v)
	}
	if _, err := e.LogRatio(y[:4]); err == nil {
		t.Error("a short y was taken")
	}
	if _, err := e.LogRatioCounts(make([]float64, s.Steps), make([]int, s.Steps)); err == nil {
		t.Error("counts were taken for batches that are not truncated")
	}
	s.MaxBatchSize, s.Examples = 3, 40
	if e, err = NewEvaluator(s, Q); err != nil {
		t.Fatal(err)
	}
	if _, err := e.LogRatio(make([]float64, s.Steps)); err == nil {
		t.Error("truncated batches without counts were taken")
	}
	counts := make([]int, s.Steps)
	counts[5] = -1
	if _, err := e.LogRatioCounts(make([]float64, s.Steps), counts); err == nil || !strings.Contains(err.Error(), "count at step 5 -1") {
		t.Errorf("negative count: %v", err)
	}
	if _, err := NewEvaluator(s, "PQ"); err == nil {
		t.Error("direction PQ was taken")
	}
}

func TestSpecJSON(t *testing.T) {
	s := validSpec()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back Spec
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	again, _ := json.Marshal(back)
	if string(again) != string(text) || !strings.Contains(string(text), `"toeplitz":[1,0.5,0.375]`) {
		t.Errorf("%s became %s", text, again)
	}
}
