package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"minsep/internal/accounting"
	"minsep/internal/words"
	"minsep/sampling"
)

// sign states for somebody who signs, in plain sentences, whom the promise protects, what an
// attacker gains, and what the promise rests on. It returns nil if nothing is proven.
func sign(r *Run) []string {
	if !r.proven() {
		return nil
	}
	c := r.Certificate
	who := r.protected()
	if n := r.Owners; n > 0 {
		who += fmt.Sprintf(" (one of %s)", words.Grouped(n))
	}
	attack := "What an attacker gains: "
	rate := c.AttackBounds().Rates[1]
	if rate.TPR >= accounting.WeakBound {
		attack += "this claim does not bound it. Somebody who sees all that this training releases may be as good as certain of whose data took part."
	} else {
		attack += fmt.Sprintf(
			"somebody who sees all that this training releases, and accuses one in %.0f of those whose data did not take part, finds at most %s in 100 of those whose data did.",
			1/rate.FPR,
			accounting.RoundedUp(100*rate.TPR, 3),
		)
	}
	text := []string{
		"Whom it protects: " + who + ".",
		attack,
		fmt.Sprintf(
			"The promise in numbers: training is (ε = %g, δ = %g)-differentially private%s.",
			c.Epsilon,
			c.Delta,
			replaced(c, r.Owners),
		),
		"What it rests on: that the trainer clips, adds the noise and keeps the batches secret as this page says, and that nobody else has the key.",
	}
	for _, why := range r.Weak {
		text = append(text, "This promise is weak: "+why+".")
	}
	if r.Kept != "" {
		text = append(text, "Data: "+r.Kept+".")
	}
	return text
}

// replaced states the claim for data that are replaced by other data in place of being left out:
// two claims one after the other. It says so if that claim is weak for this number of owners; 0
// stands for an unknown number.
func replaced(c *accounting.Certificate, owners int64) string {
	delta := c.Delta * (1 + math.Exp(c.Epsilon))
	if delta >= 1 {
		return "; nothing follows for data that are replaced by others in place of being left out"
	}
	text := fmt.Sprintf(
		"; for data that are replaced by others in place of being left out, ε = %g and δ = %s",
		2*c.Epsilon,
		accounting.RateUp(delta),
	)
	if owners > 0 && delta*float64(owners) >= 1 {
		text += fmt.Sprintf(
			", which is weak: this δ is not below 1/%s, one over their number",
			words.Grouped(owners),
		)
	}
	return text
}

