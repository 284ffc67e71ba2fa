package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"unicode/utf8"

	"minsep/internal/accounting"
	"minsep/internal/inspect"
	"minsep/internal/printable"
	"minsep/internal/words"
)

//go:embed page.html
var pageText string

// pageTemplate is the page, parsed once.
var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page is the data of the template.
type page struct {
	Title, Verdict, State, Lead string
	Sign                        []string // for somebody who signs, in plain sentences
	Secret                      bool
	Made                        string
	Sections                    []section
	Glossary                    []Fact
}

// section is a part of a page.
type section struct {
	ID, Title string   // the anchor, one of its own on a page, and the heading
	Text      []string // paragraphs
	Facts     []Fact   // names and values
	List      []string // items
	Tables    []table
	Quotes    []quote
	Open      bool // shown unasked: the others are folded under their headings
}

// Fact is a name with its value.
type Fact struct{ Name, Value string }

// table is a table of texts, of which each row may have a bar.
type table struct {
	Title   string
	Columns []string
	Rows    []row
	Folded  bool   // the rows are hidden until they are opened
	Note    string // below the table; "" for none
}

// row has a cell for each column of its table, and the length of its bar as a share of the width:
// 0 to 1, and 0 for none.
type row struct {
	Cells []string
	Bar   float64
}

// Percent returns the length of the bar as a percentage.
func (r row) Percent() float64 {
	return 100 * min(1, max(0, r.Bar))
}

// Bars reports whether a row has a bar.
func (t table) Bars() bool {
	for _, r := range t.Rows {
		if r.Bar > 0 {
			return true
		}
	}
	return false
}

// add adds a row without a bar.
func (t *table) add(cells ...string) {
	t.Rows = append(t.Rows, row{Cells: cells})
}

// quote is text for pasting elsewhere.
type quote struct{ Title, Text string }

// Write writes the page of a run.
func Write(w io.Writer, r *Run, o Options) error {
	p := page{
		Title:    "minsep run",
		Verdict:  r.Report.Verdict,
		State:    r.Report.State,
		Lead:     lead(r),
		Sign:     sign(r),
		Secret:   o.ShowSecret,
		Glossary: Glossary,
	}
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
	for _, s := range []*section{
		promise(r),
		secret(r, o),
		trainer(r),
		attacks(r),
		sizes(r),
		bounds(r),
		verification(r),
		made(r),
		checks(r),
		cite(r),
	} {
		if s != nil {
			s.Open = len(p.Sections) == 0 || r.Report.State == inspect.StateBroken
			p.Sections = append(p.Sections, *s)
		}
	}
	return p.write(w)
}

// lead returns the sentences below the verdict.
func lead(r *Run) string {
	switch {
	case r.Report.State == inspect.StateBroken:
		return "Do not train with this directory: something in it is not what it should be. The checks below say what."
	case r.Certificate == nil:
		return "Nothing here says how private training would be. minsep account makes a certificate."
	case r.Certificate.Status != accounting.Verified:
		return "No claim of privacy is proven for this run: " + r.Certificate.Reason + "."
	}
	text := "Every file was read again and every check holds. The claim holds for the sampler, strategy and noise multiplier below, as long as the trainer does its part."
	if b := r.Baseline; b != nil && b.Ratio > 1 {
		text += fmt.Sprintf(
			" But it is worse than DP-SGD, which has the same claim with less noise: this run has %.3g times as much. minsep plan compares mechanisms.",
			b.Ratio,
		)
	}
	if r.Certificate.WithoutSamples() {
		text += " The noise multiplier is one that needs no samples; a larger budget (--cpu-time or --samples of minsep account) may certify less noise."
	}
	return text
}

// A directory may hold texts and lists of any length. A page shows at most so much of each.
const (
	mostText  = 2_000  // characters of a text
	mostQuote = 20_000 // characters of a text to paste
	mostRows  = 1_000  // rows of a table
	mostItems = 500    // items, paragraphs and facts of a section
)

// write writes the page, with long texts and lists cut.
func (p page) write(w io.Writer) error {
	for _, text := range []*string{&p.Title, &p.Verdict, &p.State, &p.Lead} {
		*text = shownText(*text, mostText)
	}
	p.Sign = shownTexts(p.Sign)
	sections := make([]section, len(p.Sections))
	for i, s := range p.Sections {
		sections[i] = s.shown()
	}
	p.Sections = sections
	if err := pageTemplate.Execute(w, p); err != nil {
		return err
	}
	return nil
}

// shown returns a section as a page shows it.
func (s section) shown() section {
	s.Title = shownText(s.Title, mostText)
	s.Text, s.List = shownTexts(s.Text), shownTexts(s.List)
	facts := s.Facts
	s.Facts = nil
	for i, f := range facts {
		if i == mostItems {
			s.Facts = append(s.Facts, Fact{"And", notShown(len(facts) - i)})
			break
		}
		s.Facts = append(s.Facts, Fact{shownText(f.Name, mostText), shownText(f.Value, mostText)})
	}
	tables := make([]table, len(s.Tables))
	for i, t := range s.Tables {
		tables[i] = t.shown()
	}
	s.Tables = tables
	quotes := make([]quote, len(s.Quotes))
	for i, q := range s.Quotes {
		quotes[i] = quote{q.Title, shownText(q.Text, mostQuote)}
	}
	s.Quotes = quotes
	return s
}

// shown returns a table as a page shows it.
func (t table) shown() table {
	t.Title, t.Columns = shownText(t.Title, mostText), shownTexts(t.Columns)
	rows := t.Rows
	t.Rows = nil
	for i, r := range rows {
		if i == mostRows {
			last := make([]string, len(t.Columns))
			last[len(last)-1] = notShown(len(rows) - i)
			t.add(last...)
			break
		}
		t.Rows = append(t.Rows, row{shownTexts(r.Cells), r.Bar})
	}
	return t
}

// notShown says how many entries are left out.
func notShown(n int) string {
	return words.Grouped(int64(n)) + " more, which are not shown"
}

func shownTexts(list []string) (shown []string) {
	for i, text := range list {
		if i == mostItems {
			return append(shown, notShown(len(list)-i))
		}
		shown = append(shown, shownText(text, mostText))
	}
	return shown
}

// shownText returns at most so many characters of a text. Characters that a reader does not see, or
// that may change the order of others, become escapes.
func shownText(text string, most int) string {
	all := utf8.RuneCountInString(text)
	if all > most {
		n := 0
		for at := range text {
			if n == most {
				text = text[:at]
				break
			}
			n++
		}
		text += "… and " + words.Grouped(int64(all-most)) + " more characters"
	}
	return printable.Text(text)
}
