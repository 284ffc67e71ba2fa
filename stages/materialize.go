package stages

import (
	"cmp"
	"context"
	"fmt"

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

// Column returns the name of the column of ids; for files by name, of the column of their names.
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

// FilesParams returns the parameters on which the files depend.
func (m Materialize) FilesParams() manifest.MaterializedParams {
	return manifest.MaterializedParams{IDColumn: m.Column(), Pad: m.Pad}
}

// materializeStage is the writing of examples in plans, run directories and inspections.
var materializeStage = Stage{Name: "materialize", Group: "materialize", Results: []string{manifest.MaterializedFolder}, Formats: []string{manifest.MaterializedFormat}, From: []string{"form"},
	Secret: true, OneRun: true, Last: true,
	in:         func(p Plan) bool { return p.Materialize != nil },
	faults:     func(p Plan) error { return p.MaterializeParams().Validate() },
	unfinished: interrupted(manifest.MaterializedFolder),
	estimate: func(p Plan, _ int64) PlanEstimate { // without a look at the examples: how large they are is not known
		rows := p.expectedForm().RowsPerStep() * float64(p.Scheme.Steps)
		return PlanEstimate{Rows: int64(rows), Files: max(1, p.Materialize.Shards), CPU: 0.1 + materializedRow*rows, Memory: min(materializedMemory, int64(2000*rows))}
	},
	// expect does not look at the user's examples, which may be gone by now, or be many.
	expect: func(ctx context.Context, d *Directory) (expected, error) {
		batches, err := manifest.DigestOf(ctx, d.path(manifest.BatchesFolder))
		plan := d.Plan.MaterializeParams()
		return expected{manifest.MaterializedFormat, plan.FilesParams(), map[string]manifest.Digest{manifest.BatchesFolder: batches}, func(*manifest.Index) (differs []string, err error) {
			m, err := manifest.OpenMaterialized(ctx, d.path(manifest.MaterializedFolder))
			if err == nil && plan.Shards != 0 && plan.Shards != m.Facts.Shards {
				differs = append(differs, "it has another number of shards")
			}
			return differs, err
		}}, err
	},
}

// PlanMaterialize says which examples are written in the order of the steps, and how: see
// [Materialize].
type PlanMaterialize struct {
	Examples []string `json:"examples,omitempty" decides:"nothing"` // Parquet files, folders or patterns; with ByName folders of files
	ByName   bool     `json:"by_name,omitempty"`                    // each file is an example, with its id as name
	IDColumn string   `json:"id_column,omitempty"`                  // the column of ids; "" for [DefaultIDColumn]
	Pad      int      `json:"pad,omitempty"`                        // every step has a multiple of so many entries; 0: no padding
	Shards   int      `json:"shards,omitempty"`                     // at least 1; 0 for as many as the expected size calls for
}

// MaterializeParams returns the parameters of a plan that materializes.
func (p Plan) MaterializeParams() Materialize {
	m := p.Materialize
	return Materialize{Examples: m.Examples, ByName: m.ByName, IDColumn: m.IDColumn, Pad: m.Pad, Shards: m.Shards}
}

// Costs of materialized examples, see [Plan.Estimate].
const (
	materializedRow    = 13e-6 // seconds a participation, of rows of 1 kB
	materializedMemory = 700 << 20
)
