package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"minsep/mechanism"
	"minsep/planner"
	"minsep/sampling"
)

// alternative is a row with a certificate.
func alternative(scheme string, relative, stdErr, above float64) certified {
	row := &planner.Row{Scheme: sampling.Params{Scheme: scheme, MinSep: 2}, Relative: relative, StdErr: stdErr, Noise: planner.Noise{Multiplier: 2}, CPU: 2}
	return certified{row: row, sigma: 2 * above, cpu: 3}
}

// TestOrder: only pairs that the plan tells apart count, and of them those whose certificates have
// the other order are named.
func TestOrder(t *testing.T) {
	all := []certified{alternative("a", 1, .01, 1.05), alternative("b", 1.02, .01, 1), alternative("c", 1.1, .01, 1), alternative("d", 1.2, .01, .9), {row: &planner.Row{Relative: 9}}}
	apart, wrong := order(all)
	if apart != 5 || len(wrong) != 1 || !strings.Contains(wrong[0], "c 2") || !strings.Contains(wrong[0], "d 2") {
		t.Errorf("%d apart, %q", apart, wrong)
	}
	all[3].sigma = 2.4
	if apart, wrong = order(all); apart != 5 || wrong != nil {
		t.Errorf("%d apart, %q", apart, wrong)
	}
	var b bytes.Buffer
	report(&b, []judged{{set: set{name: "some"}, cpu: 7, all: all}})
	for _, want := range []string{"| some | 0 | a 2,  | 2 ± 0.0 % | 2.1 (+5.0 %) | 1.05 | 2 | 3 |", "5 pairs told apart, 0 of them certified in the other order", "median 1.5"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestFirst: five by rank, two of a scheme at most, then the best of every scheme that is left.
func TestFirst(t *testing.T) {
	var rows []*planner.Row
	for i, scheme := range []string{"a", "a", "a", "b", "b", "c", "c", "d", "d", "e"} {
		rows = append(rows, &planner.Row{Rank: i + 1, Scheme: sampling.Params{Scheme: scheme}})
	}
	rows[3].Refused = "no"
	var ranks []int
	for _, row := range first(rows) {
		ranks = append(ranks, row.Rank)
	}
	if !slices.Equal(ranks, []int{1, 2, 5, 6, 7, 8, 10}) {
		t.Error(ranks)
	}
}

// TestFlags: parameters as the commands take them.
func TestFlags(t *testing.T) {
	normalized := true
	list, err := flags(mechanism.Params{Kind: "bsr", Steps: 40, Bands: 4, Normalized: &normalized, LearningRates: "constant"})
	if err != nil || !slices.Equal(list, []string{"--bands=4", "--kind=bsr", "--learning-rates=constant", "--normalized=true", "--steps=40"}) {
		t.Error(list, err)
	}
	if list, err = flags(sampling.Params{Scheme: "b-min-sep", Steps: 40, MinSep: 4, BatchSize: 2.5}); err != nil || !slices.Equal(list, []string{"--batch-size=2.5", "--min-sep=4", "--scheme=b-min-sep", "--steps=40"}) {
		t.Error(list, err)
	}
}

// TestSets: every set says what a plan needs, and the graph that is made is the same each time.
func TestSets(t *testing.T) {
	for _, s := range sets() {
		has := func(flag string) bool { return slices.Contains(s.flags, flag) }
		if has("--examples") == (s.graph != "") || has("--steps") == has("--epochs") || !has("--batch-size") || !has("--epsilon") || !has("--delta") || s.name == "" || s.about == "" {
			t.Errorf("%+v", s)
		}
	}
	var a, b bytes.Buffer
	if phones(&a) != nil || phones(&b) != nil || !bytes.Equal(a.Bytes(), b.Bytes()) || strings.Count(a.String(), "\n") != 16922 {
		t.Error(strings.Count(a.String(), "\n"))
	}
}
