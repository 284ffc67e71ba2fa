package planner

import (
	"fmt"
	"slices"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/words"
	"minsep/mechanism"
	"minsep/sampling"
)

// Name is a row in words.
func (row *Row) Name() string {
	name := row.Scheme.Scheme
	switch {
	case row.Scheme.Scheme == "poisson", row.Scheme.Scheme == sampling.LawScheme:
	case row.Scheme.Scheme == "balls-in-bins":
		name += fmt.Sprintf(" of %d", row.Scheme.MinSep)
	case row.Scheme.Scheme == "rotation":
		name += fmt.Sprintf(" of %d", row.Scheme.EpochSteps)
	default:
		name += fmt.Sprintf(" %d", row.Scheme.MinSep)
	}
	name += ", " + row.StrategyName()
	if row.samplesOwners() {
		name += fmt.Sprintf(
			", owners sampled with %d of at most %s",
			row.Scheme.ExamplesPerOwner,
			words.Count(row.MaxPerOwner, "example"),
		)
	} else if row.MaxPerOwner > 1 {
		name += fmt.Sprintf(", %s per owner", words.Count(row.MaxPerOwner, "example"))
	}
	return name
}

// samplesOwners says whether owners take part in place of examples.
func (row *Row) samplesOwners() bool { return row.Scheme.Sample == sampling.SampleOwners }

// StrategyName says in words which strategy a row has.
func (row *Row) StrategyName() string {
	switch s := row.Strategy; {
	case s.Lambda != nil:
		return fmt.Sprintf("%s %g", s.Kind, *s.Lambda)
	case s.Normalized != nil && *s.Normalized:
		return fmt.Sprintf("normalized %s %d", s.Kind, s.Bands)
	case s.Bands > 0:
		return fmt.Sprintf("%s %d", s.Kind, s.Bands)
	default:
		return s.Kind
	}
}

// explain says why the first is first, and what else the figures do not show.
func (out *Result) explain() {
	out.TooSmall = tooSmall(out)
	if len(out.Rows) == 0 || out.Rows[0].Refused != "" {
		out.Why = refusals(out)
		return
	}
	out.Why = append(out.Why, out.whyFirst())
	if out.Request.Workload.Optimizer == mechanism.Adam {
		out.Why = append(out.Why, forAdam)
	}
	if text := worseThanDPSGD(out.Rows); text != "" {
		out.Why = append(out.Why, text)
	}
	first := out.Rows[0]
	for _, row := range out.Rows {
		if row.Refused == "" && first.Kept < row.Kept/2 {
			out.MoreData = keepsMore(first, row)
			break
		}
	}
	out.Note = notes(out)
}

// whyFirst is the noise of the first row and, where another one has less, why that does not stand
// first.
func (out *Result) whyFirst() string {
	first, least := out.Rows[0], out.Rows[0]
	for _, row := range out.Rows {
		if row.Refused == "" && row.Relative < least.Relative {
			least = row
		}
	}
	of := fmt.Sprintf("%s in %s", out.Request.Objective, out.Request.errorOf())
	has := figure(first.Relative, first.StdErr) + " of the batch"
	if least == first {
		return fmt.Sprintf("%s has the least noise (%s): %s.", first.Name(), of, has)
	}
	return fmt.Sprintf(
		"%s has noise (%s) of %s, and row %d, %s, has %s, which is little less: among rows that the errors of their estimates hardly tell apart the first uses more data, is a strategy that no estimate chose, or has less noise in one step, which matters for Adam.",
		first.Name(),
		of,
		has,
		least.Rank,
		least.Name(),
		figure(least.Relative, least.StdErr),
	)
}

