package planner

import (
	"slices"
	"strings"
	"testing"

	"minsep/mechanism"
)

// TestStatelessFirst: where devices make the noise, a row without state stands first at up to 5 %
// more noise, and with as much data.
func TestStatelessFirst(t *testing.T) {
	for _, c := range []struct {
		name                  string
		devices, state        int
		relative, kept, moves float64
	}{
		{"little more", 8, 0, 1.04, 1, 1},
		{"much more", 8, 0, 1.06, 1, 0},
		{"with state", 8, 1, 1.01, 1, 0},
		{"less data", 8, 0, 1.01, .9, 0},
		{"by the command", 0, 0, 1.01, 1, 0},
	} {
		p := &planning{Request: &Request{NoiseDevices: c.devices}}
		row := func(state int, relative, kept float64) *Row {
			return &Row{State: state, Relative: relative, Kept: kept, Strategy: mechanism.Params{Kind: mechanism.KindBISR}}
		}
		rows := []*Row{row(3, 1, 1), row(3, 1.005, 1), row(c.state, c.relative, c.kept), row(0, 2, 1)}
		third := rows[2]
		if err := p.preferStateless(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		number(rows)
		if (rows[0] == third) != (c.moves == 1) || !slices.IsSortedFunc(rows[1:], func(a, b *Row) int { return int(1000 * (a.Relative - b.Relative)) }) {
			t.Errorf("%s: %v", c.name, rows)
		}
		if slices.ContainsFunc(rows, func(r *Row) bool { return r.Tied }) { // they are known exactly
			t.Errorf("%s: tied", c.name)
		}
	}
}

// TestNoiseDevices: a plan for devices holds the limit on each, and says what they keep; the plan
// for minsep run has the words that they can make.
func TestNoiseDevices(t *testing.T) {
	r := small()
	r.Schemes, r.Kinds = []string{"fixed"}, []string{"banded-toeplitz", "bisr"}
	r.NoiseDevices, r.MaxNoiseState = 3, 2*8*334 // of 1000 coordinates
	out := planned(t, r)
	most := 0
	for _, row := range out.Rows {
		most = max(most, row.State)
	}
	if most != 2 {
		t.Errorf("%d numbers a coordinate, and 2 are held", most)
	}
	first := out.Rows[0]
	said := strings.Join(append(out.Why, out.Note...), "\n")
	want := "keeps no state on the devices"
	if first.State > 0 {
		want = "of each of its 334 coordinates"
	}
	if !strings.Contains(said, want) {
		t.Errorf("row 1 keeps %d: %s", first.State, said)
	}
	if p := out.RunPlan(first, nil); p.Noise.Words != "chacha12" || !p.Noise.RecipeOnly {
		t.Errorf("%+v", p.Noise)
	}
	r.NoiseDevices, r.MaxNoiseState, r.Kinds = 3, 0, []string{"banded-toeplitz"}
	if out = planned(t, r); out.Rows[0].State == 0 {
		t.Skip("the best keeps no state")
	}
	if said := strings.Join(out.Note, "\n"); !strings.Contains(said, "The noise of the first keeps ") || !strings.Contains(said, "on a device of each of its 334 coordinates") {
		t.Error(said)
	}
	r.NoiseDevices = 0
	if p := planned(t, r).RunPlan(out.Rows[0], nil); p.Noise.Words != "" || p.Noise.RecipeOnly {
		t.Errorf("%+v", p.Noise)
	}
	r.NoiseDevices = -1
	if _, err := r.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "noise devices") {
		t.Error(err)
	}
}
