package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// table aligns the cells of its rows. It is written by Flush.
type table struct{ *tabwriter.Writer }

func newTable(w io.Writer) table { return table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

// row adds a row, formatted as by [fmt.Printf], with tabs between its cells.
func (t table) row(format string, values ...any) {
	fmt.Fprintf(t, format, values...)
	fmt.Fprintln(t)
}
