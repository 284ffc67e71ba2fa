package graphio

import (
	"errors"
	"fmt"
	"strings"

	"minsep/internal/printable"
	"minsep/internal/words"
	"minsep/sampling/ownergraph"
)

// Fault is something wrong with an input file. It names the place and the kind of value found,
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

// Joined is a warning of a file in which cells hold several owners: counted is of how many.
func Joined(file, counted string) *Fault {
	return &Fault{File: file, Found: counted + " with other owners' ids in it, divided by \";\", \"|\" or \",\"",
		Rule: "each is taken for one owner, and no bound holds for the people in it: write a line for each owner of an example"}
}

// Odd are warnings of a graph, of which file is the first: cells that hold several owners, words in
// place of owners who are not known, and columns that may be in each other's place.
func Odd(file string, g *ownergraph.Graph) (warnings []*Fault) {
	if n := g.JoinedOwners(); n > 0 {
		warnings = append(warnings, Joined(file, words.Count(n, "owner id")))
	}
	if ids := g.MissingOwners(); ids != nil {
		warnings = append(warnings, &Fault{File: file, Found: "several examples of the owner " + strings.Join(ids, ", of the owner ") + ", which looks like an unknown owner",
			Rule: "all of them count as one owner's, and few are kept: give each an owner, or leave them out"})
	}
	if most, swapped := g.LooksSwapped(); swapped {
		warnings = append(warnings, &Fault{File: file, Found: fmt.Sprintf("%s owners of %s examples, up to %s of one example", words.Grouped(int64(g.Owners.Len())), words.Grouped(int64(g.Examples.Len())), words.Grouped(int64(most))),
			Rule: "are examples and owners in each other's place? The claim is for owners: see --example-column and --owner-column"})
	}
	return warnings
}

// FaultPrefix begins the text of every Fault: the option by which a command is given its graph.
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

// MaxFaults is how many faults the reading of one split reports before it gives up.
const MaxFaults = 10

// faults collects the faults of one split.
type faults struct{ list []error }

// add records f and says whether there is room for more.
func (c *faults) add(f *Fault) bool {
	c.list = append(c.list, f)
	return len(c.list) < MaxFaults
}

func (c *faults) err() error { return errors.Join(c.list...) }
