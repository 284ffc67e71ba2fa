package report

import (
	"fmt"
	"math"

	"minsep/mechanism"
)

func (r *Run) sizes() *Section {
	batch := r.batchSize()
	if batch == 0 {
		return nil
	}
	s := &Section{ID: "sizes", Title: "Batch size and noise"}
	s.Facts = []Fact{{"Expected batch size", fmt.Sprintf("%.6g of %d", batch, r.copies())}}
	if o := r.Scheme.Owners; o != nil {
		s.Facts[0].Value += fmt.Sprintf(" owners, each with up to %d examples", o.ExamplesPerOwner)
	}
	if t := r.Scheme.Truncation; t != nil {
		s.Facts = append(s.Facts, Fact{"Maximum batch size", fmt.Sprint(t.MaxBatchSize)})
	}
	if band := batchBand(r.copies(), batch); band != nil && r.independent() != nil {
		s.Facts = append(s.Facts, Fact{"Band", fmt.Sprintf("%d to %d at a step, with probability %g (the scheme's distribution, before a maximum)", band.Low, band.High, band.Prob)})
	}
	c := r.Certificate
	if c == nil || c.Run.Strategy.Steps > mostSteps {
		return s
	}
	e, err := c.Run.Strategy.Error(mechanism.Prefix(c.Run.Strategy.Steps))
	if err != nil {
		return s
	}
	alone, err := mechanism.Identity(c.Run.Strategy.Steps).Error(mechanism.Prefix(c.Run.Strategy.Steps))
	if err != nil {
		return s
	}
	noise := e.Times(c.NoiseMultiplier)
	s.Facts = append(s.Facts,
		Fact{"Noise relative to the batch", fmt.Sprintf("%.4g: root mean square error of prefix sums of gradients, σ‖AC⁻¹‖/√n, over the expected batch size", noise.RMSE/batch)},
		Fact{"Largest of a step", fmt.Sprintf("%.4g (MaxSE, also over the batch size)", noise.MaxSE/batch)},
		Fact{"Independent noise of the same σ", fmt.Sprintf("%.4g, which is %.3g times as much", alone.Times(c.NoiseMultiplier).RMSE/batch, alone.RMSE/e.RMSE)})
	return s
}

// mostAlternatives is how many rows of a plan a page shows.
const mostAlternatives = 8

func (r *Run) alternatives() *Section {
	if len(r.Alternatives) == 0 {
		return nil
	}
	s := &Section{ID: "alternatives", Title: "Beside the alternatives of the plan", Columns: []string{"", "scheme", "min-sep", "strategy", "bands", "batch", "σ", "noise / batch", "worth"}}
	s.Text = []string{"The rows of the plan are estimates unless they say proven. This run is the first line, by its certificate and for prefix sums."}
	if v := r.noiseRelative(); !math.IsNaN(v) {
		c := r.Certificate
		s.Rows = append(s.Rows, []string{"this run", r.Scheme.Kind().Name, fmt.Sprint(r.Scheme.Scheme().Separation()), c.Run.Strategy.Kind, fmt.Sprint(c.Run.Strategy.Bands()),
			number(r.batchSize()), number(c.NoiseMultiplier), number(v), string(c.Status)})
	}
	for i, row := range r.Alternatives[:min(mostAlternatives, len(r.Alternatives))] {
		worth, deviation := "proven", ""
		if !row.Noise.Proven {
			worth, deviation = "estimated", " ± "+number(row.StdErr)
		}
		if row.Tied && i > 0 {
			worth += ", tied with the first"
		}
		s.Rows = append(s.Rows, []string{fmt.Sprint(i + 1), row.Scheme.Scheme, fmt.Sprint(row.Scheme.MinSep), row.Strategy.Kind, fmt.Sprint(row.Bands),
			number(row.BatchSize), number(row.Noise.Multiplier), number(row.Relative) + deviation, worth})
	}
	return s
}

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
	return s
}

func (r *Run) strategy() *Section {
	if r.Strategy == nil || r.Strategy.Steps > mostSteps {
		return nil
	}
	s := &Section{ID: "noise", Title: "Strategy and noise", Figures: matrices(r.Strategy)}
	s.Text = []string{"Training adds ζσC⁻¹z, with z independent and normal: negative entries of C⁻¹ take back a part of the noise of earlier steps."}
	if n := r.Noise; n != nil {
		s.Facts = []Fact{{"Coordinates", fmt.Sprint(n.Coordinates)}, {"Clip norm ζ", fmt.Sprintf("%g", float64(n.ClipNorm))},
			{"Noise multiplier σ", fmt.Sprintf("%g", float64(n.NoiseMultiplier))}, {"Grid", power(float64(n.Grid))}}
	}
	return s
}

func (r *Run) bounds() *Section {
	b := r.Bounded
	if b == nil {
		return nil
	}
	s := &Section{ID: "bound", Title: "What the bound kept and lost", Figures: bounding(b)}
	share := func(part, whole int64) string {
		if whole == 0 {
			return fmt.Sprint(part)
		}
		return fmt.Sprintf("%d, %.3g %%", part, 100*float64(part)/float64(whole))
	}
	s.Facts = []Fact{
		{"Examples given", fmt.Sprint(b.Examples)}, {"Kept", share(b.Kept, b.Examples)},
		{"Dropped, an owner was full", share(b.DroppedOwnerFull, b.Examples)},
		{"Dropped, the neighbourhood was too large", share(b.DroppedNeighborhood, b.Examples)},
		{"Owners", fmt.Sprint(b.Owners)}, {"Edges given, of kept examples", fmt.Sprintf("%d, %s", b.Edges, share(b.KeptEdges, b.Edges))},
		{"Equal edges merged", fmt.Sprint(b.DuplicateEdges)},
	}
	return s
}
