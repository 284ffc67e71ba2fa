package report

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"minsep/internal/ownergraph"
	"minsep/internal/planner"
	"minsep/internal/words"
	"minsep/mechanism"
)

// mostSteps bounds the work for the error of a strategy: that of a longer one is not shown.
const mostSteps = 200_000

// sizes is the section on batch size and noise.
func sizes(r *Run) *section {
	batch := r.batchSize()
	if batch == 0 {
		return nil
	}
	s := &section{ID: "sizes", Title: "Batch size and noise"}
	s.Facts = []Fact{{"Expected batch size", fmt.Sprintf("%.6g of %s", batch, words.Grouped(r.drawn()))}}
	if r.Scheme.Rotation != nil {
		s.Facts[0].Value += " examples of a pool"
	}
	if o := r.Scheme.Owners; o != nil {
		s.Facts[0].Value += fmt.Sprintf(" owners, each with up to %s", words.Count(o.ExamplesPerOwner, "example"))
	}
	if t := r.Scheme.Truncation; t != nil {
		s.Facts = append(s.Facts, Fact{"Maximum batch size", fmt.Sprint(t.MaxBatchSize)})
	}
	if band := batchBand(r.drawn(), batch); band != nil && r.independent() != nil {
		s.Facts = append(
			s.Facts,
			Fact{
				"Range of batch sizes",
				fmt.Sprintf(
					"%s to %s at a step, with probability %g (by the scheme, before any maximum)",
					words.Grouped(band.Low),
					words.Grouped(band.High),
					band.Prob,
				),
			},
		)
	}
	c := r.Certificate
	if c == nil || c.Run.Strategy.Steps > mostSteps {
		return s
	}
	workload := r.workload()
	s.Facts = append(
		s.Facts,
		Fact{
			"Noise relative to the batch",
			fmt.Sprintf(
				"%.4g: %s, over the expected batch size; less is better",
				r.noiseBy(workload, planner.RMSE),
				measure(workload, c.Run.Strategy.Steps),
			),
		},
		Fact{
			"Largest error of a step",
			fmt.Sprintf("%.4g (MaxSE, also over the batch size)", r.noiseBy(workload, planner.MaxSE)),
		},
	)
	if b := r.Baseline; b != nil {
		text := fmt.Sprintf("%.4g, %.3g times as much as here", b.Relative, 1/b.Ratio)
		if b.Ratio > 1 {
			text = fmt.Sprintf("%.4g: THIS RUN HAS %.3g TIMES AS MUCH, and DP-SGD is better", b.Relative, b.Ratio)
		}
		text += fmt.Sprintf(
			". That is independent noise with Poisson sampling: for the same claim, steps and batch size it needs σ = %.4g, which is proven",
			b.NoiseMultiplier,
		)
		if b.BatchSize > 0 {
			text += "; for the same noise as here it needs batches of " + words.Grouped(
				int64(math.Round(b.BatchSize)),
			)
		}
		s.Facts = append(s.Facts, Fact{"The same with DP-SGD", text})
	}
	return s
}

// measure names the measure of noise of a workload.
func measure(workload mechanism.Params, steps int) string {
	text := "the root mean square error over the steps"
	workload.Steps = steps
	switch name, training := workload.MadeFor(); name {
	case mechanism.PrefixWorkload:
		return text + " of prefix sums"
	default:
		return text + " of the models of a training by " + training.Describe(steps)
	}
}

// participations is the section on the distribution of participations by the scheme.
func participations(r *Run) *section {
	if r.Scheme == nil {
		return nil
	}
	l := participationsOf(*r.Scheme)
	if l == nil {
		return nil
	}
	one := r.participant()
	s := &section{ID: "law", Title: "Participations by the scheme"}
	s.Text = []string{
		fmt.Sprintf(
			"This is what the scheme does on average, by %s draws with a public key. It shows nothing of the batches of this run.",
			words.Grouped(int64(l.Draws)),
		),
	}
	if r.Scheme.Rotation != nil {
		one = "owner"
		s.Text = append(
			s.Text,
			"It is of an owner of whom every pool has an example. Other owners, and most examples, take part less often.",
		)
	}
	s.Tables = []table{shares("How often an "+one+" takes part", "times", "share of "+one+"s", l.Times)}
	if len(l.Gaps) > 0 {
		s.Tables = append(
			s.Tables,
			shares("How far apart its participations are", "steps", "share of gaps", l.Gaps),
		)
	}
	return s
}

// mostShares is the largest number of rows of a table of shares.
const mostShares = 30

