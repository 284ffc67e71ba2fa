package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// column is a column of a table.
type column struct {
	name, short string // heading, and the one for narrow screens; "" for the same
	rank        int    // the highest rank is left out first on narrow screens; 0: never left out
}

// cell is an entry of a table.
type cell struct {
	text, short string // short is for narrow screens; "" for the same text
}

func (c cell) in(short bool) string {
	if short && c.short != "" {
		return c.short
	}
	return c.text
}

// table is laid out for the width of a screen. If it is too wide, it uses short names; then it
// leaves out columns that have the same entry in all rows; then others, the highest rank first. A
// line below names the columns that were left out.
type table struct {
	columns []column
	rows    []tableRow
}

// tableRow has one cell for each column. If it has fewer, rest takes the place of the missing ones.
type tableRow struct {
	cells []cell
	rest  string
}

func (t *table) add(row tableRow) { t.rows = append(t.rows, row) }

// widths returns the width of each shown column, and the width of the table with gaps.
func (t *table) widths(shown []int, short bool) (list []int, width int) {
	for _, i := range shown {
		most := utf8.RuneCountInString(t.heading(i, short))
		for _, row := range t.rows {
			if i < len(row.cells) {
				most = max(most, utf8.RuneCountInString(row.cells[i].in(short)))
			}
		}
		list = append(list, most)
		width += most + 2
	}
	return list, width - 2
}

func (t *table) heading(i int, short bool) string {
	return cell{t.columns[i].name, t.columns[i].short}.in(short)
}

// same returns the entry that a column has in all rows; "" if entries differ or fewer than two rows
// have one.
func (t *table) same(i int) string {
	value, rows := "", 0
	for _, row := range t.rows {
		if i >= len(row.cells) {
			continue
		}
		if rows++; rows > 1 && row.cells[i].text != value {
			return ""
		}
		value = row.cells[i].text
	}
	if rows < 2 {
		return ""
	}
	return value
}

// leaveOut removes columns until the table fits into width, or only columns of rank 0 are left.
func (t *table) leaveOut(shown []int, width int) []int {
	fits := func() bool {
		_, w := t.widths(shown, true)
		return w <= width
	}
	// Columns with one entry go first: the line below the table says the entry, so nothing is lost.
	for _, onlySame := range []bool{true, false} {
		for !fits() {
			worst := -1
			for at, i := range shown {
				if rank := t.columns[i].rank; rank > 0 && (!onlySame || t.same(i) != "") && (worst < 0 || rank >= t.columns[shown[worst]].rank) {
					worst = at
				}
			}
			if worst < 0 {
				break
			}
			shown = slices.Delete(shown, worst, worst+1)
		}
	}
	return shown
}

// write prints the table in at most width columns, if leaving out columns can achieve it; 0 means
// no limit.
func (t *table) write(w io.Writer, width int) {
	var shown []int
	for i := range t.columns {
		shown = append(shown, i)
	}
	all, short := slices.Clone(shown), false
	if _, full := t.widths(shown, false); width > 0 && full > width {
		short, shown = true, t.leaveOut(shown, width)
	}
	widths, _ := t.widths(shown, short)
	line := func(text func(i int) (string, bool), rest string) {
		var b strings.Builder
		for at, i := range shown {
			entry, ok := text(i)
			if !ok {
				break
			}
			fmt.Fprintf(&b, "%-*s  ", widths[at], entry)
		}
		fmt.Fprintln(w, strings.TrimRight(b.String()+rest, " "))
	}
	line(func(i int) (string, bool) { return t.heading(i, short), true }, "")
	for _, row := range t.rows {
		line(func(i int) (string, bool) {
			if i >= len(row.cells) {
				return "", false
			}
			return row.cells[i].in(short), true
		}, row.rest)
	}
	if text := t.leftOut(all, shown); text != "" {
		fmt.Fprintln(w, text)
	}
}

// leftOut names the columns that are not shown; for constant columns also their entry.
func (t *table) leftOut(all, shown []int) string {
	var same, other []string
	for _, i := range all {
		name := t.columns[i].name
		switch value := t.same(i); {
		case slices.Contains(shown, i):
		case value != "":
			same = append(same, name+" "+value)
		default:
			other = append(other, name)
		}
	}
	var text []string
	if same != nil {
		text = append(text, "in all rows: "+strings.Join(same, ", "))
	}
	if other != nil {
		text = append(text, "only on wider terminals: "+strings.Join(other, ", "))
	}
	return strings.Join(text, "; ")
}
