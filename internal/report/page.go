package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"reflect"
	"unicode/utf8"

	"minsep/internal/accounting"
	"minsep/internal/inspect"
	"minsep/internal/printable"
	"minsep/internal/words"
)

//go:embed page.html
var pageText string

// pageTemplate is the page, parsed once.
var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"text":  func(text string) string { return shownText(text, mostText) },
	"quote": func(text string) string { return shownText(text, mostQuote) },
	"first": func(list any) any {
		v := reflect.ValueOf(list)
		return v.Slice(0, min(v.Len(), mostItems)).Interface()
	},
	"more": func(list any) string {
		n := reflect.ValueOf(list).Len() - mostItems
		if n <= 0 {
			return ""
		}
		return words.Grouped(int64(n)) + " more, which are not shown"
	},
}).Parse(pageText))

// page is the data of the template.
type page struct {
	Title, Verdict, State, Lead string
	Sign                        []string // for somebody who signs, in plain sentences
	Sections                    []section
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

// Write writes the page of a run: a function of the run and the title.
func Write(w io.Writer, r *Run, o Options) error {
	p := page{
		Title:   "minsep run",
		Verdict: r.Verdict,
		State:   r.State,
		Lead:    lead(r),
		Sign:    sign(r),
	}
	if r.Weak != nil {
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
	for _, s := range []*section{
		promise(r),
		secret(),
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
			s.Open = len(p.Sections) == 0 || r.State == inspect.StateBroken
			p.Sections = append(p.Sections, *s)
		}
	}
	return pageTemplate.Execute(w, p)
}

// lead returns the sentences below the verdict.
func lead(r *Run) string {
	switch {
	case r.State == inspect.StateBroken:
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

// A directory may hold texts and lists of any length. The template shows at most so much of each.
const (
	mostText  = 2_000  // characters of a text
	mostQuote = 20_000 // characters of a text to paste
	mostItems = 1_000  // items, paragraphs and facts of a section, and rows of a table
)

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
