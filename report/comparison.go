package report

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"minsep/accounting"
	"minsep/inspect"
	"minsep/internal/words"
)

// WriteComparison writes a page of two runs beside each other.
func WriteComparison(w io.Writer, a, b *Run) error {
	nameA, nameB := names(a.Dir, b.Dir)
	name := map[*Run]string{b: nameB, a: nameA}
	p := page{Title: "minsep: " + nameA + " and " + nameB, State: inspect.StateCertified, Glossary: Glossary}
	p.Verdict = "Two runs"
	for _, r := range []*Run{a, b} {
		// The page looks certified only where both runs are.
		if r.Report.State != inspect.StateCertified {
			p.State = r.Report.State
		}
		p.Verdict += "; " + name[r] + ": " + r.Report.State
	}
	s := Section{ID: "compare", Title: "Side by side", Columns: []string{"", nameA, nameB, ""}}
	left, right := a.compared(), b.compared()
	for i, f := range left {
		same := "differs"
		// Compared as they are shown: digits that nobody sees make no difference.
		if f.Value == right[i].Value {
			same = "same"
		}
		s.Rows = append(s.Rows, []string{f.Name, f.Value, right[i].Value, same})
	}
	p.Lead = comparison(a, b, nameA, nameB)
	s.Open = true
	p.Sections = []Section{s}
	for i, r := range []*Run{a, b} {
		if r.Certificate == nil {
			continue
		}
		f := tradeoff(r.Certificate.Guarantee(), r.proven())
		f.Title += ": " + name[r]
		if i == 1 { // identifiers of a page are its own
			f.SVG = template.HTML(strings.NewReplacer(`"tradeoff-t"`, `"tradeoff2-t"`, `"tradeoff-d"`, `"tradeoff2-d"`, `tradeoff-t tradeoff-d`, `tradeoff2-t tradeoff2-d`).Replace(string(f.SVG)))
		}
		p.Sections = append(p.Sections, Section{ID: fmt.Sprintf("attacks%d", i), Title: name[r], Open: true, Text: []string{r.Report.Verdict}, Figures: []Figure{f}})
	}
	return p.write(w)
}

// names returns the names of two directories on a page: the last part of their paths, or as many
// parts as tell them apart.
func names(a, b string) (string, string) {
	left, right := strings.Split(strings.TrimRight(a, "/"), "/"), strings.Split(strings.TrimRight(b, "/"), "/")
	for n := 1; n <= min(len(left), len(right)); n++ {
		x, y := strings.Join(left[len(left)-n:], "/"), strings.Join(right[len(right)-n:], "/")
		if x != y {
			return x, y
		}
	}
	if len(left) != len(right) {
		return a, b
	}
	return baseOf(a) + " (first)", baseOf(b) + " (second)"
}

// comparison says in a sentence which run has less noise, or that this is not known.
func comparison(a, b *Run, nameA, nameB string) string {
	x, y := a.noiseRelative(), b.noiseRelative()
	if math.IsNaN(x) || math.IsNaN(y) {
		return "The noise of both runs relative to their batches is not known: each needs a certificate and a batch size."
	}
	// The sentence names the run with more noise first, and its ratio is at least 1.
	if x > y {
		a, b, x, y, nameA, nameB = b, a, y, x, nameB, nameA
	}
	text := fmt.Sprintf("%s has %.3g times the noise of %s, relative to the batch, on prefix sums", nameB, y/x, nameA)
	ca, cb := a.Certificate, b.Certificate
	if ca.Epsilon != cb.Epsilon || ca.Delta != cb.Delta || ca.Protected() != cb.Protected() || ca.Adjacency != cb.Adjacency || ca.Status != cb.Status {
		return text + ". The claims differ, so that less noise is not simply better."
	}
	if x, y := ca.Run.Strategy.Steps, cb.Run.Strategy.Steps; x != y {
		return text + fmt.Sprintf(", for the same claim, but over %d steps in place of %d: these are other trainings.", y, x)
	}
	return text + ", for the same claim."
}

// compared returns the facts of a comparison, under the same names for every run.
func (r *Run) compared() []Fact {
	facts := []Fact{{"Verdict", r.Report.State}}
	add := func(name, format string, value any, known bool) {
		text := "not known"
		if known {
			text = fmt.Sprintf(format, value)
		}
		facts = append(facts, Fact{name, text})
	}
	c := r.Certificate
	known := c != nil
	if c == nil {
		c = &accounting.Certificate{}
	}
	add("Status", "%v", c.Status, known)
	add("ε", "%g", c.Epsilon, known)
	add("δ", "%g", c.Delta, known)
	protected := ""
	if known {
		protected = c.Protected()
	}
	add("Protected", "%s", protected, known)
	add("Noise multiplier σ", "%.6g", c.NoiseMultiplier, known)
	scheme, steps, separation := "", 0, 0
	if r.Scheme != nil {
		scheme, steps, separation = r.Scheme.Kind().Name, r.Scheme.Scheme().NumSteps(), r.Scheme.Scheme().Separation()
	}
	add("Scheme", "%s", scheme, r.Scheme != nil)
	add("Steps", "%d", steps, r.Scheme != nil)
	add("Separation", "%d", separation, r.Scheme != nil)
	strategy := ""
	if r.Strategy != nil {
		strategy = described(r.Strategy)
	}
	add("Strategy", "%s", strategy, r.Strategy != nil)
	add("Examples, or owners where they are sampled", "%s", words.Grouped(r.copies()), r.copies() > 0)
	add("Expected batch size", "%.6g", r.batchSize(), r.batchSize() > 0)
	relative := r.noiseRelative()
	add("Noise relative to the batch", "%.4g", relative, !math.IsNaN(relative))
	advantage := ""
	if known {
		advantage = accounting.AtMost(c.Guarantee().Advantage())
	}
	add("Advantage of an attack", "%s", advantage, known)
	id := ""
	if r.Info != nil {
		id = r.Info.RunID.String()
	}
	add("Run id", "%s", id, r.Info != nil)
	return facts
}
