package accounting

import (
	"fmt"
	"strings"

	"minsep/mechanism"
)

// Statement is a paragraph for a paper: whom the claim protects and against what change, ε and δ,
// how batches are formed, the strategy, the noise multiplier, what is assumed, and how it was
// verified. Nothing in it is secret.
func (c *Certificate) Statement() string {
	var b strings.Builder
	if c.Status != Verified {
		fmt.Fprintf(&b, "Not proven (%s). By the published accounting, training", c.Reason)
	} else {
		b.WriteString("Training")
	}
	fmt.Fprintf(&b, " is (ε, δ) = (%g, %g)-differentially private for %s, under the adjacency “%s”.", c.Epsilon, c.Delta, c.Protected(), c.Adjacency)
	if c.Graph != "" {
		fmt.Fprintf(&b, " The graph is not part of what differs: %s.", c.Graph)
	}
	for _, p := range c.Points[1:] {
		fmt.Fprintf(&b, " The same mechanism is (%g, %g)-differentially private.", p.Epsilon, p.Delta)
	}
	fmt.Fprintf(&b, " Batches are formed by %s. Gaussian noise of multiplier σ = %.6g (in units of the clip norm) is correlated by %s.",
		describeSampler(c.Run), c.NoiseMultiplier, describeStrategy(c.Run.Strategy))
	fmt.Fprintf(&b, " The claim was %s.", c.verifiedBy())
	g := c.Guarantee()
	fmt.Fprintf(&b, " The advantage (true less false positive rate) of a membership test for the protected unit is %s, its true positive rate", AtMost(g.Advantage()))
	for i, a := range g.Attacks() {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " %s at a false positive rate of %g", AtMost(a.TPR), a.FPR)
	}
	b.WriteString(". It is assumed that ")
	for i, a := range c.Assumptions {
		if i > 0 {
			b.WriteString("; that ")
		}
		fmt.Fprintf(&b, "%s (%s)", a.Text, a.Source)
	}
	fmt.Fprintf(&b, ". Accounting: minsep %s, protocol SHA-256 %s.", c.CodeVersion, c.ProtocolSHA256)
	return b.String()
}

// ModelCard is the same as lines of Markdown for a model card.
func (c *Certificate) ModelCard() string {
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
	line("Protected unit", "%s", c.Protected())
	line("Adjacency", "%s", c.Adjacency)
	if c.Graph != "" {
		line("Example–owner graph", "%s", c.Graph)
	}
	line("Sampling", "%s", describeSampler(c.Run))
	line("Noise", "σ = %.6g in units of the clip norm, correlated by %s", c.NoiseMultiplier, describeStrategy(c.Run.Strategy))
	line("Verification", "%s", c.verifiedBy())
	g := c.Guarantee()
	line("Membership attacks", "advantage %s", AtMost(g.Advantage()))
	for _, a := range g.Attacks() {
		fmt.Fprintf(&b, "  - true positive rate %s at a false positive rate of %g\n", AtMost(a.TPR), a.FPR)
	}
	line("Accounting", "minsep %s, protocol %s", c.CodeVersion, c.ProtocolSHA256)
	return b.String()
}

func describeSampler(r Run) string {
	s := r.Sampler.Scheme()
	text, unit, units := fmt.Sprintf("%s sampling over %d steps", s.Name(), s.NumSteps()), "an example", "examples"
	if o := r.Sampler.Owners; o != nil {
		text = fmt.Sprintf("%s sampling of owners over %d steps, each of whom brings at most %d examples", s.Name(), s.NumSteps(), o.ExamplesPerOwner)
		unit, units = "an owner", "owners"
	}
	if s.Separation() > 1 {
		text += fmt.Sprintf(", two participations of %s at least %d steps apart", unit, s.Separation())
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
		return fmt.Sprintf("verified by %d fresh samples under a protocol fixed before the first of them; its failure probability, %.2g, is part of δ", samples, c.Points[0].FailureProbability)
	}
	return fmt.Sprintf("proven without samples (%s)", c.Method)
}