// promise is the section on the claim and whom it protects; nil without a certificate.
func promise(r *Run) *section {
	c := r.Certificate
	if c == nil {
		return nil
	}
	s := &section{ID: "promise", Title: "What is promised, and to whom"}
	if !r.proven() {
		s.Title = "What is claimed and not proven, and for whom"
	}
	// A page may be read in parts: each section says for itself that nothing is proven.
	if !r.sound() {
		s.Text = append(
			s.Text,
			"Nothing is promised as long as a check is broken: this is only what a file of the directory says.",
		)
	}
	if c.Unit == accounting.UnitExample {
		s.Text = append(s.Text, r.protected()+".")
	}
	if taken := r.Taken.String(); taken != "" {
		s.Text = append(s.Text, "In training, "+taken+".")
	}
	s.Facts = []Fact{{"Protected", r.protected()}}
	for _, f := range c.Facts() {
		s.Facts = append(s.Facts, Fact{f.Question, f.Text})
	}
	s.Facts = append(s.Facts, Fact{"Guarantee", fmt.Sprintf("ε = %g, δ = %g", c.Epsilon, c.Delta)})
	// The first point is the claim; the others hold at the same noise.
	for _, p := range c.Points[1:] {
		s.Facts = append(
			s.Facts,
			Fact{"Also", fmt.Sprintf("ε = %g, δ = %g, at the same noise", p.Epsilon, p.Delta)},
		)
	}
	s.Facts = append(s.Facts,
		Fact{"Status", string(c.Status)},
		Fact{"Noise multiplier σ", accounting.RoundedUp(c.NoiseMultiplier, 6) + ", in units of the clip norm"},
		Fact{"Sampling", sampled(c.Run.Sampler)},
		Fact{"Strategy", c.Run.Strategy.Kind + ", " + words.Count(c.Run.Strategy.Bands(), "band")})
	for _, released := range r.Statistics {
		s.Facts = append(s.Facts, Fact{
			"Statistics " + released.Name,
			released.Claim() + "; this adds to the guarantee above: minsep compose says to what",
		})
	}
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

// secret is the section on secrets.
func secret() *section {
	return &section{
		ID:    "secret",
		Title: "What stays secret",
		Text: []string{
			"All else here is public: the graph, the parameters, the strategy, the certificate with its ledger, and this page.",
		},
		List: []string{
			"The key file: it decides every batch and every noise value.",
			"The folder batches: who takes part when. The claim rests on nobody knowing it. How large the batches came out is secret too.",
			"The folder noise: whoever knows the noise can take it off the model. A recipe alone is no secret; it needs the key.",
		},
	}
}

// trainer is the section on the duties of the trainer, with the numbers of the run.
func trainer(r *Run) *section {
	s := &section{ID: "trainer", Title: "What the trainer must do"}
	clip, grid := "to the clip norm", "the noise's grid"
	if n := r.Noise; n != nil {
		clip = fmt.Sprintf("to norm %g", float64(n.ClipNorm))
		if n.Grid == 0 {
			grid = ""
		} else {
			grid = "multiples of " + power(float64(n.Grid))
		}
	}
	s.List = append(
		s.List,
		"Use exactly the examples of batch t at step t: leave none out and add none. A batch may be empty; the step is taken all the same.",
		clipping(r, clip),
	)
	if grid != "" {
		what := "each clipped gradient"
		if r.ofOwners() {
			what = "each clipped mean"
		}
		s.List = append(s.List, "Round "+what+" toward zero to "+grid+".")
	}
	s.List = append(
		s.List,
		"Add row t of the noise to the sum of step t, exactly once. Train no second model with the same run.",
	)
	divisor := "the expected batch size"
	if r.ofOwners() {
		divisor = "the expected number of owners"
	}
	if b := r.batchSize(); b > 0 {
		divisor = fmt.Sprintf("%.6g, %s", b, divisor)
	}
	s.List = append(
		s.List,
		"Divide by "+divisor+", which is public, and not by the size of the batch, which is secret.",
	)
	return s
}

// clipping says which vectors are clipped, to the clip norm or to its value.
func clipping(r *Run, to string) string {
	if r.ofOwners() {
		return "Average the gradients of the examples that an owner brings, and clip the mean " + to +
			", once for each owner. Do not clip single examples in its place: the claim does not hold for that."
	}
	return "Clip each example's gradient " + to + "."
}

// attacks is the section on the success of a membership test; nil without a certificate.
func attacks(r *Run) *section {
	c := r.Certificate
	if c == nil {
		return nil
	}
	g := c.Guarantee()
	s := &section{ID: "attacks", Title: "What that means for an attack"}
	s.Text = []string{
		fmt.Sprintf(
			"For an attacker who knows everything but whether the protected unit (%s) took part, and sees all that is released, the advantage over guessing is %s. "+
				"This follows from the points of the certificate alone; more points (minsep account --also-epsilon) make it sharper.",
			r.protected(),
			accounting.AtMost(g.Advantage()),
		),
	}
	if !r.proven() {
		s.Text = append([]string{"Nothing in this section is proven, since the points are not."}, s.Text...)
	}
	rates := table{
		Title:   "What an attack can do",
		Columns: []string{"false positive rate", "true positive rate, at most"},
		Note:    "Of those whose data did not take part, the first share is accused; of those whose data did, at most the second is found. Guessing finds as many as it accuses.",
	}
	for _, fpr := range []float64{1e-4, 1e-3, 0.01, 0.1, 0.5} {
		tpr := g.TPR(fpr)
		most := "not bounded"
		if tpr < 1 {
			most = accounting.RateUp(tpr)
		}
		rates.Rows = append(rates.Rows, row{[]string{number(fpr), most}, tpr})
	}
	s.Tables = []table{rates}
	return s
}

// verification is the section on what the proof assumes, and on how much of δ it took.
func verification(r *Run) *section {
	c := r.Certificate
	if c == nil {
		return nil
	}
	s := &section{ID: "verification", Title: "How it was verified"}
	s.Facts = []Fact{
		{"Method", string(c.Method)},
		{"Failure probability", fmt.Sprintf("%.4g, a part of every δ", c.Points[0].FailureProbability)},
		{"Protocol", c.ProtocolSHA256},
	}
	s.Text = []string{
		"The certificate has the proof of each direction of each point, and its ledger the noise multipliers that were tried and the sums of their samples. minsep inspect computes them again.",
	}
	for _, a := range c.Assumptions {
		s.List = append(s.List, "Assumed: "+a.Text+" ("+a.Source+").")
	}
	return s
}

// number writes four significant digits.
func number(v float64) string {
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// data answers further questions of a reader: how many examples are kept, of how many, the expected
// batch size, and the clip norm, as far as the directory knows them.
func data(r *Run) string {
	var parts []string
	if b := r.Bounded; b != nil {
		parts = append(
			parts,
			fmt.Sprintf("%s of %s examples are kept", words.Grouped(b.Kept), words.Grouped(b.Examples)),
		)
	}
	if size := r.batchSize(); size > 0 {
		parts = append(parts, fmt.Sprintf("the expected batch size is %.6g %ss", size, r.participant()))
	}
	if r.Noise != nil && r.Noise.ClipNorm > 0 {
		parts = append(parts, fmt.Sprintf("the clip norm is %g", float64(r.Noise.ClipNorm)))
	}
	if len(parts) == 0 {
		return ""
	}
	return " In this training, " + strings.Join(parts, ", ") + "."
}

// cite is the section of texts for a paper and a model card.
func cite(r *Run) *section {
	if r.Certificate == nil || !r.sound() { // nobody is to paste a claim that does not hold
		return nil
	}
	paper, card := r.Certificate.Statement(r.Nouns())+data(r), r.Certificate.ModelCard(r.Nouns())
	for _, f := range []Fact{replacement(r), together(r)} {
		if f.Value != "" {
			paper += " " + f.Value
			card += fmt.Sprintf("- **%s**: %s\n", f.Name, f.Value)
		}
	}
	return &section{
		ID:     "cite",
		Title:  "To paste",
		Text:   []string{"For a paper and for a model card."},
		Quotes: []quote{{"A paper", paper}, {"A model card", card}},
	}
}

// replacement states the claim for data of an owner that are replaced by other data, and not by
// zeros. These are two steps of the adjacency, so the claim is (2ε, (1 + e^ε) δ) by group privacy.
// The value is empty if that δ is 1 or more, or if nothing is proven.
func replacement(r *Run) Fact {
	c := r.Certificate
	delta := (1 + math.Exp(c.Epsilon)) * c.Delta
	if c.Status != accounting.Verified || delta >= 1 {
		return Fact{}
	}
	return Fact{
		"Replacement",
		fmt.Sprintf(
			"Where other data take the place of the protected unit's, and not zeros, training is (%g, %s)-differentially private: (2ε, (1 + e^ε)δ), two steps of the adjacency.",
			2*c.Epsilon,
			accounting.RateUp(delta),
		),
	}
}

// together names the runs from which this one has taken over. The value is empty if there are none,
// or if nothing is proven.
func together(r *Run) Fact {
	if r.Info == nil || r.Certificate.Status != accounting.Verified || len(r.Info.Earlier) == 0 {
		return Fact{}
	}
	text := "The claim is for this training alone. Its table, strategy or certificate are from " + words.Count(len(r.Info.Earlier), "run") +
		" before, on the same data; minsep compose adds up the claims of several trainings."
	return Fact{"Other trainings", text + " Every training counts of which anything was looked at."}
}
