package graphio

import (
	"fmt"
	"strings"

	"minsep/internal/printable"
)

// Fault is a fault of an input file. It names the place and the kind of value that was found, and
// never the value.
type Fault struct {
	Number   int    // 1-based, of the file in the graph, in the order of their names; 0 if unknown
	File     string // empty if the fault is no file's
	Line     int64  // 1-based, of a text file; 0 if the fault is no line's
	RowGroup int    // 1-based, of a Parquet file; 0 if the fault is no row group's
	Row      int64  // 1-based within the row group; 0 if unknown
	Column   string // name or 1-based position; empty if the fault is no column's
	Found    string // the kind of value found, for example "an empty field"
	Rule     string // the rule, and the option that changes it
	Err      error  // the cause, or nil
}

// FaultPrefix begins the text of every Fault: the flag that names the graph to a command.
const FaultPrefix = "--graph"

func (f *Fault) Error() string {
	var b strings.Builder
	b.WriteString(FaultPrefix)
	if f.File != "" {
		shown := masked(f.File)
		b.WriteString(" " + printable.Line(shown))
		if shown != f.File && f.Number > 0 {
			fmt.Fprintf(&b, " (file %d of the graph)", f.Number)
		}
	}
	if f.Line > 0 {
		fmt.Fprintf(&b, ": line %d", f.Line)
	}
	if f.RowGroup > 0 {
		fmt.Fprintf(&b, ": row group %d", f.RowGroup)
	}
	if f.Row > 0 {
		fmt.Fprintf(&b, ": row %d", f.Row)
	}
	if f.Column != "" {
		b.WriteString(": " + f.Column)
	}
	for _, part := range []string{f.Found, f.Rule} {
		if part != "" {
			b.WriteString(": " + part)
		}
	}
	if f.Err != nil {
		fmt.Fprintf(&b, ": %v", f.Err)
	}
	return b.String()
}

func (f *Fault) Unwrap() error { return f.Err }

// MaxFaults is the number of faults after which the reading of a split gives up.
const MaxFaults = 10
