package report

import (
	"fmt"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/words"
	"minsep/mechanism"
	"minsep/sampling"
)

// proven reports whether the claim of the run is proven: its certificate is verified, and no check
// is broken.
func (r *Run) proven() bool {
	return r.Certificate != nil && r.Certificate.Status == accounting.Verified && r.sound()
}

// promise is the section on the claim and whom it protects; nil without a certificate.
func (r *Run) promise() *Section {
	c := r.Certificate
	if c == nil {
		return nil
	}
	s := &Section{ID: "promise", Title: "What is promised, and to whom"}
	if !r.proven() {
		s.Title = "What is claimed and not proven, and for whom"
	}
	// A page may be read in parts: each section says for itself that nothing is proven.
	if !r.sound() {
		s.Text = append(s.Text, "Nothing is promised as long as a check is broken: this is only what a file of the directory says.")
	}
	if c.Unit == accounting.UnitExample {
		s.Text = append(s.Text, c.Protected()+".")
	}
	if taken := r.Report.Taken.String(); taken != "" {
		s.Text = append(s.Text, "In training, "+taken+".")
	}
	s.Facts = []Fact{{"Protected", c.Protected()}}
	for _, f := range c.Facts() {
		s.Facts = append(s.Facts, Fact{f.Question, f.Text})
	}
	s.Facts = append(s.Facts, Fact{"Guarantee", fmt.Sprintf("ε = %g, δ = %g", c.Epsilon, c.Delta)})
	// The first point is the claim; the others hold at the same noise.
	for _, p := range c.Points[1:] {
		s.Facts = append(s.Facts, Fact{"Also", fmt.Sprintf("ε = %g, δ = %g, at the same noise", p.Epsilon, p.Delta)})
	}
	s.Facts = append(s.Facts,
		Fact{"Status", string(c.Status)},
		Fact{"Noise multiplier σ", accounting.RoundedUp(c.NoiseMultiplier, 6) + ", in units of the clip norm"},
		Fact{"Sampling", sampled(c.Run.Sampler)},
		Fact{"Strategy", described(c.Run.Strategy)})
	return s
}

// sampled describes a sampler in a few words.
func sampled(s sampling.Spec) string {
	text := fmt.Sprintf("%s, %d steps, ", s.Kind().Name, s.Scheme().NumSteps())
	if s.Rotation != nil {
		return text + fmt.Sprintf("periods of %d", s.Rotation.EpochSteps)
	}
	return text + fmt.Sprintf("separation %d", s.Scheme().Separation())
}

// described describes a strategy in a few words.
func described(s *mechanism.Strategy) string {
	return s.Kind + ", " + words.Count(s.Bands(), "band")
}

// secret is the section on secrets. With ShowSecret it has the realised sizes and counts.
func (r *Run) secret(o Options) *Section {
	s := &Section{ID: "secret", Title: "What stays secret", List: []string{
		"The key file: it decides every batch and every noise value.",
		"The folder batches: who takes part when. The claim rests on nobody knowing it. How large the batches came out is secret too.",
		"The folder noise: whoever knows the noise can take it off the model. A recipe alone is no secret; it needs the key.",
	}}
	s.Text = []string{"All else here is public: the graph, the parameters, the strategy, the certificate with its ledger, and this page."}
	if realized := r.realized(); o.ShowSecret && realized != nil {
		s.Text = []string{"THIS PAGE IS SECRET: it holds what came out by chance, below. Do not pass it on."}
		s.Facts = []Fact{
			{"Participations", fmt.Sprintf("%s, expected %.6g with a standard deviation of %.4g", words.Grouped(realized.Participations), realized.Mean, realized.StandardDeviation)},
			{"Batches", fmt.Sprintf("%d to %d %ss", realized.SmallestBatch, realized.LargestBatch, r.participant())},
		}
		if realized.MostParticipations > 0 {
			s.Facts = append(s.Facts, Fact{"Most of one example", fmt.Sprint(realized.MostParticipations)})
		}
		if realized.MostParticipationsByUser > 0 {
			s.Facts = append(s.Facts, Fact{"Most of one owner", fmt.Sprint(realized.MostParticipationsByUser)})
		}
	}
	return s
}

