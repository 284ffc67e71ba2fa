package planner

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/graphio"
	"minsep/internal/ownergraph"
	"minsep/internal/stages"
	"minsep/mechanism"
	"minsep/sampling"
)

func TestDataOfPools(t *testing.T) {
	file := filepath.Join(t.TempDir(), "edges.csv")
	text := "example_id,owner_id\n"
	for e := range 60 {
		text += fmt.Sprintf("%d,%d\n%d,%d\n", e, e%7, e, 100+e%11)
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data := func(perOwner []int, periods func(int64) int) ([]Population, *Pools, error) {
		graph, _, err := Load(t.Context(), []string{file}, graphio.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return Data(t.Context(), graph, perOwner, periods)
	}
	write(text)
	kept := int64(0)
	list, pools, err := data([]int{1, 2}, func(n int64) int { kept = n; return 3 })
	if err != nil || pools == nil {
		t.Fatalf("%v, %v", pools, err)
	}
	if kept != list[0].Examples || pools.Given != 60 || pools.Size > 7 || len(pools.Distinct) != 3 || !slices.IsSorted(pools.Distinct) || pools.Distinct[0] != pools.Size || pools.Distinct[2] <= pools.Size {
		t.Errorf("%d, %+v", kept, pools)
	}
	if _, pools, err = data([]int{1}, func(int64) int { return 0 }); pools != nil || err != nil {
		t.Errorf("no periods: %+v, %v", pools, err)
	}
	if _, pools, err = data([]int{1}, func(int64) int { return 5000 }); err != nil || len(pools.Distinct) != mostPools {
		t.Errorf("many periods: %+v, %v", pools, err)
	}
	write("example_id,owner_id\n1,1\n2,1\n3,1\n4,2\n")
	if _, pools, err = data([]int{1}, func(int64) int { return 3 }); pools != nil || err != nil {
		t.Errorf("examples of one owner: %+v, %v", pools, err)
	}
}

// TestPlanOfPools plans for a graph of which a bound keeps a tenth, as large a pool, and two pools
// nearly twice as much.
func TestPlanOfPools(t *testing.T) {
	r := Request{
		Populations: []Population{{MaxPerOwner: 1, Examples: 5000, Given: 50_000}},
		Pools:       &Pools{Size: 5000, Distinct: []int64{5000, 9500, 13_000}, Given: 50_000},
		Steps:       60, BatchSizes: []float64{125}, Epsilon: 4, Delta: 1e-5, Objective: RMSE,
		Schemes: []string{"rotation", "epoch-min-sep"}, Kinds: []string{mechanism.KindIdentity, mechanism.KindBSR},
	}
	out, err := r.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, row := range out.Rows {
		if row.Scheme.Scheme != "rotation" {
			if row.Pools != 0 || row.Kept != .1 {
				t.Errorf("%s: %+v", row.Name(), row)
			}
			continue
		}
		kinds[row.Strategy.Kind] = true
		if row.Refused != "" || row.Pools != 2 || row.Examples != 9500 || row.Kept != .19 || row.Scheme.EpochSteps != 40 || row.BatchSize != 125 || row.TimesEach != 60*125./9500 || row.Coverage != 1 {
			t.Errorf("%s: %+v", row.Name(), row)
		}
		if !strings.HasPrefix(row.Name(), "rotation of 40, ") {
			t.Error(row.Name())
		}
		p := out.RunPlan(row, &stages.PlanGraph{Paths: []string{"graph"}})
		if p.Bound.Pools != 2 || p.Bound.MaxExamplesPerOwner != 1 || p.Scheme.EpochSteps != 40 || p.Scheme.Scheme != "rotation" {
			t.Errorf("%+v, %+v", p.Bound, p.Scheme)
		}
	}
	if len(kinds) != 2 {
		t.Errorf("strategies %v", kinds)
	}
	for _, want := range []string{"10 % of the examples with 1 example per owner", "19 % of the examples in 2 pools of rotation"} {
		if !strings.Contains(out.Data, want) {
			t.Errorf("%q does not say %q", out.Data, want)
		}
	}

	r.Unit = accounting.UnitExample
	if out, err = r.Plan(t.Context()); err != nil || slices.ContainsFunc(out.Rows, func(row *Row) bool { return row.Pools > 0 }) {
		t.Errorf("single examples are protected without pools: %v", err)
	}
}

// TestCompareRotation: a plan of rotation is ranked by the pools that its run makes.
func TestCompareRotation(t *testing.T) {
	file := filepath.Join(t.TempDir(), "edges.csv")
	text := "example_id,owner_id\n"
	for e := range 3000 {
		text += fmt.Sprintf("%d,%d\n%d,%d\n", e, e%600, e, 1000+e*7%900)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	plan := func(scheme sampling.Params, pools int) stages.Plan {
		scheme.Steps = 24
		return stages.Plan{Graph: &stages.PlanGraph{Paths: []string{file}}, Bound: &ownergraph.Bound{MaxExamplesPerOwner: 1, Pools: pools}, Scheme: scheme,
			Strategy: mechanism.Params{Kind: mechanism.KindIdentity, Steps: 24}, Privacy: stages.PlanPrivacy{Epsilon: 4, Delta: 1e-4}, Noise: stages.PlanNoise{Coordinates: 10, ClipNorm: 1}}
	}
	out, err := ComparePlans(t.Context(), []NamedPlan{
		{Name: "each", Plan: plan(sampling.Params{Scheme: "rotation", EpochSteps: 10}, 0)},
		{Name: "two", Plan: plan(sampling.Params{Scheme: "rotation", EpochSteps: 10}, 2)},
		{Name: "one", Plan: plan(sampling.Params{Scheme: "poisson", BatchSize: 50}, 0)},
	}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range out.Rows {
		want := map[string]int{"each": 3, "two": 2, "one": 0}[row.Plan]
		if row.Pools != want || row.Refused != "" || row.Pools > 0 && row.Kept < .18*float64(row.Pools) {
			t.Errorf("%s: %d pools, keeps %v, %s", row.Plan, row.Pools, row.Kept, row.Refused)
		}
	}
}

func TestRotates(t *testing.T) {
	for want, list := range map[bool][]Request{
		true:  {{}, {Schemes: []string{"rotation"}}, {Sample: sampling.SampleExamples}},
		false: {{Schemes: []string{"poisson"}}, {Sample: sampling.SampleOwners}, {Unit: accounting.UnitExample}},
	} {
		for _, r := range list {
			if r.Rotates() != want {
				t.Errorf("%+v: %v", r, !want)
			}
		}
	}
}

// TestMoreDataFirst: of rows that cannot be told from the least noise, the one that uses the most
// data is the first, and one behind them that uses more than twice as much is named above the table
// if it has little more noise.
func TestMoreDataFirst(t *testing.T) {
	row := func(relative, kept float64) *Row {
		return &Row{Scheme: sampling.Params{Scheme: "epoch-min-sep"}, MaxPerOwner: 1, Relative: relative, StdErr: .01, Kept: kept, BatchSize: 1, Examples: int64(1000 * kept), Noise: calibration.Noise{Proven: true}}
	}
	least, more, most := row(1, .1), row(1.02, .15), row(1.03, .14)
	rough := row(1.2, .5)
	rough.StdErr = .1
	more.Pools = 3
	rows := []*Row{least, more, most, row(1.06, .4), rough, row(2, 1)}
	p := &planning{Request: &Request{Objective: RMSE, Populations: []Population{{MaxPerOwner: 1, Examples: 100, Given: 1000}}}}
	if err := p.preferData(t.Context(), rows); err != nil || rows[0] != more || rows[1] != least || rows[2] != most {
		t.Fatalf("%+v, %v", rows[0], err)
	}
	number(rows)
	out := &Result{Request: *p.Request, Rows: rows}
	out.explain()
	if !strings.Contains(out.MoreData, "The first keeps 15 % of the examples, row 4 keeps 40 %") {
		t.Errorf("more data: %q", out.MoreData)
	}
	if note := fmt.Sprint(out.Note); !strings.Contains(note, "The first uses 15 % of the examples (150), in 3 pools, each with at most 1 per owner.") {
		t.Error(note)
	}
	if why := strings.Join(out.Why, "\n"); !strings.Contains(why, "the first uses 15 % of the examples in place of 10 %") || strings.Contains(why, "has the least") {
		t.Error(why)
	}

	rows = []*Row{row(1, .1), row(1.2, .4)}
	number(rows)
	out = &Result{Request: *p.Request, Rows: rows}
	out.explain()
	if why := strings.Join(out.Why, "\n"); !strings.Contains(out.MoreData, "row 2 keeps 40 %") || !strings.Contains(why, "has the least") {
		t.Errorf("%q, %s", out.MoreData, why)
	}
}
