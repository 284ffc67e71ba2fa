package mechanism_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"minsep/internal/must"
	"minsep/mechanism"
)

func TestMakeEveryKind(t *testing.T) {
	const n = 64
	p := mechanism.Problem{Workload: mechanism.Prefix(n), Participation: mechanism.Participation{MinSep: 16, Phases: true}}
	var all []mechanism.Figures
	for _, kind := range mechanism.Kinds(func(f mechanism.Family) bool { return !f.TakesColumn }) {
		s, err := p.Make(t.Context(), kind, 4)
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
		f := must.Get(p.Figures(s))(t)
		if !f.Sensitivity.Exact || math.Abs(f.RMSE*f.Sensitivity.Value-math.Sqrt(must.Get(p.Loss(s))(t))) > 1e-9 {
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
	must.Do(t, mechanism.WriteTable(&table, all))
	t.Log("\n" + table.String())
	if lines := strings.Count(table.String(), "\n"); lines != len(all)+1 {
		t.Errorf("%d lines for %d strategies", lines, len(all))
	}
	must.Fail(t, "an unknown kind", "must be one of identity")(p.Make(t.Context(), "magic", 4))
}
