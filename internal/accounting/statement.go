package accounting

import (
	"fmt"
	"slices"
	"strings"

	"minsep/internal/words"
	"minsep/mechanism"
	"minsep/sampling"
)

// Statement returns a paragraph for a paper: whom the claim protects and against which change, ε
// and δ, how batches are formed and their expected size, the strategy, the noise multiplier, the
// way of verification, and the assumptions about the training and of the proof. Nothing in it is
// secret. It has the data's own nouns for whom the claim protects.
func (c *Certificate) Statement(nouns words.Nouns) string {
	var b strings.Builder
	if c.Status != Verified {
		fmt.Fprintf(&b, "Not proven (%s). By the published accounting, training", c.Reason)
	} else {
		b.WriteString("Training")
	}
	fmt.Fprintf(
		&b,
		" is (ε, δ) = (%g, %g)-differentially private for %s, under the adjacency “%s”.",
		c.Epsilon,
		c.Delta,
		c.Unit.Protected(c.Run, nouns),
		c.Adjacency,
	)
	if c.Graph != "" {
		fmt.Fprintf(&b, " The graph is not part of what differs: %s.", c.Graph)
	}
	for _, p := range c.Points[1:] {
		fmt.Fprintf(&b, " The same mechanism is (%g, %g)-differentially private.", p.Epsilon, p.Delta)
	}
	fmt.Fprintf(
		&b,
		" Batches are formed by %s. Gaussian noise of multiplier σ = %.6g (in units of the clip norm) is correlated by %s.",
		describeSampler(c.Run),
		c.NoiseMultiplier,
		describeStrategy(c.Run.Strategy),
	)
	fmt.Fprintf(&b, " The claim was %s.", c.verifiedBy())
	g := c.Guarantee()
	fmt.Fprintf(
		&b,
		" The advantage (true less false positive rate) of a membership test for the protected unit is %s",
		AtMost(g.Advantage()),
	)
	if a := g.Attacks()[0]; a.TPR < 1 {
		fmt.Fprintf(&b, ", its true positive rate %s at a false positive rate of %g", AtMost(a.TPR), a.FPR)
	}
	training, proof := cited(c.Assumptions)
	if len(training) > 0 {
		fmt.Fprintf(&b, ". It is assumed that %s", strings.Join(training, "; that "))
	}
	if len(proof) > 0 {
		fmt.Fprintf(&b, ". The proof rests on the following: %s", strings.Join(proof, "; "))
	}
	fmt.Fprintf(&b, ". Accounting: minsep %s, protocol SHA-256 %s.", c.CodeVersion, c.ProtocolSHA256)
	return b.String()
}

// ModelCard returns the contents of Statement as lines of Markdown for a model card.
func (c *Certificate) ModelCard(nouns words.Nouns) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "- **%s**: %s\n", name, fmt.Sprintf(format, args...))
	}
	b.WriteString("## Differential privacy\n\n")
	if c.Status != Verified {
		line("Status", "%s: %s", c.Status, c.Reason)
	}
	line("Guarantee", "ε = %g, δ = %g", c.Epsilon, c.Delta)
	for _, p := range c.Points[1:] {
		line("Also", "ε = %g, δ = %g", p.Epsilon, p.Delta)
	}
	line("Protected unit", "%s", c.Unit.Protected(c.Run, nouns))
	for _, f := range c.Facts() {
		line(f.Title, "%s", f.Text)
	}
	line("Sampling", "%s", describeSampler(c.Run))
	line(
		"Noise",
		"σ = %.6g in units of the clip norm, correlated by %s",
		c.NoiseMultiplier,
		describeStrategy(c.Run.Strategy),
	)
	line("Verification", "%s", c.verifiedBy())
	g := c.Guarantee()
	line("Membership attacks", "advantage %s", AtMost(g.Advantage()))
	for _, a := range g.Attacks() {
		fmt.Fprintf(&b, "  - true positive rate %s at a false positive rate of %g\n", AtMost(a.TPR), a.FPR)
	}
	line("Accounting", "minsep %s, protocol %s", c.CodeVersion, c.ProtocolSHA256)
	return b.String()
}

// cited returns the assumptions with their sources, split into clauses about the training and those
// that the proof uses.
func cited(list []Assumption) (training, proof []string) {
	for _, a := range list {
		text := fmt.Sprintf("%s (%s)", a.Text, a.Source)
		if len(proof) > 0 || slices.Contains(firstOfProof, a.Text) {
			proof = append(proof, text)
		} else {
			training = append(training, text)
		}
	}
	return training, proof
}

// describeBatch describes the expected size of batches, as far as the certificate determines it.
func describeBatch(r Run, units string) string {
	const many = 1_000_000
	switch s := r.Sampler.Scheme().(type) {
	case sampling.Fixed:
		return fmt.Sprintf(", with batches of %d %s", s.BatchSize, units)
	case sampling.Independent:
		if r.Sampler.Rotation != nil {
			units += " of a pool"
		}
		if r.Examples > 0 {
			return fmt.Sprintf(
				", with an expected batch size of %.6g of %d %s",
				s.ExpectedBatchSize(r.Examples),
				r.Examples,
				units,
			)
		}
		return fmt.Sprintf(
			", with an expected batch size of %.4g %% of the %s",
			100*s.ExpectedBatchSize(many)/many,
			units,
		)
	}
	return ""
}

func describeSampler(r Run) string {
	s := r.Sampler.Scheme()
	text, unit, units := fmt.Sprintf("%s sampling over %d steps", s.Name(), s.NumSteps()), "an example", "examples"
	if o := r.Sampler.Owners; o != nil {
		text = fmt.Sprintf(
			"%s sampling of owners over %d steps, each of whom brings at most %s",
			s.Name(),
			s.NumSteps(),
			words.Count(o.ExamplesPerOwner, "example"),
		)
		unit, units = "an owner", "owners"
	}
	text += describeBatch(r, units)
	if s.Separation() > 1 {
		text += fmt.Sprintf(", two participations of %s at least %d steps apart", unit, s.Separation())
	}
	if s := r.Sampler.Rotation; s != nil {
		text += fmt.Sprintf(
			", once in each period of %s for each example of the period's pool",
			words.Count(s.EpochSteps, "step"),
		)
	}
	if t := r.Sampler.Truncation; t != nil {
		text += fmt.Sprintf(", batches cut to %d %s at random", t.MaxBatchSize, units)
	}
	return text
}

func describeStrategy(s *mechanism.Strategy) string {
	if s.Kind == mechanism.KindIdentity {
		return "the identity strategy (independent noise)"
	}
	text := fmt.Sprintf("a strategy of kind %s with %d bands", s.Kind, s.Bands())
	if s.Normalized {
		text += " and normalised columns"
	}
	return text
}

// verifiedBy says how the first point was verified.
func (c *Certificate) verifiedBy() string {
	samples := uint64(0)
	for _, v := range c.Points[0].Directions {
		samples += v.Samples
	}
	switch {
	case c.Status != Verified:
		return "computed by the published accounting, which is not proven"
	case samples > 0:
		return fmt.Sprintf(
			"verified by %d fresh samples under a protocol fixed before the first of them; its failure probability, %.2g, is part of δ",
			samples,
			c.Points[0].FailureProbability,
		)
	}
	return fmt.Sprintf("proven without samples (%s)", c.Method)
}