// tooSmall says how many candidates the maximum batch size leaves out, and names a size that serves the
// first of them; "" where it leaves out none.
func tooSmall(out *Result) string {
	left, suggested := 0, 0
	for _, row := range out.Rows {
		if row.Refused != "" && row.Truncation > calibration.MostTruncation {
			left++
			if size := row.SuggestedMaxBatchSize; size > 0 && (suggested == 0 || size < suggested) {
				suggested = size
			}
		}
	}
	if left == 0 {
		return ""
	}
	text := fmt.Sprintf(
		"--max-batch-size %d is too small for %s: cutting batches to it would add more than half of delta",
		out.Request.MaxBatchSize,
		words.Count(left, "candidate"),
	)
	if suggested == 0 {
		return text + "."
	}
	return fmt.Sprintf("%s; from %d on it costs at most %g %%: --max-batch-size %[2]d.", text, suggested, 100*accounting.SuggestedShare)
}

// keepsMore names the cost of a row that keeps more than twice the data of the first. The
// ranking does not look at lost data, and the reader has to.
func keepsMore(first, row *Row) string {
	return fmt.Sprintf(
		"The first keeps about %.3g %% of the examples, row %d keeps about %.3g %%: %s has %s noise; --row %d takes it.",
		100*first.Kept,
		row.Rank,
		100*row.Kept,
		row.Name(),
		words.Times(row.Relative/first.Relative),
		row.Rank,
	)
}

// mostReasons is how many reasons are given where nothing can be used.
const mostReasons = 5

// refusals say why no candidate can be used, the most frequent reason first, and the way out that
// is known.
func refusals(out *Result) []string {
	count, named := map[string]int{}, map[string]*Row{}
	var reasons []string
	for _, row := range out.Rows {
		if count[row.Refused] == 0 {
			reasons, named[row.Refused] = append(reasons, row.Refused), row
		}
		count[row.Refused]++
	}
	slices.SortStableFunc(reasons, func(a, b string) int { return count[b] - count[a] })
	if len(reasons) == 0 {
		return []string{"None is of the schemes and kinds that are asked for."}
	}
	var text []string
	for i, reason := range reasons {
		if i == mostReasons {
			text = append(text, words.Count(len(reasons)-i, "more reason")+".")
			break
		}
		who := named[reason].Name()
		if more := count[reason] - 1; more > 0 {
			who += fmt.Sprintf(" and %d more", more)
		}
		text = append(text, fmt.Sprintf("%s: %s.", who, reason))
	}
	return text
}

// figure is a number with its standard error.
func figure(value, stdErr float64) string {
	if stdErr == 0 {
		return fmt.Sprintf("%.4g", value)
	}
	return fmt.Sprintf("%.4g ± %.1g", value, stdErr)
}

// seconds writes a time of two digits.
func seconds(s float64) string {
	if s < 100 {
		return fmt.Sprintf("%.2g s", s)
	}
	return fmt.Sprintf("%.2g min", s/60)
}

// notes explain the figures.
func notes(out *Result) (list []string) {
	r, first := out.Request, out.Rows[0]
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	say("Noise multipliers with a ± are estimates and certify nothing; ≥ is of one direction of the divergence, and may be too small. minsep account certifies.")
	if slices.ContainsFunc(out.Rows, func(row *Row) bool { return row.MayBeWorse }) {
		say("%s", marked(out))
	}
	if first.samplesOwners() {
		say("The first samples owners: the trainer averages the gradients of what an owner brings, and clips the mean, once for each owner (docs/python.md, owners that take part). More of its examples each time, by examples_per_owner in the plan, take no more noise.")
	}
	if most := first.SuggestedMaxBatchSize; most > 0 {
		say("A maximum batch size of the first from %d on costs at most %g %% of delta: --max-batch-size %[1]d.", most, 100*accounting.SuggestedShare)
	}
	if r.Unit == accounting.UnitExample && r.Populations[0].MaxPerOwner > 1 {
		say("SINGLE EXAMPLES are protected, and no owner of several examples.")
	}
	if kinds := r.adapted(); len(kinds) > 0 {
		say("%s are made for constant learning rates, or for prefix sums in place of a file's workload, and measured on the one that is asked for.", words.List(kinds))
	}
	return append(list, r.tooLarge()...)
}
