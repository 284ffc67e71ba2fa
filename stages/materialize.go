package stages

import (
	"cmp"
	"context"
	"fmt"

	"minsep/internal/param"
	"minsep/internal/store"
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

// Column is the name of the column of ids; for files by name, the column of their names.
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
	c.Require(!m.ByName || m.IDColumn == "", "id-column", m.IDColumn, "cannot be used with files by name: their names are the ids")
	c.AtLeast("pad", m.Pad, 0)
	c.Require(m.Pad <= manifest.MaxPad, "pad", m.Pad, fmt.Sprintf("must be at most %d", manifest.MaxPad))
	c.AtLeast("shards", m.Shards, 0)
	return c.Err()
}

// FilesParams are the parameters that the files depend on.
func (m Materialize) FilesParams() manifest.MaterializedParams {
	return manifest.MaterializedParams{IDColumn: m.Column(), Pad: m.Pad}
}

type materializeResult struct{ folder }

func (r materializeResult) Resumable(ctx context.Context) (bool, error) {
	return manifest.Interrupted(ctx, r.Path())
}

func (r materializeResult) From() map[string]string {
	return map[string]string{manifest.BatchesFolder: batchesIndex}
}

// Compare does not look at the user's examples, which may be gone by now, or be many.
func (r materializeResult) Compare(ctx context.Context) (bool, []string, error) {
	if finished, err := manifest.Finished(ctx, r.Path()); err != nil || !finished {
		return false, nil, err
	}
	batches, err := manifest.DigestOf(ctx, store.Join(r.Out, manifest.BatchesFolder))
	if err != nil {
		return false, nil, err
	}
	plan := r.Plan.MaterializeParams()
	ix, differs, err := expected{r.Path(), manifest.MaterializedFormat, plan.FilesParams(), map[string]manifest.Digest{manifest.BatchesFolder: batches}}.look(ctx, r.Run.RunID)
	if err != nil || differs != nil {
		return ix != nil, differs, err
	}
	m, err := manifest.OpenMaterialized(ctx, r.Path())
	if err != nil {
		return false, nil, err
	}
	if plan.Shards != 0 && plan.Shards != m.Facts.Shards {
		differs = append(differs, "it has another number of shards")
	}
	return true, differs, nil
}
