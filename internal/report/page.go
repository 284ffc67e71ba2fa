package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"

	"minsep/internal/accounting"
	"minsep/internal/inspect"
	"minsep/internal/planner"
	"minsep/mechanism"
)

//go:embed page.html
var pageText string

// pageTemplate is the page, parsed once.
var pageTemplate = template.Must(template.New("page").Parse(pageText))

// mostSteps bounds the work for a strategy's pictures and its error: a longer one has none.
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
	Folded    string     // the text in place of the rows until they are opened; "" where they are shown
	Figures   []Figure
	Quote     []Quote
	Open      bool // shown unasked: the others are folded under their headings
}

// table is a table with its headings and its caption.
type table struct {
	Label   string
	Columns []string
	Rows    [][]string
}

// Table returns the section's rows as a table.
func (s Section) Table() table { return table{s.Title, s.Columns, s.Rows} }

// Table returns the numbers behind the figure.
func (f Figure) Table() table { return table{"The numbers: " + f.Title, f.Columns, f.Rows} }

// Quote is text for pasting elsewhere.
type Quote struct{ Title, Text string }

// page is the data of the template.
type page struct {
	Title, Verdict, State, Lead string
	Sign                        []string // for somebody who signs, in plain sentences
	Secret                      bool
	Made                        string
	Sections                    []Section
	Glossary                    []Fact
}

// Write writes the page of a run.
func (r *Run) Write(w io.Writer, o Options) error {
	p := page{Title: "minsep run", Verdict: r.Report.Verdict, State: r.Report.State, Secret: o.ShowSecret, Glossary: Glossary}
	if r.Report.Weak != nil {
		p.State = "weak"
	}
	switch {
	case o.Title != "":
		p.Title = o.Title
	case r.Info != nil && r.Info.Name != "":
		p.Title = r.Info.Name
	case r.Info != nil:
		p.Title += " " + r.Info.RunID.String()
	}
	if o.ShowSecret {
		p.Title = "SECRET: " + p.Title
	}
	if !o.Now.IsZero() {
		p.Made = o.Now.UTC().Format("2006-01-02 15:04 UTC")
	}
	p.Lead, p.Sign = r.lead(), r.sign()
	for _, s := range []*Section{r.promise(), r.secret(o), r.trainer(), r.attacks(), r.sizes(), r.alternatives(), r.participations(), r.strategy(), r.bounds(), r.verification(), r.candidates(), r.folders(), r.checks(), r.cite()} {
		if s != nil {
			s.Open = len(p.Sections) == 0 || r.Report.State == inspect.StateBroken
			p.Sections = append(p.Sections, *s)
		}
	}
	return p.write(w)
}

// lead returns the sentences below the verdict.
func (r *Run) lead() string {
	switch {
	case r.Report.State == inspect.StateBroken:
		return "Do not train with this directory: something in it is not what it should be. The checks below say what."
	case r.Certificate == nil:
		return "Nothing here says how private training would be. minsep account makes a certificate."
	case r.Certificate.Status != accounting.Verified:
		return "No claim of privacy is proven for this run: " + r.Certificate.Reason + "."
	}
	text := "Every file was read again and every check holds. The claim is proven for the sampler, strategy and noise multiplier below, as long as the trainer does its part."
	if b := r.Baseline; b != nil && b.Ratio > 1 {
		text += fmt.Sprintf(" But it is worse than DP-SGD, which has the same claim with less noise: this run has %.3g times as much. minsep plan compares mechanisms.", b.Ratio)
	}
	if r.Certificate.WithoutSamples() {
		text += " The noise multiplier is one that needs no samples; a larger budget (--cpu-time or --samples of minsep account) may certify less noise."
	}
	return text
}

// noiseRelative returns the noise relative to the batch for prefix sums, NaN if it is not known.
func (r *Run) noiseRelative() float64 {
	return r.noiseBy(mechanism.Params{}, planner.RMSE)
}

// noiseBy returns the noise relative to the batch by a workload and an objective, NaN if it is not
// known.
func (r *Run) noiseBy(workload mechanism.Params, objective string) float64 {
	c, batch := r.Certificate, r.batchSize()
	if c == nil || batch == 0 {
		return math.NaN()
	}
	return c.NoiseMultiplier * planner.Error(c.Run.Strategy, workload, objective) / batch
}
