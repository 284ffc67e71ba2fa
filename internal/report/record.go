package report

import (
	"fmt"
	"math"
	"strings"

	"minsep/internal/words"
)

// made is the section on what made the directory.
func made(r *Run) *section {
	if r.Info == nil {
		return nil
	}
	s := &section{ID: "made", Title: "Run and version"}
	s.Facts = []Fact{{"Run id", r.Info.RunID.String()}, {"Made by", "minsep " + r.Info.Version}}
	if r.Info.Plan != nil {
		s.Facts = append(s.Facts, Fact{"Plan", r.Info.Plan.SHA256.String()})
	}
	return s
}

// checks is the section on every check, broken ones first.
func checks(r *Run) *section {
	s := &section{ID: "checks", Title: "Every check"}
	columns := []string{"where", "check", "what must hold"}
	broken := table{Title: "BROKEN", Columns: columns}
	held := table{Columns: columns, Folded: true}
	for _, f := range r.Folders {
		where := baseOf(f.Folder)
		for _, c := range f.Checks {
			if c.Held {
				held.add(where, c.Name, c.Rule)
			} else {
				broken.add(where, c.Name, c.Rule)
			}
		}
		s.List = append(s.List, f.Notes...)
	}
	held.Title = fmt.Sprintf("%s: open the list", words.Count(len(held.Rows), "passing check"))
	if len(broken.Rows) > 0 {
		s.Tables = append(s.Tables, broken)
	} else {
		held.Title = fmt.Sprintf("All %d checks hold: open the list", len(held.Rows))
	}
	s.Tables = append(s.Tables, held)
	return s
}

// power writes a power of two as 2^k, and any other number as it is.
func power(v float64) string {
	if f, k := math.Frexp(v); f == 0.5 {
		return fmt.Sprintf("2^%d", k-1)
	}
	return fmt.Sprintf("%g", v)
}

// baseOf returns the last part of a path, of any system.
func baseOf(path string) string {
	path = strings.TrimRight(path, "/")
	return path[strings.LastIndexAny(path, `/\`)+1:]
}
