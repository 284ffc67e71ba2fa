package main

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"minsep/internal/must"
)

// TestGrid computes a small grid, goes on after a line was cut, and computes nothing twice.
func TestGrid(t *testing.T) {
	g := grid{64, 1e-3, []int{2, 4}, []int{16}, []float64{2}}
	file := filepath.Join(t.TempDir(), "grid.jsonl")
	first := must.Get(g.run(t.Context(), file, io.Discard))(t)
	for _, p := range first {
		if !(p.Cyclic > 0 && p.Bins > 0 && p.BMinSep > 0) || p.BMinSep > p.Bins || p.MinSep < p.Bands || p.MinSep > p.Epoch {
			t.Errorf("%+v", p)
		}
	}
	text := must.Get(os.ReadFile(file))(t)
	must.Do(t, os.WriteFile(file, text[:len(text)-9], 0o600))
	var told strings.Builder
	again := must.Get(g.run(t.Context(), file, &told))(t)
	if n := strings.Count(told.String(), "\n"); n != 1 {
		t.Errorf("%d points were computed after one was lost:\n%s", n, &told)
	}
	if !reflect.DeepEqual(first, again) {
		t.Errorf("%+v\n%+v", first, again)
	}
	two, three := g.ratios(again)
	if len(two) != 1 || two[0].computed >= 1 || three[0].computed > 1 {
		t.Errorf("ratios %+v, %+v", two, three)
	}
}

// TestRatios requires ratios of the best numbers of bands, standard errors of the ratios and not as
// parts of them, and none where both schemes are one.
func TestRatios(t *testing.T) {
	g := grid{64, 1e-3, []int{2, 4}, []int{16}, []float64{1, 2}}
	two, three := g.ratios([]point{
		{Bands: 2, Epoch: 16, Epsilon: 1, Cyclic: 16, Bins: 10, BMinSep: 9, MinSep: 4, StdErr: .5, BinsError: .5},
		{Bands: 4, Epoch: 16, Epsilon: 1, Cyclic: 20, Bins: 8, BMinSep: 4, MinSep: 8, StdErr: .03, BinsError: .04},
		{Bands: 2, Epoch: 16, Epsilon: 2, Cyclic: 8, Bins: 2, BMinSep: 2, MinSep: 16, StdErr: .1, BinsError: .1},
	})
	want := [][]row{
		{{name: "|D|/B = 16, ε = 1", computed: .25, stdErr: .25 * .03, note: "4 bands, min-sep 8"}, {name: "|D|/B = 16, ε = 2", computed: .25, stdErr: .25 * .1, note: "2 bands, min-sep 16"}},
		{{name: "|D|/B = 16, ε = 1", computed: .5, stdErr: .5 * .05}, {name: "|D|/B = 16, ε = 2", computed: 1, note: "one scheme"}},
	}
	for i, rows := range [][]row{two, three} {
		for j, r := range rows {
			if w := want[i][j]; math.Abs(r.stdErr-w.stdErr) > 1e-15 || r.name != w.name || r.computed != w.computed || r.note != w.note {
				t.Errorf("%+v, want %+v", r, w)
			}
		}
	}
}
