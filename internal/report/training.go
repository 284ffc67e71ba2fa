package report

import (
	"fmt"

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
	if step := r.StepNoise; step != nil {
		s.Facts = append(s.Facts, Fact{"Noise of a step", step.String()})
	}
	if b := r.Baseline; b != nil {
		text := fmt.Sprintf("%.4g, %.3g times as much as here", b.Relative, 1/b.Ratio)
		if b.Ratio > 1 {
			text = fmt.Sprintf("%.4g: THIS RUN HAS %.3g TIMES AS MUCH, and DP-SGD is better", b.Relative, b.Ratio)
		}
		text += fmt.Sprintf(
			". That is independent noise with Poisson sampling: for the same claim, steps and batch size it needs σ = %.4g, which is proven",
			b.NoiseMultiplier,
		)
		s.Facts = append(s.Facts, Fact{"The same with DP-SGD", text})
	}
	return s
}

// measure names the measure of noise of a workload.
func measure(workload mechanism.Params, steps int) string {
	workload.Steps = steps
	return "the root mean square error over the steps of the models of a training by " + workload.MadeFor().Describe(steps)
}

// bounds is the section on the examples that the bound kept and lost.
func bounds(r *Run) *section {
	b := r.Bounded
	if b == nil {
		return nil
	}
	s := &section{ID: "bound", Title: "What the bound kept and lost"}
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
