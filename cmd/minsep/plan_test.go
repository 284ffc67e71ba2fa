package main

import (
	"strings"
	"testing"

	"minsep/internal/accounting/calibration"
	"minsep/internal/planner"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestNextIsShown: the row that the words name as the next is in the table, though its scheme has a
// better one.
func TestNextIsShown(t *testing.T) {
	var rows []*planner.Row
	for i, bands := range []int{4, 8, 16} {
		rows = append(rows, &planner.Row{Scheme: sampling.Params{Scheme: "b-min-sep", MinSep: bands}, Strategy: mechanism.Params{Kind: mechanism.KindBSR, Bands: bands}, MaxPerOwner: 1,
			Relative: float64(i + 1), Rank: i + 1, Noise: calibration.Noise{Multiplier: 1, Proven: true}})
	}
	var text strings.Builder
	printPlan(&text, &planner.Result{Rows: rows}, false)
	for name, want := range map[string]bool{"bsr 4": true, "bsr 8": true, "bsr 16": false} {
		if strings.Contains(text.String(), name) != want {
			t.Errorf("%s is shown: %v, in\n%s", name, !want, text.String())
		}
	}
}
