package mechanism_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"minsep/mechanism"
)

func TestMakeEveryKind(t *testing.T) {
	const n = 64
	p := mechanism.Problem{Workload: mechanism.Prefix(n), Participation: mechanism.Participation{MinSep: 16, Phases: true}}
	var all []mechanism.Figures
	for _, kind := range mechanism.ComparableKinds() {
		s, err := p.Make(kind, 4)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if s.Kind != kind {
			t.Errorf("%s was made for %s", s.Kind, kind)
		}
		f := must2(p.Figures(s))(t)
		if !f.Sensitivity.Exact || math.Abs(f.RMSE*f.Sensitivity.Value-math.Sqrt(must2(p.Loss(s))(t))) > 1e-9 {
			t.Errorf("%s: figures %+v", kind, f)
		}
		all = append(all, f)
	}
	best := slices.MinFunc(all, func(a, b mechanism.Figures) int {
		return int(math.Copysign(1, a.RMSE*a.Sensitivity.Value-b.RMSE*b.Sensitivity.Value))
	})
	if best.Kind != mechanism.KindDense {
		t.Errorf("%s is better than the dense optimum", best.Kind)
	}
	var table strings.Builder
	if err := mechanism.WriteTable(&table, all); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
	if lines := strings.Count(table.String(), "\n"); lines != len(all)+1 {
		t.Errorf("%d lines for %d strategies", lines, len(all))
	}
	if _, err := p.Make("magic", 4); err == nil {
		t.Error("an unknown kind is accepted")
	}
}

func TestChooseBands(t *testing.T) {
	const n = 256
	p := mechanism.Problem{Workload: mechanism.Prefix(n)}
	family := func(bands int) (*mechanism.Strategy, error) {
		s, _, err := p.OptimalToeplitz(bands)
		return s, err
	}
	// a stand-in for amplification: it is worth less with more bands
	sigma := func(s *mechanism.Strategy) (float64, error) { return math.Pow(float64(s.Bands()), .4), nil }
	least, best := math.Inf(1), 0
	for bands := 1; bands <= n; bands++ {
		s := must2(family(bands))(t)
		v := must2(sigma(s))(t) * must2(s.Error(p.Workload))(t).RMSE
		if v < least {
			least, best = v, bands
		}
	}
	for _, start := range []int{1, mechanism.StartingBands(2, n, 2), 200} {
		s, tried, err := p.ChooseBands(start, n, family, sigma)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(tried, func(x mechanism.Tried) bool { return x.Bands == s.Bands() })
		t.Logf("start %d: %d bands, error %.4f in %d calls; best of all %d, %.4f", start, s.Bands(), tried[i].Error, len(tried), best, least)
		if tried[i].Error > 1.01*least {
			t.Errorf("start %d: %d bands have error %v, %d have %v", start, s.Bands(), tried[i].Error, best, least)
		}
	}
	if mechanism.StartingBands(2, 256, 4) != 8 || mechanism.StartingBands(.01, 256, 4) != 1 {
		t.Error("rule of thumb")
	}
}
