package main

import (
	"fmt"
	"io"
	"strings"

	"minsep/accounting"
	"minsep/internal/words"
	"minsep/mechanism"
	"minsep/planner"
	"minsep/sampling"
)

// mostRows is the number of rows that are shown without --all.
const mostRows = 24

// planColumns returns the columns of the table. On a narrow terminal the columns of highest rank
// are left out first.
func planColumns(out *planner.Result) []column {
	batch, step := 9, 6
	if len(out.Request.BatchSizes) > 1 { // rows differ in batch size
		batch = 1
	}
	if out.Request.Workload.Optimizer == mechanism.Adam { // Adam's error depends on the noise of a single step
		step = 1
	}
	objective := out.Request.Objective
	columns := []column{{"row", "", 0}, {"scheme, min-sep", "scheme", 0}, {"strategy", "", 0}, {"k_u", "", 3}, {"batch", "", batch}, {"σ", "", 0}, {"±", "", 4}, {objective + "/batch", objective, 0}}
	if memory := float64(out.ShorterMemory); memory > 0 {
		columns = append(columns, column{fmt.Sprintf("at %.4g", memory), "", 5})
	}
	return append(columns, column{"step", "", step}, column{"as DP-SGD of", "DP-SGD", 7}, column{"each", "", 11}, column{"kept", "", 2}, column{"state", "", 10}, column{"certificate", "cert.", 8})
}

// shortNames abbreviates schemes and strategies on narrow terminals.
var shortNames = strings.NewReplacer("epoch-min-sep", "epoch", "cyclic-poisson", "cyclic", "banded-toeplitz", "b-toeplitz", "normalized", "norm.", " of owners", ", owners")

// printPlan prints the result of plan in lines of at most width columns; 0 means no limit.
func printPlan(w io.Writer, out *planner.Result, all bool, width int) {
	r := out.Request
	fmt.Fprintf(w, "(%.4g, %g)-DP, %s, ranked by %s relative to the batch,\n%s\n\n", r.Epsilon, r.Delta, plural(r.Steps, "step"), r.Objective, out.Training)
	if n := r.Protected(); n > 0 {
		what := "owner"
		if r.Unit == accounting.UnitExample || r.Numbered {
			what = "example"
		}
		who := plural(n, what)
		if given := r.Populations[len(r.Populations)-1].GivenOwners; what == "owner" && given > n {
			who = fmt.Sprintf("%s who take part, of %s", who, words.Grouped(given))
		}
		fmt.Fprintf(w, "for each of %s: delta belongs well below one over their number, %.2g\n\n", who, 1/float64(n))
	}
	if t := r.Together; t != nil {
		fmt.Fprintf(w, "for each of %d trainings, which are about (%.4g, %g)-DP together by the first row\n\n", t.Trainings, t.First, t.Delta)
	}
	for _, why := range out.Weak {
		fmt.Fprintf(w, "weak: %s\n\n", why)
	}
	for _, text := range []string{out.Solved, out.Data, out.TooSmall, out.MoreData} {
		if text != "" {
			fmt.Fprintf(w, "%s\n\n", text)
		}
	}
	t := table{columns: planColumns(out)}
	next := out.Next()
	shown, left, seen := 0, 0, map[string]bool{}
	for _, row := range out.Rows {
		// Of rows with the same key the first has the least noise, and stands for the others. Batch sizes
		// and bounds are part of it: they are the user's question, and no detail of a mechanism.
		key := fmt.Sprint(row.Plan, row.Scheme.Scheme, row.Scheme.Sample, row.MaxPerOwner, row.BatchSize, row.Refused != "")
		if !all && !row.Tied && row != next && (seen[key] || shown >= mostRows || row.Refused != "") {
			left++
			continue
		}
		seen[key] = true
		shown++
		t.add(planRow(row, out.ShorterMemory > 0))
	}
	if shown > 0 {
		t.write(w, width)
	}
	if left > 0 {
		fmt.Fprintf(w, "%s, some of them refused: --all\n", plural(left, "more candidate"))
	}
	if shown > 0 {
		fmt.Fprintln(w, "Less noise is better"+standsFirst(out.Rows)+". The columns: minsep help table")
	}
	fmt.Fprintln(w)
	for _, text := range out.Why {
		if text != out.TooSmall { // TooSmall stands above the table already
			fmt.Fprintln(w, text)
		}
	}
	fmt.Fprintln(w)
	for _, text := range out.Note {
		fmt.Fprintln(w, text)
	}
}

// standsFirst says whether row 1 has the least noise, and if not, which row has.
func standsFirst(rows []*planner.Row) string {
	least := rows[0]
	for _, row := range rows {
		if row.Refused == "" && row.Relative < least.Relative {
			least = row
		}
	}
	switch {
	case least == rows[0]:
		return ", and row 1 has the least"
	case least.Tied:
		return fmt.Sprintf(", and row 1 has as much as row %d within the errors: why it stands first is below", least.Rank)
	}
	return fmt.Sprintf(", and row %d has the least: why row 1 stands first is below", least.Rank)
}

// known formats a positive figure; "-" if it is 0, which means unknown.
func known(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4g", x)
}

func planRow(row *planner.Row, forgets bool) tableRow {
	minSep := ""
	if row.Pools > 0 {
		minSep = fmt.Sprintf(" of %d", row.Scheme.EpochSteps)
	}
	if row.Scheme.MinSep > 0 {
		minSep = fmt.Sprintf(" %d", row.Scheme.MinSep)
	}
	if row.Scheme.Sample == sampling.SampleOwners {
		minSep += " of owners"
	}
	if row.Plan != "" {
		minSep += " (" + row.Plan + ")"
	}
	rank := fmt.Sprint(row.Rank)
	if row.Tied {
		rank += " =1"
	}
	if row.Refused != "" {
		rank = "-"
	}
	scheme := row.Scheme.Scheme + minSep
	cells := []cell{{text: rank}, {scheme, shortNames.Replace(scheme)}, {row.StrategyName(), shortNames.Replace(row.StrategyName())}, {text: fmt.Sprint(row.MaxPerOwner)}}
	if row.Refused != "" {
		reason := "refused: " + row.Refused
		if strings.HasPrefix(row.Refused, planner.NotEstimated) {
			reason = row.Refused
		}
		return tableRow{cells, reason}
	}
	sigma, percent := fmt.Sprintf("%.4g", row.Noise.Multiplier), ""
	if !row.Noise.Proven {
		percent = fmt.Sprintf("%.1f%%", 100*row.Noise.StdErr/row.Noise.Multiplier)
	}
	certificate := aboutTime(row.CPU)
	switch {
	// σ satisfies one direction only, so the other one may need more noise, and more time.
	case row.Noise.OneDirection:
		sigma, certificate = "≥"+sigma, "≥"+certificate
	case !row.Noise.Proven:
		certificate = "~" + certificate
	}
	figures := []string{fmt.Sprintf("%.4g", row.BatchSize), sigma, percent, fmt.Sprintf("%.4g", row.Relative)}
	if row.MayBeWorse {
		figures[3] += " !"
	}
	if forgets {
		figures = append(figures, known(row.Forgetful))
	}
	figures = append(figures, known(row.StepNoise), known(row.SameAs), fmt.Sprintf("%.3g×", row.TimesEach), fmt.Sprintf("%.3g%%", 100*row.Kept), fmt.Sprint(row.State), certificate)
	for _, text := range figures {
		cells = append(cells, cell{text: text})
	}
	return tableRow{cells: cells}
}
