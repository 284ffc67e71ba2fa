package report

import (
	"fmt"
	"io"
	"unicode/utf8"

	"minsep/internal/printable"
	"minsep/internal/words"
)

// A directory may hold texts and lists of any length. A page shows at most so much of each.
const (
	mostText  = 2_000  // characters of a text
	mostQuote = 20_000 // characters of a text to paste
	mostRows  = 1_000  // rows of a table
	mostItems = 500    // items, paragraphs and facts of a section
)

// write writes the page, with long texts and lists cut.
func (p page) write(w io.Writer) error {
	p.Title, p.Verdict, p.State, p.Lead = shownText(p.Title, mostText), shownText(p.Verdict, mostText), shownText(p.State, mostText), shownText(p.Lead, mostText)
	p.Sign = shownTexts(p.Sign)
	sections := make([]Section, len(p.Sections))
	for i, s := range p.Sections {
		sections[i] = s.shown()
	}
	p.Sections = sections
	if err := pageTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// shown returns a section as a page shows it.
func (s Section) shown() Section {
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
	s.Columns, s.Rows = shownTexts(s.Columns), shownRows(s.Columns, s.Rows)
	figures := make([]Figure, len(s.Figures))
	for i, f := range s.Figures {
		f.Title, f.Rows = shownText(f.Title, mostText), shownRows(f.Columns, f.Rows)
		figures[i] = f
	}
	s.Figures = figures
	quotes := make([]Quote, len(s.Quote))
	for i, q := range s.Quote {
		quotes[i] = Quote{q.Title, shownText(q.Text, mostQuote)}
	}
	s.Quote = quotes
	return s
}

// notShown says how many entries are left out.
func notShown(n int) string { return words.Grouped(int64(n)) + " more, which are not shown" }

func shownTexts(list []string) (shown []string) {
	for i, text := range list {
		if i == mostItems {
			return append(shown, notShown(len(list)-i))
		}
		shown = append(shown, shownText(text, mostText))
	}
	return shown
}

func shownRows(columns []string, rows [][]string) (shown [][]string) {
	for i, row := range rows {
		if i == mostRows {
			last := make([]string, len(columns))
			last[len(last)-1] = notShown(len(rows) - i)
			return append(shown, last)
		}
		shown = append(shown, shownTexts(row))
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
