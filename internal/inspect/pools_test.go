package inspect

import (
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/internal/stages"
	"minsep/internal/stream"
	"minsep/sampling"
)

// twoPools is a run directory with two pools of a graph of two owners, each of two examples: of
// each, one in either pool. change may change the rows and the summary before they are written.
func twoPools(t *testing.T, change func(rows *ownergraph.Rows, s *ownergraph.Summary)) string {
	t.Helper()
	var edges ownergraph.Edges
	for example, owner := range []int64{7, 7, 8, 8} {
		edges.Examples.AppendInt(int64(example))
		edges.Owners.AppendInt(owner)
	}
	g := must.Get(ownergraph.New(&edges))(t)
	bound := ownergraph.Bound{MaxExamplesPerOwner: 1, Pools: 2}
	bounded := must.Get(bound.Greedy(g, stream.PublicKey("test", nil)))(t)
	rows, told := bounded.Rows(), bounded.Summary
	change(rows, &told)
	run := t.TempDir()
	stage := must.Get(manifest.Begin(filepath.Join(run, manifest.BoundedFolder), false))(t)
	ix := manifest.Index{Format: manifest.BoundedPoolsFormat}
	var err error
	ix.Params, ix.ParamsSHA256, err = manifest.Params(bound)
	must.Do(t, err)
	ix.Facts, _ = json.Marshal(told)
	f := must.Get(stage.Write(manifest.BoundedPartName(0), func(w io.Writer) error {
		b := manifest.NewBoundedWriter(w, ownergraph.Int64, ownergraph.Int64, true)
		return errors.Join(b.Write(rows), b.Close())
	}))(t)
	ix.Files = []manifest.File{f}
	must.Do(t, stage.Publish(ix))
	return run
}

// TestPoolsAreChecked plants faults in tables of pools: each is found by the check of its name, and
// by that one alone.
func TestPoolsAreChecked(t *testing.T) {
	setPools := func(r *ownergraph.Rows, pools ...uint32) { copy(r.Pools, pools) }
	for broken, change := range map[string]func(*ownergraph.Rows, *ownergraph.Summary){
		"": func(*ownergraph.Rows, *ownergraph.Summary) {},
		// Both examples of one owner are in pool 0, both of the other in pool 1.
		"owners":                          func(r *ownergraph.Rows, _ *ownergraph.Summary) { setPools(r, 0, 0, 1, 1) },
		"pools, sizes of pools, coverage": func(r *ownergraph.Rows, _ *ownergraph.Summary) { setPools(r, 0, 1, 0, 2) },
		"sizes of pools, coverage":        func(r *ownergraph.Rows, _ *ownergraph.Summary) { r.Pools[slices.Index(r.Pools, 1)] = 0 },
		"coverage":                        func(_ *ownergraph.Rows, s *ownergraph.Summary) { s.Coverage.Distinct[0]++ },
		"sizes of pools":                  func(_ *ownergraph.Rows, s *ownergraph.Summary) { s.Coverage.Size-- },
		"given graph":                     func(_ *ownergraph.Rows, s *ownergraph.Summary) { s.Coverage.DroppedCut++ },
	} {
		var names []string
		for _, i := range inspected(t, twoPools(t, change), Options{}).Folders {
			for _, c := range i.Checks {
				if !c.Held && i.kind == manifest.BoundedFolder {
					names = append(names, c.Name)
				}
			}
		}
		got := strings.Join(names, ", ")
		if broken == "sizes of pools, coverage" {
			got = strings.TrimSuffix(got, ", owners") // whose two examples are in pool 0 depends on the key
		}
		if got != broken {
			t.Errorf("broken checks: %q, want %q", got, broken)
		}
	}
}

func TestPoolsOfAnotherFormat(t *testing.T) {
	run := twoPools(t, func(_ *ownergraph.Rows, s *ownergraph.Summary) { s.Coverage = nil })
	must.Fail(t, "pools without a coverage", "coverage of pools")(manifest.OpenBounded(t.Context(), filepath.Join(run, manifest.BoundedFolder)))
	run = twoPools(t, func(_ *ownergraph.Rows, s *ownergraph.Summary) { s.Coverage.Pools = 3 })
	must.Fail(t, "two pools of three", "contradicts itself")(manifest.OpenBounded(t.Context(), filepath.Join(run, manifest.BoundedFolder)))
}

// TestPoolsNeedTheirCertificate: a certificate of rotation goes with a table of pools, and no other
// one does.
func TestPoolsNeedTheirCertificate(t *testing.T) {
	run := twoPools(t, func(*ownergraph.Rows, *ownergraph.Summary) {})
	for sampler, want := range map[*sampling.Spec]bool{
		{Rotation: &sampling.Rotation{Steps: 8, EpochSteps: 4}}: true,
		{Poisson: &sampling.Poisson{Prob: 0.5, Steps: 8}}:       false,
	} {
		checks := must.Get(stages.Agreement(t.Context(), run, &accounting.Certificate{Run: accounting.Run{Sampler: *sampler, MaxExamplesPerOwner: 1}}))(t)
		if last := checks[len(checks)-1]; last.Name != "pools" || last.Held != want {
			t.Errorf("%+v: %+v", sampler, checks)
		}
	}
}
