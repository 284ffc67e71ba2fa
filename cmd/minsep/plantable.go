package main

import (
	"fmt"
	"io"
	"strings"

	"minsep/internal/accounting"
	"minsep/internal/planner"
	"minsep/internal/words"
	"minsep/sampling"
)

// planColumns returns the headings of the table.
func planColumns(out *planner.Result) []string {
	columns := []string{
		"row",
		"scheme, min-sep",
		"strategy",
		"k_u",
		"batch",
		"σ",
		"±",
		out.Request.Objective + "/batch",
	}
	if memory := float64(out.ShorterMemory); memory > 0 {
		columns = append(columns, fmt.Sprintf("at %.4g", memory))
	}
	return append(columns, "step", "each", "kept", "state", "certificate")
}

// printPlan prints the result of plan: three lines on the first row or, with all, the table of every
// candidate.
func printPlan(w io.Writer, out *planner.Result, all bool) {
	r := out.Request
	fmt.Fprintf(
		w,
		"(%.4g, %g)-DP, %s, ranked by %s relative to the batch,\n%s\n\n",
		r.Epsilon,
		r.Delta,
		plural(r.Steps, "step"),
		r.Objective,
		out.Training,
	)
	if n := r.Protected(); n > 0 {
		what := "owner"
		if r.Unit == accounting.UnitExample || r.Numbered {
			what = "example"
		}
		who := plural(n, what)
		if given := r.Populations[len(r.Populations)-1].GivenOwners; what == "owner" && given > n {
			who = fmt.Sprintf("%s who take part, of %s", who, words.Grouped(given))
		}
		fmt.Fprintf(
			w,
			"for each of %s: delta belongs well below one over their number, %.2g\n\n",
			who,
			1/float64(n),
		)
	}
	for _, why := range out.Weak {
		fmt.Fprintf(w, "weak: %s\n\n", why)
	}
	for _, text := range []string{out.TooSmall, out.MoreData} {
		if text != "" {
			fmt.Fprintf(w, "%s\n\n", text)
		}
	}
	if len(out.Rows) > 0 && out.Rows[0].Refused == "" {
		if !all {
			printFirst(w, out)
			return
		}
		printTable(w, out)
	}
	for _, text := range out.Why {
		fmt.Fprintln(w, text)
	}
	fmt.Fprintln(w)
	for _, text := range out.Note {
		fmt.Fprintln(w, text)
	}
}

// printTable prints every candidate.
func printTable(w io.Writer, out *planner.Result) {
	t := newTable(w)
	t.row("%s", strings.Join(planColumns(out), "\t"))
	for _, row := range out.Rows {
		t.row("%s", strings.Join(planRow(row, out.ShorterMemory > 0), "\t"))
	}
	t.Flush()
	fmt.Fprintln(w, "Less noise is better. The columns: minsep plan --help")
	fmt.Fprintln(w)
}

// printFirst says in three lines what the first row is, how much of the data takes part, and how
// much noise is left beside DP-SGD. Rows that are tied with it count as one.
func printFirst(w io.Writer, out *planner.Result) {
	first := out.Rows[0]
	usable, tied, independent := 0, 0, (*planner.Row)(nil)
	for _, row := range out.Rows {
		if row.Refused != "" {
			continue
		}
		usable++
		if row != first && row.Tied {
			tied++
		}
		same := row.Scheme.Sample == first.Scheme.Sample && row.MaxPerOwner == first.MaxPerOwner
		if independent == nil && same && row.Scheme.Scheme == "poisson" && row.Bands == 1 {
			independent = row
		}
	}
	standing := "among the best of " + plural(usable, "candidate") + ", and not worse than DP-SGD"
	if first.MayBeWorse {
		standing = "the least noise of " + plural(usable, "candidate") + ", and it may train worse than DP-SGD"
	}
	fmt.Fprintf(w, "took   %s: %s\n", first.Name(), standing)
	fmt.Fprintf(
		w,
		"data   %.3g %% of the examples (%s), batches of %.4g, each takes part %.3g times\n",
		100*first.Kept,
		words.Grouped(first.Examples),
		first.BatchSize,
		first.TimesEach,
	)
	fmt.Fprintf(w, "noise  %.4g of the batch", first.Relative)
	if independent != nil && independent != first {
		fmt.Fprintf(w, "; independent noise (DP-SGD) has %s", words.Times(independent.Relative/first.Relative))
	}
	if tied > 0 {
		fmt.Fprintf(w, "; %s cannot be told from it", plural(tied, "other"))
	}
	fmt.Fprintf(
		w,
		"\n\nNoise multipliers are estimates until a run certifies one. The table of every candidate, and why this one: --all\n",
	)
}

// known formats a positive figure; "-" if it is 0, which means unknown.
func known(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4g", x)
}

// planRow returns the entries of a row; of one that cannot be used, the reason after the first ones.
func planRow(row *planner.Row, forgets bool) []string {
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
	rank := fmt.Sprint(row.Rank)
	if row.Tied {
		rank += " =1"
	}
	if row.Refused != "" {
		rank = "-"
	}
	scheme := row.Scheme.Scheme + minSep
	cells := []string{rank, scheme, row.StrategyName(), fmt.Sprint(row.MaxPerOwner)}
	if row.Refused != "" {
		reason := "refused: " + row.Refused
		if strings.HasPrefix(row.Refused, planner.NotEstimated) {
			reason = row.Refused
		}
		return append(cells, reason)
	}
	sigma, percent := fmt.Sprintf("%.4g", row.Noise.Multiplier), ""
	if !row.Noise.Proven {
		percent = fmt.Sprintf("%.1f%%", 100*row.Noise.StdErr/row.Noise.Multiplier)
	}
	if row.Noise.OneDirection { // the other one may need more noise
		sigma = "≥" + sigma
	}
	certificate := "-"
	if row.CPU > 0 {
		certificate = "~" + budgetTime(row.CPU)
	}
	relative := fmt.Sprintf("%.4g", row.Relative)
	if row.MayBeWorse {
		relative += " !"
	}
	cells = append(cells, fmt.Sprintf("%.4g", row.BatchSize), sigma, percent, relative)
	if forgets {
		cells = append(cells, known(row.Forgetful))
	}
	return append(
		cells,
		known(row.StepNoise),
		fmt.Sprintf("%.3g×", row.TimesEach),
		fmt.Sprintf("%.3g%%", 100*row.Kept),
		fmt.Sprint(row.State),
		certificate,
	)
}
