package main

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestGrid computes a small grid, goes on after a line was cut, and computes nothing twice.
func TestGrid(t *testing.T) {
	g := grid{64, 1e-3, []int{2, 4}, []int{16}, []float64{2}}
	file := filepath.Join(t.TempDir(), "grid.jsonl")
	first, err := g.run(t.Context(), file, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range first {
		if !(p.Cyclic > 0 && p.Bins > 0 && p.BMinSep > 0) || p.BMinSep > p.Bins || p.MinSep < p.Bands || p.MinSep > p.Epoch {
			t.Errorf("%+v", p)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text[:len(text)-9], 0o600); err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	again, err := g.run(t.Context(), file, &told)
	if err != nil {
		t.Fatal(err)
	}
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