// trainer is the section on the duties of the trainer, with the numbers of the run.
func (r *Run) trainer() *Section {
	s := &Section{ID: "trainer", Title: "What the trainer must do"}
	clip, grid := "to the clip norm", "the noise's grid"
	if n := r.Noise; n != nil {
		clip = fmt.Sprintf("to norm %g", float64(n.ClipNorm))
		if n.Grid == 0 {
			grid = ""
		} else {
			grid = "multiples of " + power(float64(n.Grid))
		}
	}
	s.List = append(s.List, "Use exactly the examples of batch t at step t: leave none out and add none. A batch may be empty; the step is taken all the same.",
		r.clipping(clip))
	if grid != "" {
		what := "each clipped gradient"
		if r.ofOwners() {
			what = "each clipped mean"
		}
		s.List = append(s.List, "Round "+what+" toward zero to "+grid+".")
	}
	s.List = append(s.List, "Add row t of the noise to the sum of step t, exactly once. Train no second model with the same run.")
	divisor := "the expected batch size"
	if r.ofOwners() {
		divisor = "the expected number of owners"
	}
	if b := r.batchSize(); b > 0 {
		divisor = fmt.Sprintf("%.6g, %s", b, divisor)
	}
	s.List = append(s.List, "Divide by "+divisor+", which is public, and not by the size of the batch, which is secret.")
	return s
}

// clipping says which vectors are clipped, to the clip norm or to its value.
func (r *Run) clipping(to string) string {
	if r.ofOwners() {
		return "Average the gradients of the examples that an owner brings, and clip the mean " + to +
			", once for each owner. Do not clip single examples in its place: the claim does not hold for that."
	}
	return "Clip each example's gradient " + to + "."
}

// ofOwners reports whether owners take part in place of examples.
func (r *Run) ofOwners() bool { return r.Scheme != nil && r.Scheme.Owners != nil }

// participant returns the word for one participant.
func (r *Run) participant() string {
	if r.ofOwners() {
		return "owner"
	}
	return "example"
}

// attacks is the section on the success of a membership test; nil without a certificate.
func (r *Run) attacks() *Section {
	c := r.Certificate
	if c == nil {
		return nil
	}
	g := c.Guarantee()
	proven := r.proven()
	s := &Section{ID: "attacks", Title: "What that means for an attack"}
	s.Text = []string{fmt.Sprintf("For an attacker who knows everything but whether the protected unit (%s) took part, and sees all that is released, the advantage over guessing is %s. "+
		"This follows from the points of the certificate alone; more points (minsep account --also-epsilon) make it sharper.", c.Protected(), accounting.AtMost(g.Advantage()))}
	if !proven {
		s.Text = append([]string{"Nothing in this section is proven, since the points are not."}, s.Text...)
	}
	s.Figures = []Figure{tradeoff(g, proven), r.curve()}
	if len(r.Curve) > 0 && !r.Curve[0].Proven {
		estimated := calibration.Attacks(r.Curve)
		text := fmt.Sprintf("By the estimated curve plus two standard errors, which certifies nothing, the advantage is %s", accounting.AtMost(estimated.Advantage))
		for _, a := range estimated.Rates {
			text += fmt.Sprintf(", the true positive rate at a false positive rate of %g is %s", a.FPR, accounting.AtMost(a.TPR))
		}
		s.Text = append(s.Text, text+".")
	}
	return s
}

// copies returns the number of copies of examples, or of owners, that take part independently.
func (r *Run) copies() int64 {
	switch {
	// The table counts owners without a kept example too: they do not take part.
	case r.ofOwners() && r.Bounded != nil:
		owners := int64(0)
		for _, bin := range r.Bounded.KeptPerOwner {
			if bin.Value > 0 {
				owners += bin.Count
			}
		}
		return owners
	case r.ofOwners() && r.Batches != nil:
		return r.Batches.Owners
	case r.Bounded != nil:
		return r.Bounded.KeptCopies
	case r.Batches != nil:
		return r.Batches.Examples
	case r.Certificate != nil:
		return r.Certificate.Run.Examples
	}
	return 0
}

// drawn returns the number of them from which a step draws: one pool serves at a time.
func (r *Run) drawn() int64 {
	switch {
	case r.Scheme == nil || r.Scheme.Rotation == nil:
		return r.copies()
	case r.Bounded != nil && r.Bounded.Coverage != nil:
		return r.Bounded.Coverage.Size
	case r.Certificate != nil:
		return r.Certificate.Run.Examples
	}
	return 0
}

// batchSize returns the expected batch size, 0 if it is not known.
func (r *Run) batchSize() float64 {
	if r.Batches != nil && r.Batches.ExpectedBatchSize != nil {
		return *r.Batches.ExpectedBatchSize
	}
	if s := r.independent(); s != nil && r.drawn() > 0 {
		return s.ExpectedBatchSize(r.drawn())
	}
	if r.Scheme != nil && r.Scheme.Fixed != nil {
		return float64(r.Scheme.Fixed.BatchSize)
	}
	return 0
}

// independent returns the scheme if its examples take part independently, or nil.
func (r *Run) independent() sampling.Independent {
	if r.Scheme == nil {
		return nil
	}
	s, _ := r.Scheme.Scheme().(sampling.Independent)
	return s
}
