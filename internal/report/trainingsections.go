package report

import (
	"fmt"
	"math"
	"slices"

	"minsep/internal/planner"
	"minsep/internal/words"
	"minsep/mechanism"
)

// sizes is the section on batch size and noise.
func (r *Run) sizes() *Section {
	batch := r.batchSize()
	if batch == 0 {
		return nil
	}
	s := &Section{ID: "sizes", Title: "Batch size and noise"}
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
		s.Facts = append(s.Facts, Fact{"Range of batch sizes", fmt.Sprintf("%s to %s at a step, with probability %g (by the scheme, before any maximum)", words.Grouped(band.Low), words.Grouped(band.High), band.Prob)})
	}
	c := r.Certificate
	if c == nil || c.Run.Strategy.Steps > mostSteps {
		return s
	}
	workload := r.workload()
	s.Facts = append(s.Facts,
		Fact{"Noise relative to the batch", fmt.Sprintf("%.4g: %s, over the expected batch size; less is better", r.noiseBy(workload, planner.RMSE), measure(workload, planner.RMSE, c.Run.Strategy.Steps))},
		Fact{"Largest error of a step", fmt.Sprintf("%.4g (MaxSE, also over the batch size)", r.noiseBy(workload, planner.MaxSE))})
	if b := r.Baseline; b != nil {
		text := fmt.Sprintf("%.4g, %.3g times as much as here", b.Relative, 1/b.Ratio)
		if b.Ratio > 1 {
			text = fmt.Sprintf("%.4g: THIS RUN HAS %.3g TIMES AS MUCH, and DP-SGD is better", b.Relative, b.Ratio)
		}
		text += fmt.Sprintf(". That is independent noise with Poisson sampling: for the same claim, steps and batch size it needs σ = %.4g, which is proven", b.NoiseMultiplier)
		if b.BatchSize > 0 {
			text += "; for the same noise as here it needs batches of " + threeDigits(b.BatchSize)
		}
		s.Facts = append(s.Facts, Fact{"The same with DP-SGD", text})
	}
	return s
}

// mostAlternatives is the largest number of rows of a plan on a page.
const mostAlternatives = 8

// alternatives is the section that sets the run beside the rows of a plan.
func (r *Run) alternatives() *Section {
	if r.Plan == nil {
		return nil
	}
	request := r.Plan.Request
	s := &Section{ID: "alternatives", Title: "Beside the alternatives of the plan", Columns: []string{"", "scheme", "min-sep", "strategy", "bands", "examples of an owner", "batch", "σ", "noise / batch", "status"}}
	var marks []mark
	comparable := true
	s.Text = []string{"The rows of the plan are estimates unless they say proven. This run is the first line, by its certificate. The noise is " + measure(request.Workload, request.Objective, request.Steps) + "."}
	if c := r.Certificate; c != nil {
		if c.Epsilon != request.Epsilon || c.Delta != request.Delta || c.Run.Strategy.Steps != request.Steps {
			comparable = false
			s.Text = append(s.Text, fmt.Sprintf("The plan is for (%.6g, %.6g) and %d steps, this run for (%.6g, %.6g) and %d: their noise is not comparable.",
				request.Epsilon, request.Delta, request.Steps, c.Epsilon, c.Delta, c.Run.Strategy.Steps))
		}
		if v := r.noiseBy(request.Workload, request.Objective); !math.IsNaN(v) {
			s.Rows = append(s.Rows, []string{"this run", r.Scheme.Kind().Name, fmt.Sprint(r.Scheme.Scheme().Separation()), c.Run.Strategy.Kind, fmt.Sprint(c.Run.Strategy.Bands()), fmt.Sprint(c.Run.MaxExamplesPerOwner),
				number(r.batchSize()), number(c.NoiseMultiplier), number(v), string(c.Status)})
			marks = append(marks, mark{label: "this run", value: v})
		}
	}
	for _, row := range shown(r.Plan.Rows) {
		worth, deviation, minSep := "proven", "", ""
		if !row.Noise.Proven {
			worth, deviation = "estimated", " ± "+number(row.StdErr)
		}
		if row.Tied && row.Rank > 1 {
			worth += ", tied with the first"
		}
		if row.Scheme.MinSep > 0 {
			minSep = fmt.Sprint(row.Scheme.MinSep)
		}
		s.Rows = append(s.Rows, []string{fmt.Sprint(row.Rank), row.Scheme.Scheme, minSep, row.Strategy.Kind, fmt.Sprint(row.Bands), fmt.Sprint(row.MaxPerOwner),
			number(row.BatchSize), number(row.Noise.Multiplier), number(row.Relative) + deviation, worth})
		at := mark{label: fmt.Sprint(row.Rank), value: row.Relative}
		if !row.Noise.Proven {
			at.error = 2 * row.StdErr
		}
		if at.value > 0 && at.error >= 0 && at.value+at.error < 1e300 {
			marks = append(marks, at)
		}
	}
	if comparable && len(marks) > 0 {
		s.Figures = []Figure{ranking(marks)}
	}
	return s
}

