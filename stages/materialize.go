package stages

import (
	"cmp"

	"minsep/internal/param"
	"minsep/manifest"
)

// Materialize joins the user's examples with the batches of a run directory, and writes them to
// run/materialized in the order of the steps.
type Materialize struct {
	Examples []string // Parquet files, folders or patterns; at least one
	ByName   bool     // Examples are folders of files, each an example, with its id as name
	IDColumn string   // the column of ids of the files; empty for [DefaultIDColumn]
	Pad      int      // every step is filled up with entries of nulls to a multiple of it; 0: not at all

	Shards int // of the files; 0 for as many as the expected size calls for. Does not change the rows
}

// DefaultIDColumn is the name of the column of ids, if none is given.
const DefaultIDColumn = "example_id"

// Column is the name of the column of ids; for files by name, that of their names.
func (m Materialize) Column() string {
	if m.ByName {
		return manifest.FileColumn
	}
	return cmp.Or(m.IDColumn, DefaultIDColumn)
}

// Validate reports every fault that can be seen without the batches and the examples.
func (m Materialize) Validate() error {
	c := param.Checker{Package: "stages"}
	c.Require(len(m.Examples) > 0, "examples", "(none)", "must name the Parquet files that hold the examples")
	c.Require(!m.ByName || m.IDColumn == "", "id-column", m.IDColumn, "cannot be used with --by-name: the names of the files are the ids")
	c.AtLeast("pad", m.Pad, 0)
	c.AtLeast("shards", m.Shards, 0)
	return c.Err()
}
