package planner

import (
	"fmt"
	"math"
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
	if row.Plan != "" {
		name = row.Plan + ": " + name
	}
	switch {
	case row.Scheme.Scheme == "poisson":
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

// explain says why the first is first, and how much worse the next best is.
func (out *Result) explain() {
	if len(out.Rows) == 0 || out.Rows[0].Refused != "" {
		out.Why = refusals(out)
		return
	}
	first := out.Rows[0]
	why := func(format string, args ...any) { out.Why = append(out.Why, fmt.Sprintf(format, args...)) }
	if out.TooSmall = tooSmall(out); out.TooSmall != "" {
		why("%s", out.TooSmall)
	}
	why("%s", out.whyFirst(first))
	if text := forAdam(out); text != "" {
		why("%s", text)
	}
	if text := worseThanDPSGD(out.Rows); text != "" {
		why("%s", text)
	}
	sampling, same := "Poisson sampling", sameAs(first)
	if first.samplesOwners() {
		sampling = "Poisson sampling of owners"
	}
	if row := independentBeside(out.Rows); row != nil {
		at := "at this batch size"
		if row.BatchSize != first.BatchSize {
			at = fmt.Sprintf("with batches of %.4g", row.BatchSize)
		}
		why(
			"Independent noise with %s has %.3g times as much %s%s.",
			sampling,
			row.Relative/first.Relative,
			at,
			same,
		)
	}
	out.Why = append(out.Why, tiedWith(out.Rows)...)
	if next := out.Next(); next != nil {
		why("Next is row %d, %s, with %s%s.", next.Rank, next.Name(), beside(next, first), instead(first, next))
	}
	for _, row := range out.Rows {
		if row.Refused == "" && first.Kept < row.Kept/2 {
			out.MoreData = keepsMore(first, row)
			break
		}
	}
	out.Note = notes(out)
}

// whyFirst is the noise of the first row, and why another one with less does not stand first.
func (out *Result) whyFirst(first *Row) string {
	r := out.Request
	objective := map[string]string{RMSE: "root mean square noise", MaxSE: "largest noise", LastSE: "noise", LateSE: "root mean square noise"}[r.Objective]
	least := first
	for _, row := range out.Rows {
		if row.Refused == "" && row.Relative < least.Relative {
			least = row
		}
	}
	switch {
	case least == first:
		return fmt.Sprintf(
			"%s has the least %s in %s: %s of the expected batch size %.4g.",
			first.Name(),
			objective,
			r.errorOf(),
			figure(first.Relative, first.StdErr),
			first.BatchSize,
		)
	default:
		reason := "amplified strategies, which an estimate chose, stand first only where they are ahead by more than these errors"
		switch {
		case first.Kept <= sameData*least.Kept && r.Workload.Optimizer == mechanism.Adam && first.StepNoise < least.StepNoise:
			reason = fmt.Sprintf(
				"with Adam the least noise of one step then stands first, %.3g times DP-SGD's in place of %.3g",
				first.StepNoise,
				least.StepNoise,
			)
		case first.Kept > sameData*least.Kept:
			reason = fmt.Sprintf(
				"the first uses %.3g %% of the examples in place of %.3g %%",
				100*first.Kept,
				100*least.Kept,
			)
		}
		return fmt.Sprintf(
			"%s has a %s in %s of %s of the expected batch size %.4g. Row %d, %s, has %s: the errors of the estimates are larger than the difference, and %s.",
			first.Name(),
			objective,
			r.errorOf(),
			figure(first.Relative, first.StdErr),
			first.BatchSize,
			least.Rank,
			least.Name(),
			figure(least.Relative, least.StdErr),
			reason,
		)
	}
}

// tiedWith says how many rows have exactly as much as the first, and how many cannot be told from
// it.
func tiedWith(rows []*Row) (text []string) {
	equal, tied := 0, 0
	for _, row := range rows[1:] {
		switch {
		case row.Refused != "":
		case row.Relative == rows[0].Relative:
			equal++
		case row.Tied:
			tied++
		}
	}
	switch {
	case equal == 1:
		text = append(text, "One more has exactly as much.")
	case equal > 1:
		text = append(text, fmt.Sprintf("%d more have exactly as much.", equal))
	}
	if tied > 0 {
		text = append(
			text,
			fmt.Sprintf(
				"%d more cannot be told from it: the errors of the estimates are larger than the difference. Choose among them by what else the table says.%s",
				tied,
				provenTied(rows),
			),
		)
	}
	return text
}

// tooSmall says that the maximum batch size leaves out better mechanisms than the first, and
// names a size that does not; "" where it leaves out none.
func tooSmall(out *Result) string {
	first, left := out.Rows[0], 0
	var best *Row
	for _, row := range out.Rows {
		if !row.cutTooMuch() {
			continue
		}
		left++
		if best == nil || row.uncut() < best.uncut() {
			best = row
		}
	}
	if best == nil || best.uncut() >= first.Relative {
		return ""
	}
	text := fmt.Sprintf(
		"--max-batch-size %d is too small for %s: cutting batches to it would add more than half of delta. Among them, %s has %.2g times less noise than the first without a maximum",
		out.Request.MaxBatchSize,
		words.Count(left, "candidate"),
		best.Name(),
		first.Relative/best.uncut(),
	)
	if best.SuggestedMaxBatchSize == 0 {
		return text + "."
	}
	return fmt.Sprintf(
		"%s; from %d on a maximum costs it at most %g %% of delta: --max-batch-size %d.",
		text,
		best.SuggestedMaxBatchSize,
		100*accounting.SuggestedShare,
		best.SuggestedMaxBatchSize,
	)
}

// cutTooMuch says whether a row is refused because its maximum batch size adds too much to δ.
func (row *Row) cutTooMuch() bool {
	return row.Refused != "" && row.Truncation > calibration.MostTruncation && row.Noise.Multiplier > 0
}

// uncut returns the error, over the batch size, that the row would have without a maximum batch
// size.
func (row *Row) uncut() float64 { return row.Noise.Multiplier * row.unit / row.BatchSize }

// independentBeside is DP-SGD with the population of the first row and its batch size, up to the
// hundredth by which epochs of whole steps change it; nil if that is not in the plan.
func independentBeside(rows []*Row) *Row {
	first := rows[0]
	for _, row := range rows[1:] {
		same := row.Scheme.Sample == first.Scheme.Sample && row.MaxPerOwner == first.MaxPerOwner &&
			math.Abs(row.BatchSize/first.BatchSize-1) < .01
		if row.Refused == "" && same && row.Scheme.Scheme == "poisson" && row.Bands == 1 {
			return row
		}
	}
	return nil
}

// provenTied names the best of the rows that cannot be told from the first and need no samples,
// where the first needs some: its certificate takes seconds.
func provenTied(rows []*Row) string {
	first := rows[0]
	if first.Noise.Proven {
		return ""
	}
	for _, row := range rows[1:] {
		if row.Refused == "" && row.Tied && row.Noise.Proven {
			return fmt.Sprintf(
				" Row %d, %s, is the best of them that is proven without samples: its certificate takes about %s of a processor, and the certificate of the first row %s.",
				row.Rank,
				row.Name(),
				seconds(row.CPU),
				seconds(first.CPU),
			)
		}
	}
	return ""
}

// Next is the first row behind the first that is not tied with it; nil if there is none.
func (out *Result) Next() *Row {
	for i, row := range out.Rows {
		if i > 0 && row.Refused == "" && !row.Tied && row.Relative != out.Rows[0].Relative {
			return row
		}
	}
	return nil
}

// beside says how much more noise a row has than the first: a lower bound may stand behind it with
// less.
func beside(row, first *Row) string {
	if more := 100 * (row.Relative/first.Relative - 1); more >= 0 {
		return fmt.Sprintf("%.2g %% more", more)
	}
	return fmt.Sprintf("%.2g %% less", 100*(1-row.Relative/first.Relative))
}

// keepsMore names the cost of a row that keeps more than twice the data of the first. The
// ranking does not look at lost data, and the reader has to.
func keepsMore(first, row *Row) string {
	text := fmt.Sprintf(
		"The first keeps %.3g %% of the examples, row %d keeps %.3g %%: %s has %s of the batch, %s",
		100*first.Kept,
		row.Rank,
		100*row.Kept,
		row.Name(),
		figure(row.Relative, row.StdErr),
		beside(row, first),
	)
	if row.Plan != "" {
		return text + "."
	}
	return fmt.Sprintf("%s; --row %d takes it.", text, row.Rank)
}

// mostReasons is how many reasons are given where nothing can be used.
const mostReasons = 5

// refusals say why no candidate can be used, the most frequent reason first, and the way out that
// is known.
func refusals(out *Result) []string {
	count, named := map[string]int{}, map[string]*Row{}
	var reasons []string
	suggested := 0
	for _, row := range out.Rows {
		if count[row.Refused] == 0 {
			reasons, named[row.Refused] = append(reasons, row.Refused), row
		}
		count[row.Refused]++
		if size := row.SuggestedMaxBatchSize; row.Truncation > calibration.MostTruncation && size > 0 && (suggested == 0 || size < suggested) {
			suggested = size
		}
	}
	slices.SortStableFunc(reasons, func(a, b string) int { return count[b] - count[a] })
	if len(reasons) == 0 {
		return []string{"No mechanism can be used: none is of the schemes and kinds that are asked for."}
	}
	text := []string{"No mechanism can be used:"}
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
	if suggested > 0 {
		text = append(
			text,
			fmt.Sprintf(
				"A maximum batch size of %d costs at most %g %% of delta: --max-batch-size %d.",
				suggested,
				100*accounting.SuggestedShare,
				suggested,
			),
		)
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

// sameAs says which batch size independent noise would need.
func sameAs(row *Row) string {
	units := "examples"
	if row.samplesOwners() {
		units = "owners"
	}
	if row.SameAs == 0 {
		return ", and needs batches of more than half of the " + units + " for the same"
	}
	return fmt.Sprintf(", and needs batches of %.3g %s for the same", row.SameAs, units)
}

// instead names the other differences of another row.
func instead(first, other *Row) string {
	text := ""
	say := func(format string, args ...any) {
		if text == "" {
			text = "; it "
		} else {
			text += ", "
		}
		text += fmt.Sprintf(format, args...)
	}
	if other.State < first.State {
		say("keeps %s a coordinate in place of %d", words.Count(other.State, "number"), first.State)
	}
	if other.CPU < 0.8*first.CPU && !other.Noise.OneDirection {
		say(
			"takes about %s of a processor for its certificate in place of %s",
			seconds(other.CPU),
			seconds(first.CPU),
		)
	}
	if other.Kept > first.Kept*sameData {
		say("uses %.3g %% of the examples in place of %.3g %%", 100*other.Kept, 100*first.Kept)
	}
	if other.Coverage > first.Coverage+0.01 {
		say("shows %.3g %% of these at least once in place of %.3g %%", 100*other.Coverage, 100*first.Coverage)
	}
	if other.Noise.Proven && !first.Noise.Proven {
		say("is proven without samples")
	}
	return text
}

// seconds writes a time of two digits.
func seconds(s float64) string {
	if s < 100 {
		return fmt.Sprintf("%.2g s", s)
	}
	return fmt.Sprintf("%.2g min", s/60)
}

// ownersNote names the duty of a trainer for a row that samples owners, and a row with exactly
// as much noise and without this duty.
func ownersNote(first *Row, others []*Row) string {
	text := "The first samples owners: the trainer averages the gradients of what an owner brings, and clips the mean, once for each owner (docs/python.md, owners that take part)."
	for _, row := range others {
		if row.Refused == "" && row.Relative == first.Relative && !row.samplesOwners() {
			return fmt.Sprintf(
				"%s Row %d needs as much noise, clips each example, and keeps %.3g %% of them.",
				text,
				row.Rank,
				100*row.Kept,
			)
		}
	}
	return text + " More than one of its examples each time, by examples_per_owner in the plan, takes no more noise."
}

// moreOwners says how more of the data is used with no more noise; "" where that is not known.
func moreOwners(r Request, first *Row) string {
	only := r.Populations[0]
	twin := first.Scheme.Scheme != "fixed" && first.Scheme.Scheme != "cyclic-poisson"
	if r.Sample != "" || r.Unit == accounting.UnitExample || r.Numbered || !twin || len(r.Populations) > 1 ||
		only.MaxPerOwner > 1 ||
		only.Owners == 0 ||
		only.Kept() > .5 {
		return ""
	}
	return "Where each example has one owner, --sample owners with a larger --max-per-owner uses more of them with no more noise: owners take part in place of examples."
}

// notes explain the figures.
func notes(out *Result) (list []string) {
	r := out.Request
	list = append(
		list,
		"Noise multipliers with a ± are estimates and certify nothing; ≥ is of one direction of the divergence, and may be too small. minsep account certifies.",
	)
	between := false // a row that is not tied stands above one that is
	for i, row := range out.Rows[1:] {
		between = between || row.Tied && i > 0 && !out.Rows[i].Tied
	}
	if between {
		list = append(
			list,
			fmt.Sprintf(
				"=1 is within %d standard errors of the first, by the errors of both: a row above it without the mark is known more closely, and is behind.",
				calibration.Apart,
			),
		)
	}
	if len(r.Populations) > 1 {
		list = append(
			list,
			"DP-SGD in \"as DP-SGD of\" has the k_u and the examples of the row, and samples owners where the row does: compare it between rows of the same k_u only.",
		)
	}
	if first := out.Rows[0]; first.samplesOwners() {
		list = append(list, ownersNote(first, out.Rows[1:]))
	}
	if most := out.Rows[0].SuggestedMaxBatchSize; most > 0 {
		list = append(
			list,
			fmt.Sprintf(
				"A maximum batch size of the first from %d on costs at most %g %% of delta: --max-batch-size %d.",
				most,
				100*accounting.SuggestedShare,
				most,
			),
		)
	}
	if slices.ContainsFunc(out.Rows, func(row *Row) bool { return row.MayBeWorse }) {
		list = append(list, marked(out))
	}
	if r.Unit == accounting.UnitExample && r.Populations[0].MaxPerOwner > 1 {
		list = append(list, "SINGLE EXAMPLES are protected, and no owner of several examples.")
	}
	if kinds := r.adapted(); len(kinds) > 0 {
		list = append(list, inWords(kinds)+" are made for constant learning rates, or for prefix sums in place of a file's workload, and measured on the one that is asked for.")
	}
	if len(r.Populations) > 1 {
		list = append(list, "What bounding keeps is from one random order, and differs a little in a run.")
	}
	if first := out.Rows[0]; first.Kept < 0.999 {
		per := fmt.Sprintf("with at most %d per owner", first.MaxPerOwner)
		if first.Pools > 0 {
			per = fmt.Sprintf("in %s, each with at most 1 per owner", words.Count(first.Pools, "pool"))
		}
		list = append(
			list,
			fmt.Sprintf(
				"The first uses %.3g %% of the examples (%d), %s.",
				100*math.Min(1, first.Kept),
				first.Examples,
				per,
			),
		)
	}
	if text := moreOwners(r, out.Rows[0]); text != "" {
		list = append(list, text)
	}
	return list
}
