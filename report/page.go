package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"minsep/accounting"
	"minsep/accounting/verification"
	"minsep/inspect"
	"minsep/mechanism"
	"minsep/sampling"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// mostSteps bounds the work for pictures of a strategy and for its error, in steps.
const mostSteps = 200_000

// Fact is a line of a table of names and values.
type Fact struct{ Name, Value string }

// Section is a part of a page.
type Section struct {
	ID, Title string     // the anchor, one of its own on a page, and the heading
	Text      []string   // paragraphs
	Facts     []Fact     // a table of names and values
	List      []string   // items
	Columns   []string   // headings of Rows
	Rows      [][]string // one entry for each column
	Figures   []Figure
	Quote     []Quote
}

// Quote is text to be pasted elsewhere.
type Quote struct{ Title, Text string }

// page is what the template shows.
type page struct {
	Title, Verdict, State, Lead string
	Secret                      bool
	Made                        string
	Sections                    []Section
	Glossary                    []Fact
}

// Write writes the page of a run.
func (r *Run) Write(w io.Writer, o Options) error {
	p := page{Title: "minsep run", Verdict: r.Report.Verdict, State: r.Report.State, Secret: o.ShowSecret, Glossary: glossary}
	if r.Info != nil {
		p.Title += " " + r.Info.RunID.String()
	}
	if o.ShowSecret {
		p.Title = "SECRET: " + p.Title
	}
	if !o.Now.IsZero() {
		p.Made = o.Now.UTC().Format("2006-01-02 15:04 UTC")
	}
	p.Lead = r.lead()
	for _, s := range []*Section{r.promise(), r.secret(o), r.trainer(), r.attacks(), r.sizes(), r.alternatives(), r.participations(), r.strategy(), r.bounds(), r.verification(), r.folders(), r.checks(), r.cite()} {
		if s != nil {
			p.Sections = append(p.Sections, *s)
		}
	}
	if err := pageTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func (r *Run) lead() string {
	switch {
	case r.Report.State == inspect.StateBroken:
		return "Do not train with this directory: something in it is not what it should be. The checks below say what."
	case r.Certificate == nil:
		return "Nothing here says how private training would be. minsep account makes a certificate."
	case r.Certificate.Status != accounting.Verified:
		return "No claim of privacy is proven for this run: " + r.Certificate.Reason + "."
	}
	return "Every file was read again and every check holds. The claim is proven for the sampler, strategy and noise multiplier below, as long as the trainer does its part."
}

func (r *Run) promise() *Section {
	c := r.Certificate
	if c == nil {
		return nil
	}
	s := &Section{ID: "promise", Title: "What is promised, and to whom"}
	if c.Unit == accounting.UnitExample {
		s.Text = append(s.Text, c.Protected()+".")
	}
	s.Facts = []Fact{
		{"Protected", c.Protected()},
		{"Against", c.Adjacency},
		{"Guarantee", fmt.Sprintf("ε = %g, δ = %g", c.Epsilon, c.Delta)},
	}
	for _, p := range c.Points[1:] {
		s.Facts = append(s.Facts, Fact{"Also", fmt.Sprintf("ε = %g, δ = %g, at the same noise", p.Epsilon, p.Delta)})
	}
	s.Facts = append(s.Facts,
		Fact{"Worth", string(c.Status)},
		Fact{"Noise multiplier σ", fmt.Sprintf("%.6g, in units of the clip norm", c.NoiseMultiplier)},
		Fact{"Sampling", fmt.Sprintf("%s, %d steps, separation %d", c.Run.Sampler.Kind().Name, c.Run.Sampler.Scheme().NumSteps(), c.Run.Sampler.Scheme().Separation())},
		Fact{"Strategy", fmt.Sprintf("%s, %d bands", c.Run.Strategy.Kind, c.Run.Strategy.Bands())})
	return s
}

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
			{"Participations", fmt.Sprintf("%d, expected %.6g with a standard deviation of %.4g", realized.Participations, realized.Mean, realized.StandardDeviation)},
			{"Batches", fmt.Sprintf("%d to %d %ss", realized.SmallestBatch, realized.LargestBatch, r.one())},
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

func (r *Run) trainer() *Section {
	s := &Section{ID: "trainer", Title: "What the trainer must do"}
	clip, grid := "the clip norm", "the noise's grid"
	if n := r.Noise; n != nil {
		clip = fmt.Sprintf("%g", float64(n.ClipNorm))
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

// clipping says what is clipped to a norm.
func (r *Run) clipping(norm string) string {
	if r.ofOwners() {
		return "Average the gradients of the examples that an owner brings, and clip the mean to norm " + norm +
			", once for each owner. Do not clip single examples in its place: the claim does not hold for that."
	}
	return "Clip each example's gradient to norm " + norm + "."
}

// ofOwners says that owners take part in the place of examples.
func (r *Run) ofOwners() bool { return r.Scheme != nil && r.Scheme.Owners != nil }

// one is what takes part, in one word.
func (r *Run) one() string {
	if r.ofOwners() {
		return "owner"
	}
	return "example"
}

func (r *Run) attacks() *Section {
	c := r.Certificate
	if c == nil {
		return nil
	}
	g := c.Guarantee()
	proven := c.Status == accounting.Verified
	s := &Section{ID: "attacks", Title: "What that means for an attack"}
	s.Text = []string{fmt.Sprintf("An attacker who knows everything but whether the protected unit (%s) took part, and sees all that is released, has an advantage over guessing of at most %.3g. "+
		"This follows from the points of the certificate alone; more points (minsep account --also-epsilon) make it sharper.", c.Protected(), g.Advantage())}
	if !proven {
		s.Text = append(s.Text, "The points are not proven, and so is nothing here.")
	}
	s.Figures = []Figure{tradeoff(g, proven), r.curve()}
	if len(r.Curve) > 0 && !r.Curve[0].Proven {
		estimated := verification.Attacks(r.Curve)
		text := fmt.Sprintf("By the estimated curve at two standard errors above, which certifies nothing, the advantage is at most %.3g", estimated.Advantage)
		for _, a := range estimated.Rates {
			text += fmt.Sprintf(", the true positive rate at a false positive rate of %g at most %.3g", a.FPR, a.TPR)
		}
		s.Text = append(s.Text, text+".")
	}
	return s
}

// copies is how many copies of examples, or owners, take part independently.
func (r *Run) copies() int64 {
	switch {
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

// batchSize is the expected batch size; 0 where it is not known.
func (r *Run) batchSize() float64 {
	if r.Batches != nil && r.Batches.ExpectedBatchSize != nil {
		return *r.Batches.ExpectedBatchSize
	}
	if s := r.independent(); s != nil && r.copies() > 0 {
		return s.ExpectedBatchSize(r.copies())
	}
	if r.Scheme != nil && r.Scheme.Fixed != nil {
		return float64(r.Scheme.Fixed.BatchSize)
	}
	return 0
}

func (r *Run) independent() sampling.Independent {
	if r.Scheme == nil {
		return nil
	}
	s, _ := r.Scheme.Scheme().(sampling.Independent)
	return s
}

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
	s := &Section{ID: "law", Title: "Participations by the scheme", Figures: l.figures(r.one())}
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

func (r *Run) verification() *Section {
	c := r.Certificate
	if c == nil {
		return nil
	}
	s := &Section{ID: "verification", Title: "How it was verified"}
	s.Columns = []string{"ε", "δ", "direction", "method", "samples", "mean", "accepted up to", "largest value"}
	for _, p := range c.Points {
		for _, v := range p.Directions {
			row := []string{number(p.Epsilon), number(p.Delta), fmt.Sprint(v.Direction), string(v.Method), "none", "", "", number(v.Bound)}
			if v.Samples > 0 {
				row[4], row[5], row[6] = fmt.Sprint(v.Samples), number(v.Mean), number(v.Accept)
			}
			s.Rows = append(s.Rows, row)
		}
	}
	s.Facts = []Fact{{"Failure probability", fmt.Sprintf("%g, a part of every δ", c.Points[0].FailureProbability)}}
	for _, a := range c.Assumptions {
		s.List = append(s.List, "Assumed: "+a.Text+" ("+a.Source+").")
	}
	return s
}

func (r *Run) folders() *Section {
	s := &Section{ID: "folders", Title: "Stages, versions and digests"}
	if r.Info != nil {
		s.Facts = append(s.Facts, Fact{"Run id", r.Info.RunID.String()}, Fact{"Made by", "minsep " + r.Info.Version})
		if r.Info.Plan != nil {
			s.Facts = append(s.Facts, Fact{"Plan", r.Info.Plan.SHA256.String()})
		}
	}
	if c := r.Certificate; c != nil {
		s.Facts = append(s.Facts, Fact{"Protocol", c.ProtocolSHA256})
	}
	s.Columns = []string{"folder", "minsep", "files", "bytes", "SHA-256 of its parameters"}
	for _, ix := range r.Indexes {
		bytes := fmt.Sprint(ix.Bytes)
		if ix.Secret {
			bytes = "secret"
		}
		s.Rows = append(s.Rows, []string{ix.Folder, ix.Version, fmt.Sprint(ix.Files), bytes, ix.Params})
	}
	return s
}

func (r *Run) checks() *Section {
	s := &Section{ID: "checks", Title: "Every check", Columns: []string{"", "where", "check", "what must hold"}}
	broken := [][]string{}
	for _, f := range r.Report.Folders {
		where := baseOf(f.Folder)
		for _, c := range f.Checks {
			row := []string{"holds", where, c.Name, c.Rule}
			if !c.Held {
				row[0] = "BROKEN"
				broken = append(broken, row)
				continue
			}
			s.Rows = append(s.Rows, row)
		}
		s.List = append(s.List, f.Notes...)
	}
	s.Rows = append(broken, s.Rows...)
	return s
}

// power writes a power of two as one.
func power(v float64) string {
	if f, k := math.Frexp(v); f == 0.5 {
		return fmt.Sprintf("2^%d", k-1)
	}
	return fmt.Sprintf("%g", v)
}

func baseOf(path string) string {
	path = strings.TrimRight(path, "/")
	return path[strings.LastIndexAny(path, `/\`)+1:]
}

func (r *Run) cite() *Section {
	if r.Certificate == nil {
		return nil
	}
	return &Section{ID: "cite", Title: "To paste", Text: []string{"For a paper and for a model card."},
		Quote: []Quote{{"A paper", r.Certificate.Statement()}, {"A model card", r.Certificate.ModelCard()}}}
}

// Name is how pages call a run: the last part of its path.
func (r *Run) Name() string { return baseOf(r.Dir) }

// noiseRelative is the noise relative to the batch, for prefix sums; NaN where it is not known.
func (r *Run) noiseRelative() float64 {
	c, batch := r.Certificate, r.batchSize()
	if c == nil || batch == 0 || c.Run.Strategy.Steps > mostSteps {
		return math.NaN()
	}
	e, err := c.Run.Strategy.Error(mechanism.Prefix(c.Run.Strategy.Steps))
	if err != nil {
		return math.NaN()
	}
	return c.NoiseMultiplier * e.RMSE / batch
}

// WriteComparison writes a page of two runs beside each other.
func WriteComparison(w io.Writer, a, b *Run) error {
	p := page{Title: "minsep: " + a.Name() + " and " + b.Name(), State: inspect.StateCertified, Glossary: glossary}
	p.Verdict = "Two runs"
	for _, r := range []*Run{a, b} {
		if r.Report.State != inspect.StateCertified {
			p.State = r.Report.State
		}
		p.Verdict += "; " + r.Name() + ": " + r.Report.State
	}
	s := Section{ID: "compare", Title: "Side by side", Columns: []string{"", a.Name(), b.Name(), ""}}
	left, right := a.compared(), b.compared()
	for i, f := range left {
		same := "differs"
		if f.Value == right[i].Value {
			same = "same"
		}
		s.Rows = append(s.Rows, []string{f.Name, f.Value, right[i].Value, same})
	}
	p.Lead = comparison(a, b)
	p.Sections = []Section{s}
	for i, r := range []*Run{a, b} {
		if r.Certificate == nil {
			continue
		}
		f := tradeoff(r.Certificate.Guarantee(), r.Certificate.Status == accounting.Verified)
		f.Title += ": " + r.Name()
		if i == 1 { // identifiers of a page are its own
			f.SVG = template.HTML(strings.NewReplacer(`"tradeoff-t"`, `"tradeoff2-t"`, `"tradeoff-d"`, `"tradeoff2-d"`, `tradeoff-t tradeoff-d`, `tradeoff2-t tradeoff2-d`).Replace(string(f.SVG)))
		}
		p.Sections = append(p.Sections, Section{ID: fmt.Sprintf("attacks%d", i), Title: r.Name(), Text: []string{r.Report.Verdict}, Figures: []Figure{f}})
	}
	if err := pageTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// comparison says in a sentence which run has less noise, if that can be said.
func comparison(a, b *Run) string {
	x, y := a.noiseRelative(), b.noiseRelative()
	if math.IsNaN(x) || math.IsNaN(y) {
		return "The noise of both runs relative to their batches is not known: each needs a certificate and a batch size."
	}
	if x > y {
		a, b, x, y = b, a, y, x
	}
	text := fmt.Sprintf("%s has %.3g times the noise of %s, relative to the batch, on prefix sums", b.Name(), y/x, a.Name())
	ca, cb := a.Certificate, b.Certificate
	if ca.Epsilon != cb.Epsilon || ca.Delta != cb.Delta || ca.Unit != cb.Unit || ca.Run.MaxExamplesPerOwner != cb.Run.MaxExamplesPerOwner || ca.Status != cb.Status {
		return text + ". The claims differ, so that less noise is not simply better."
	}
	return text + ", for the same claim."
}

// compared are the facts of a comparison, the same names for every run.
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
	add("Worth", "%v", c.Status, known)
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
		strategy = fmt.Sprintf("%s, %d bands", r.Strategy.Kind, r.Strategy.Bands())
	}
	add("Strategy", "%s", strategy, r.Strategy != nil)
	add("Examples", "%d", r.copies(), r.copies() > 0)
	add("Expected batch size", "%.6g", r.batchSize(), r.batchSize() > 0)
	relative := r.noiseRelative()
	add("Noise relative to the batch", "%.4g", relative, !math.IsNaN(relative))
	advantage := 0.0
	if known {
		advantage = c.Guarantee().Advantage()
	}
	add("Advantage of an attack, at most", "%.3g", advantage, known)
	id := ""
	if r.Info != nil {
		id = r.Info.RunID.String()
	}
	add("Run id", "%s", id, r.Info != nil)
	return facts
}