// shares is a table of the shares of whole numbers that are not 0. Where these are many, a row sums
// the shares of several successive numbers.
func shares(title, number, share string, of []float64) table {
	start := 0
	for start < len(of)-1 && of[start] == 0 {
		start++
	}
	t := table{Title: title, Columns: []string{number, share}}
	size := max(1, (len(of)-start+mostShares-1)/mostShares)
	for k := start; k < len(of); k += size {
		sum := 0.0
		for _, v := range of[k:min(k+size, len(of))] {
			sum += v
		}
		name := strconv.Itoa(k)
		if size > 1 {
			name += "–" + strconv.Itoa(k+size-1)
		}
		if sum > 0 {
			t.Rows = append(t.Rows, row{[]string{name, fmt.Sprintf("%.3g", sum)}, sum})
		}
	}
	return t
}

// noiseOf is the section on the strategy and the noise.
func noiseOf(r *Run) *section {
	if r.Strategy == nil {
		return nil
	}
	s := &section{ID: "noise", Title: "Strategy and noise"}
	s.Text = []string{
		"Training adds ζσC⁻¹z, with z independent and normal: negative entries of C⁻¹ take back a part of the noise of earlier steps.",
	}
	s.Facts = []Fact{{"Strategy", described(r.Strategy)}}
	if n := r.Noise; n != nil {
		s.Facts = append(s.Facts,
			Fact{"Coordinates", words.Grouped(n.Coordinates)},
			Fact{"Clip norm ζ", fmt.Sprintf("%g", float64(n.ClipNorm))},
			Fact{"Noise multiplier σ", sixDigits(float64(n.NoiseMultiplier))},
			Fact{"Grid", power(float64(n.Grid))},
			Fact{"Random words", string(n.Words)})
		if step := r.Report.StepNoise; step != nil {
			s.Facts = append(s.Facts, Fact{"Noise of a step", step.String()})
		}
	}
	return s
}

// bounds is the section on the examples that the bound kept and lost.
func bounds(r *Run) *section {
	b := r.Bounded
	if b == nil {
		return nil
	}
	s := &section{
		ID:    "bound",
		Title: "What the bound kept and lost",
		Tables: []table{
			givenAndKept("Examples of an owner", "owners", b.GivenPerOwner, b.KeptPerOwner),
			givenAndKept("Owners of an example", "examples", b.GivenOwners, b.KeptOwners),
		},
	}
	share := func(part, whole int64) string {
		if whole == 0 {
			return words.Grouped(part)
		}
		return fmt.Sprintf("%s (%.3g %%)", words.Grouped(part), 100*float64(part)/float64(whole))
	}
	s.Facts = []Fact{
		{"Examples given", words.Grouped(b.Examples)},
		{"Kept", share(b.Kept, b.Examples)},
		{"Dropped, an owner was full", share(b.DroppedOwnerFull, b.Examples)},
		{"Dropped, the neighbourhood was too large", share(b.DroppedNeighborhood, b.Examples)},
		{
			"Owners",
			words.Grouped(b.Owners),
		},
		{"Owners without a kept example", share(b.KeptPerOwner.Of(0), b.Owners)},
		{"Edges given", words.Grouped(b.Edges)},
		{"Edges of kept examples", share(b.KeptEdges, b.Edges)},
		{"Duplicate edges merged", words.Grouped(b.DuplicateEdges)},
	}
	if c := b.Coverage; c != nil {
		s.Facts = append(
			s.Facts,
			Fact{"Pools", fmt.Sprintf("%d of %s examples", c.Pools, words.Grouped(c.Size))},
			Fact{
				"Most pools of an example",
				words.Grouped(c.Most()),
			},
			Fact{"Dropped, a pool was cut", share(c.DroppedCut, b.Examples)},
		)
	}
	return s
}

// givenAndKept is a table of two histograms, in bins that double: 0, 1, 2, 3–4, 5–8, … A bar is the
// kept share of what was given to the fullest bin.
func givenAndKept(title, of string, given, kept ownergraph.Histogram) table {
	t := table{Title: title, Columns: []string{"number", of + ", given", of + ", kept"}}
	before, after := binned(given), binned(kept)
	size := max(len(before), len(after))
	before = append(before, make([]int64, size-len(before))...)
	after = append(after, make([]int64, size-len(after))...)
	if size == 0 {
		return t
	}
	most := max(slices.Max(before), slices.Max(after), 1)
	for k := range size {
		name := strconv.Itoa(k)
		if k > 2 {
			name = fmt.Sprintf("%d–%d", 1<<(k-2)+1, 1<<(k-1))
		}
		t.Rows = append(t.Rows, row{
			Cells: []string{name, words.Grouped(before[k]), words.Grouped(after[k])},
			Bar:   float64(after[k]) / float64(most),
		})
	}
	return t
}

// binned sums a histogram into bins that double: 0, 1, 2, 3–4, 5–8, …
func binned(h ownergraph.Histogram) (counts []int64) {
	for _, b := range h {
		at := 0
		if b.Value > 0 {
			at = 1 + bits.Len64(uint64(b.Value-1))
		}
		for len(counts) <= at {
			counts = append(counts, 0)
		}
		counts[at] += b.Count
	}
	return counts
}
