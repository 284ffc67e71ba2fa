package stages

import (
	"errors"
	"strings"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/montecarlo"
	"minsep/internal/ownergraph"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestMostPerOwner: k_u beyond what there are losses for is refused with where it comes from, and
// only where samples are drawn.
func TestMostPerOwner(t *testing.T) {
	run := accounting.Run{
		Sampler:             sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 8, MinSep: 2}},
		Strategy:            &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 8, Toeplitz: []float64{1, 0.5}},
		MaxExamplesPerOwner: montecarlo.MaxPerOwner + 1,
	}
	var bad *ParamError
	if err := (Account{Bounded: "hot"}).checkMost(run); !errors.As(err, &bad) || bad.Param != "bounded" || bad.Value != "hot" || !strings.Contains(bad.Rule, "owner with 1001 examples") {
		t.Errorf("of the table: %v", err)
	}
	if err := (Account{Bounded: "hot", MaxPerOwner: 1001}).checkMost(run); !errors.As(err, &bad) || bad.Param != "max per owner" || bad.Value != 1001 {
		t.Errorf("of the flag: %v", err)
	}
	run.Sampler, run.Strategy.Toeplitz = sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.1, Steps: 8}}, []float64{1}
	if err := (Account{Bounded: "hot"}).checkMost(run); err != nil {
		t.Errorf("without samples: %v", err)
	}
	run.MaxExamplesPerOwner--
	run.Sampler = sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 8, MinSep: 2}}
	if err := (Account{}).checkMost(run); err != nil {
		t.Errorf("1000 examples: %v", err)
	}
}

// TestClaimCountsTheExamplesOfAnOwner: the run that is accounted for has k_u of the flag or of the
// table, the larger one, and the claim for single examples must be asked for.
func TestClaimCountsTheExamplesOfAnOwner(t *testing.T) {
	table := &tableFacts{summary: ownergraph.Summary{Kept: 100, KeptCopies: 100, KeptPerOwner: ownergraph.Histogram{{Value: 1, Count: 97}, {Value: 3, Count: 1}}}}
	for _, c := range []struct {
		table *tableFacts
		most  int
		unit  string
		want  int // k_u of the run; 0 is refused
	}{
		{nil, 0, "", 1}, {nil, 1, "", 1}, {nil, 4, "", 4}, {nil, 4, "owner", 4}, {nil, 0, "example", 1},
		{table, 3, "", 3}, {table, 5, "owner", 5}, {table, 2, "", 0}, {table, 0, "", 0}, {table, 0, "example", 1},
	} {
		a := Account{Params: sampling.Params{Scheme: "b-min-sep", Steps: 20, MinSep: 4, Prob: 0.1}, PlanPrivacy: PlanPrivacy{Epsilon: 1, Delta: 1e-5, Unit: c.unit}, Examples: 100, Bands: 2, MaxPerOwner: c.most}
		p, r, _, err := a.Problem(t.Context(), Present{out: "run", table: c.table})
		switch {
		case c.want == 0:
			if err == nil {
				t.Errorf("%+v is not refused", c)
			}
		case err != nil:
			t.Errorf("%+v: %v", c, err)
		case p.Run.MaxExamplesPerOwner != c.want || (p.Unit == accounting.UnitExample) != (c.unit == "example"):
			t.Errorf("%+v: %d examples per owner, unit %q", c, p.Run.MaxExamplesPerOwner, p.Unit)
		default:
			other := a
			if other.MaxPerOwner++; c.unit == "" && other.MaxPerOwner > c.want {
				if _, q, _, err := other.Problem(t.Context(), Present{out: "run", table: c.table}); err != nil || q.MaxExamplesPerOwner == r.MaxExamplesPerOwner {
					t.Errorf("%+v: the request of one example more is the same: %v", c, err)
				}
			}
		}
	}
}
