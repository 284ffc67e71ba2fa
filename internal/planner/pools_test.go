package planner

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/graphio"
	"minsep/internal/must"
	"minsep/internal/stages"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestData: examples that bounds keep, with their owners, and the pools of examples with several.
func TestData(t *testing.T) {
	file := filepath.Join(t.TempDir(), "edges.csv")
	data := func(text string, perOwner []int, periods func(int64) int) ([]Population, *Pools) {
		must.Do(t, os.WriteFile(file, []byte("example_id,owner_id\n"+text), 0o600))
		graph, _, err := Load(t.Context(), []string{file}, graphio.Options{})
		must.Do(t, err)
		list, pools, err := Data(t.Context(), graph, perOwner, periods)
		must.Do(t, err)
		return list, pools
	}
	shared := "" // 60 examples with two owners each, of 18
	for e := range 60 {
		shared += fmt.Sprintf("%d,%d\n%d,%d\n", e, e%7, e, 100+e%11)
	}
	kept := int64(0)
	list, pools := data(shared, []int{1, 2, 20}, func(n int64) int { kept = n; return 3 })
	if len(list) != 3 || list[0].Examples > 7 || list[0].Examples < 1 || list[1].Examples <= list[0].Examples || list[1].Examples > 14 ||
		list[2] != (Population{MaxPerOwner: 20, Examples: 60, Given: 60, Protected: 18, GivenOwners: 18}) {
		t.Errorf("%+v", list)
	}
	if pools == nil || kept != list[0].Examples || pools.Given != 60 || pools.Size > 7 || len(pools.Distinct) != 3 || !slices.IsSorted(pools.Distinct) || pools.Distinct[0] != pools.Size || pools.Distinct[2] <= pools.Size {
		t.Errorf("%d, %+v", kept, pools)
	}
	if _, pools := data(shared, []int{1}, func(int64) int { return 0 }); pools != nil {
		t.Errorf("no periods: %+v", pools)
	}
	if _, pools := data(shared, []int{1}, func(int64) int { return 5000 }); len(pools.Distinct) != mostPools {
		t.Errorf("many periods: %+v", pools)
	}
	list, pools = data("1,1\n2,1\n3,1\n4,2\n", []int{2}, func(int64) int { return 3 })
	if pools != nil || list[0] != (Population{MaxPerOwner: 2, Examples: 3, Given: 4, Owners: 2, Protected: 2, GivenOwners: 2}) {
		t.Errorf("examples of one owner: %+v, %+v", list, pools)
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
	out := must.Get(r.Plan(t.Context()))(t)
	kinds := map[string]bool{}
	for _, row := range out.Rows {
		if row.Scheme.Scheme != "rotation" {
			if row.Pools != 0 || row.Kept != .1 {
				t.Errorf("%s: %+v", row.Name(), row)
			}
			continue
		}
		kinds[row.Strategy.Kind] = true
		if row.Refused != "" || row.Pools != 2 || row.Examples != 9500 || row.Kept != .19 || row.Scheme.EpochSteps != 40 || row.BatchSize != 125 || row.TimesEach != 60*125./9500 {
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
	r.Unit = accounting.UnitExample
	if out = must.Get(r.Plan(t.Context()))(t); slices.ContainsFunc(out.Rows, func(row *Row) bool { return row.Pools > 0 }) {
		t.Error("single examples are protected without pools")
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

// TestMoreData: a row behind the first that uses more than twice as much data is named above the table.
func TestMoreData(t *testing.T) {
	row := func(relative, kept float64) *Row {
		return &Row{Scheme: sampling.Params{Scheme: "epoch-min-sep"}, MaxPerOwner: 1, Relative: relative, StdErr: .01, Kept: kept}
	}
	rows := []*Row{row(1, .1), row(1.2, .4)}
	number(rows)
	out := &Result{Request: Request{Objective: RMSE, Populations: []Population{{MaxPerOwner: 1, Examples: 100, Given: 1000}}}, Rows: rows}
	out.explain()
	if why := strings.Join(out.Why, "\n"); !strings.Contains(out.MoreData, "The first keeps about 10 % of the examples, row 2 keeps about 40 %") || !strings.Contains(why, "has the least") {
		t.Errorf("%q, %s", out.MoreData, why)
	}
}
