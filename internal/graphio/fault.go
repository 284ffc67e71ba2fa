package graphio

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"minsep/internal/ownergraph"
	"minsep/internal/printable"
	"minsep/internal/words"
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

// Warnings returns what is odd about the graph: about its files, and about the figures that
// the graph has before it is bounded. If g is not nil it also looks at the ids of g: at those that
// differ only in ways that readers do not see, and at words in place of unknown owners.
func (s *Source) Warnings(
	ctx context.Context,
	figures ownergraph.Summary,
	g *ownergraph.Graph,
) (warnings []*Fault) {
	warn := func(found, rule string) {
		warnings = append(warnings, &Fault{File: s.splits[0].Path, Found: found, Rule: rule})
	}
	if s.restarts(ctx) {
		warn(
			"several files in which example ids count up from the same number",
			"rows with the same id are one example with all their owners: if each row of a file is an example of its own, set --row-ids, "+
				"which numbers rows across files; else make ids unique, unless they are meant so",
		)
	}
	if figures.LooksSwapped() {
		warn(
			fmt.Sprintf(
				"%s owners of %s examples, up to %s of one example",
				words.Grouped(figures.Owners),
				words.Grouped(figures.Examples),
				words.Grouped(figures.GivenOwners.Most()),
			),
			"are the two columns exchanged? The claim protects owners: check --example-column and --owner-column",
		)
	}
	if g == nil {
		return warnings
	}
	for _, column := range []struct {
		name string
		ids  *ownergraph.IDs
	}{{"owner id", &g.Owners}, {"example id", &g.Examples}} {
		if n := column.ids.Lookalikes(); n > 0 {
			warn(words.Count(n, column.name)+" of which others differ only by case, blanks, characters without width or the form of letters",
				"each counts as an id of its own: if some are the same, write them in one way; docs/input.md says how to list them")
		}
	}
	if ids := g.MissingOwners(); ids != nil {
		warn(
			"the owner "+strings.Join(ids, ", the owner ")+", which looks like an unknown owner",
			"all examples of it count as examples of one owner, and few are kept: give each example its owner, or leave these examples out",
		)
	}
	return warnings
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

// faults collects the faults of one split.
type faults struct{ list []error }

// add records f, and reports whether there is room for more.
func (c *faults) add(f *Fault) bool {
	c.list = append(c.list, f)
	return len(c.list) < MaxFaults
}

func (c *faults) err() error { return errors.Join(c.list...) }