// measure names the measure of noise by which a plan ranks its rows.
func measure(workload mechanism.Params, objective string, steps int) string {
	text := "the root mean square error over the steps"
	switch objective {
	case planner.MaxSE:
		text = "the largest error of a step"
	case planner.LastSE:
		text = "the error after the last step"
	case planner.LateSE:
		text = "the root mean square error over the second half of the steps"
	}
	workload.Steps = steps
	switch name, training := workload.MadeFor(); name {
	case mechanism.PrefixWorkload:
		text += " of prefix sums"
	case mechanism.MomentumWorkload:
		text += fmt.Sprintf(" of sums with momentum %g", training.Momentum)
	case mechanism.TrainingWorkload:
		text += " of the models of a training by " + training.Describe(steps)
	default:
		text += " of sums by a file, which is not at hand for this run"
	}
	return text
}

// shown returns the first rows of a plan, and the first row of DP-SGD.
func shown(rows []*planner.Row) []*planner.Row {
	list := slices.Clone(rows[:min(mostAlternatives, len(rows))])
	isDPSGD := func(row *planner.Row) bool { return row.Scheme.Scheme == "poisson" && row.Bands == 1 }
	if i := slices.IndexFunc(rows, isDPSGD); i >= len(list) {
		list = append(list, rows[i])
	}
	return list
}

// participations is the section on the distribution of participations by the scheme.
func (r *Run) participations() *Section {
	if r.Scheme == nil {
		return nil
	}
	l := participationsOf(*r.Scheme)
	if l == nil {
		return nil
	}
	s := &Section{ID: "law", Title: "Participations by the scheme", Figures: l.figures(r.participant())}
	s.Text = []string{"This is what the scheme does on average. It is drawn for this page, and shows nothing of the batches of this run."}
	if r.Scheme.Rotation != nil {
		s.Figures = l.figures("owner")
		s.Text = append(s.Text, "It is of an owner of whom every pool has an example. Other owners, and most examples, take part less often.")
	}
	return s
}

// strategy is the section on the strategy and the noise.
func (r *Run) strategy() *Section {
	if r.Strategy == nil || r.Strategy.Steps > mostSteps {
		return nil
	}
	s := &Section{ID: "noise", Title: "Strategy and noise", Figures: matrices(r.Strategy)}
	s.Text = []string{"Training adds ζσC⁻¹z, with z independent and normal: negative entries of C⁻¹ take back a part of the noise of earlier steps."}
	if n := r.Noise; n != nil {
		s.Facts = []Fact{{"Coordinates", words.Grouped(n.Coordinates)}, {"Clip norm ζ", fmt.Sprintf("%g", float64(n.ClipNorm))},
			{"Noise multiplier σ", fmt.Sprintf("%.6g", float64(n.NoiseMultiplier))}, {"Grid", power(float64(n.Grid))}, {"Random words", string(n.Words)}}
		if step := r.Report.StepNoise; step != nil {
			s.Facts = append(s.Facts, Fact{"Noise of a step", step.String()})
		}
	}
	return s
}

// bounds is the section on the examples that the bound kept and lost.
func (r *Run) bounds() *Section {
	b := r.Bounded
	if b == nil {
		return nil
	}
	s := &Section{ID: "bound", Title: "What the bound kept and lost", Figures: bounding(b)}
	share := func(part, whole int64) string {
		if whole == 0 {
			return words.Grouped(part)
		}
		return fmt.Sprintf("%s (%.3g %%)", words.Grouped(part), 100*float64(part)/float64(whole))
	}
	s.Facts = []Fact{
		{"Examples given", words.Grouped(b.Examples)}, {"Kept", share(b.Kept, b.Examples)},
		{"Dropped, an owner was full", share(b.DroppedOwnerFull, b.Examples)},
		{"Dropped, the neighbourhood was too large", share(b.DroppedNeighborhood, b.Examples)},
		{"Owners", words.Grouped(b.Owners)}, {"Owners without a kept example", share(b.KeptPerOwner.Of(0), b.Owners)}, {"Edges given", words.Grouped(b.Edges)}, {"Edges of kept examples", share(b.KeptEdges, b.Edges)},
		{"Duplicate edges merged", words.Grouped(b.DuplicateEdges)},
	}
	if c := b.Coverage; c != nil {
		s.Facts = append(s.Facts, Fact{"Pools", fmt.Sprintf("%d of %s examples", c.Pools, words.Grouped(c.Size))},
			Fact{"Most pools of an example", words.Grouped(c.Most())}, Fact{"Dropped, a pool was cut", share(c.DroppedCut, b.Examples)})
	}
	return s
}
