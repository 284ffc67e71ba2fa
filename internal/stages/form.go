package stages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"minsep/internal/manifest"
	"minsep/internal/ownergraph"
	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/sampling"
)

// Form forms the batches of a training run. It reads a run directory, and leaves run/batches. The
// examples are those of a bounded table, or the numbers 0 to Examples-1, each its own owner.
type Form struct {
	sampling.Params
	Bounded  string `flag:"bounded" help:"run directory with a bounded graph, made by minsep bound"`                             // or folder of a bounded table; or
	Examples int64  `flag:"examples" help:"number of examples, each its own owner, in place of a graph; their ids are 0 to N-1"` // at least 1

	// The fields below do not change the batches.

	Shards  int `flag:"shards" help:"number of shards, each a set of files (default: by the expected size); does not change the batches"`
	Buckets int `flag:"buckets" help:"number of buckets of the shuffle by owner (default: by the size of the graph); does not change the batches"`
}

// FormResult describes formed batches. All of it is public, since it follows from the parameters.
type FormResult struct {
	RunID        string        `json:"run_id,omitempty"`        // none after a dry run
	Out          string        `json:"out"`                     // run directory
	Scheme       sampling.Spec `json:"scheme"`                  // as it was run, with the probability
	Copies       int64         `json:"copies"`                  // of examples, at least as many
	Pools        int           `json:"pools,omitempty"`         // of rotation
	PoolExamples int64         `json:"pool_examples,omitempty"` // in each of them

	manifest.BatchesFacts // of the index; without examples after a dry run on a graph
}

// maxBuckets is the largest number of buckets of a shuffle: the transforms number them in three
// bytes (package packed, which this package does not import). Each takes memory.
const maxBuckets = 1 << 24

// Validate reports every fault that can be seen without the examples.
func (f Form) Validate() error {
	c := param.Checker{}
	c.Add(f.Params.Validate())
	c.Require((f.Bounded != "") != (f.Examples != 0), "bounded and examples", nil, "exactly one of them must be given")
	c.Require(f.Examples >= 0, "examples", f.Examples, "must be at least 1")
	c.Add(feasible(f.Params, f.Examples))
	c.Require(
		f.Examples == 0 || f.Kind().Owners != sampling.OwnersNeeded && !f.Kind().Pools,
		"scheme",
		f.Scheme,
		"needs a bounded table, which names the owners of examples, and for rotation one of pools: bound the graph, and give --bounded",
	)
	c.Require(
		f.Examples == 0 || f.Sample != sampling.SampleOwners,
		"sample",
		f.Sample,
		"needs a bounded table: numbered examples are their own owners",
	)
	c.Requiref(
		f.Shards >= 0 && (f.Shards <= f.Steps || f.Steps < 1),
		"shards",
		f.Shards,
		"must be 1 to %d, the steps: a shard holds whole steps", max(1, f.Steps),
	)
	c.Requiref(
		f.Buckets >= 0 && f.Buckets <= maxBuckets,
		"buckets",
		f.Buckets,
		"must be 1 to %d", maxBuckets,
	)
	return c.Err()
}

// feasible refuses a batch size that a number of examples, each its own owner, cannot give; 0 is an
// unknown number. Where other parameters of the scheme are at fault, the scheme's own limit is not
// known, and the number of examples is the limit.
func feasible(p sampling.Params, examples int64) error {
	if examples < 1 || p.BatchSize <= 0 || p.Sample == sampling.SampleOwners ||
		p.Kind().Owners == sampling.OwnersNeeded {
		return nil
	}
	if p.Validate() != nil {
		c := param.Checker{}
		c.Requiref(
			p.BatchSize <= float64(examples),
			"batch size",
			p.BatchSize,
			"must be at most %d, the number of examples", examples,
		)
		return c.Err()
	}
	_, err := p.Spec(numberedPopulation(examples))
	var infeasible *sampling.InfeasibleError
	if errors.As(err, &infeasible) {
		return infeasible
	}
	return nil // other refusals are left to the stage, which has the examples
}

// Planned describes batches of numbers or of a bounded table before they are formed.
func (f Form) Planned(ctx context.Context) (FormResult, Source, error) {
	source, err := f.Source(ctx)
	if err != nil {
		return FormResult{}, source, err
	}
	if err := source.fits(f.Params, ""); err != nil {
		return FormResult{}, source, err
	}
	spec, err := f.Spec(source.Population())
	if err != nil {
		return FormResult{}, source, err
	}
	of, shards := source.Population(), f.Shards
	if shards == 0 {
		steps := spec.Scheme().NumSteps()
		shards = manifest.BatchShards(spec.DrawnPerStep(of)*float64(steps), steps)
	}
	formed := FormResult{Scheme: spec, Copies: of.Examples, BatchesFacts: BatchesFacts(spec, of, source.Rows, shards, source.RowsOf())}
	if c := source.coverage(); c != nil {
		formed.Copies, formed.Pools, formed.PoolExamples = source.Rows, c.Pools, c.Size
	}
	return formed, source, nil
}

// BatchesFacts returns the facts in the index of batches of a population, whose rows are of the table
// rowsOf.
func BatchesFacts(spec sampling.Spec, of sampling.Population, rows int64, shards int, rowsOf string) manifest.BatchesFacts {
	facts := manifest.BatchesFacts{
		Examples:          rows,
		Steps:             spec.Scheme().NumSteps(),
		Shards:            shards,
		RowType:           manifest.RowType(rows),
		RowsOf:            rowsOf,
		ExpectedBatchSize: spec.ExpectedBatchSize(of),
	}
	if t := spec.Truncation; t != nil && t.Pad {
		facts.BatchSize = t.MaxBatchSize
	}
	if o := spec.Owners; o != nil {
		facts.BatchSize *= o.ExamplesPerOwner
		facts.Owners, facts.ExamplesPerOwner = of.Owners.Total(), o.ExamplesPerOwner
		facts.ExpectedExamples = spec.ExpectedExamples(of)
	}
	return facts
}

// Source has the examples of batches: a bounded table, or numbers.
type Source struct {
	Rows  int64             // of the table, or how many numbers; at least 1
	Table *manifest.Bounded // nil: numbers
}

// Source opens the examples of batches.
func (f Form) Source(ctx context.Context) (Source, error) {
	if f.Bounded == "" {
		return Source{Rows: f.Examples}, nil
	}
	b, err := openBounded(ctx, f.Bounded)
	if err != nil {
		return Source{}, err
	}
	if b.Rows == 0 {
		return Source{}, param.Fault("bounded", f.Bounded, "has no examples")
	}
	return Source{Rows: b.Rows, Table: b}, nil
}

// openBounded opens the bounded table of a run directory, or a folder that is one.
func openBounded(ctx context.Context, dir string) (*manifest.Bounded, error) {
	b, err := manifest.OpenBounded(ctx, store.Join(dir, manifest.BoundedFolder))
	if err == nil {
		return b, nil
	}
	if inFolder, errFolder := manifest.OpenBounded(ctx, dir); errFolder == nil {
		return inFolder, nil
	}
	missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	if !missing && !errors.Is(err, manifest.ErrInvalid) { // a failure of the machine is no fault of --bounded
		return nil, err
	}
	rule := "has a bounded graph that cannot be used: restore it from a copy, or remove it and bound the graph again"
	_, errIndex := store.Stat(ctx, store.Join(dir, manifest.BoundedFolder, manifest.IndexName))
	_, errInFolder := store.Stat(ctx, store.Join(dir, manifest.IndexName))
	if missing && errIndex != nil && errInFolder != nil {
		rule = "has no bounded graph, as `minsep bound` makes them"
	}
	return nil, fmt.Errorf("%w: %w", &ParamError{Param: "bounded", Value: dir, Rule: rule}, err)
}

// coverage returns the coverage of the table's pools, nil without pools.
func (s Source) coverage() *ownergraph.Coverage {
	if s.Table == nil {
		return nil
	}
	return s.Table.Summary.Coverage
}

// Population returns the examples for which a scheme is made. Of a table with pools these are one
// pool's.
func (s Source) Population() sampling.Population {
	if s.Table == nil {
		return numberedPopulation(s.Rows)
	}
	return PopulationOf(s.Table.Summary)
}

// PopulationOf returns the examples of a bounded graph for which a scheme is made.
func PopulationOf(s ownergraph.Summary) sampling.Population {
	sizes := make(sampling.Neighborhoods)
	for _, bin := range s.Neighborhoods {
		sizes[int(bin.Value)] = bin.Count
	}
	return sampling.Population{Examples: takingPart(s), Neighborhoods: sizes, Owners: ownerSizes(s)}
}

// Inputs returns the sources of batches, as their index names them.
func (s Source) Inputs() map[string]manifest.Digest {
	if s.Table == nil {
		return nil
	}
	return map[string]manifest.Digest{manifest.BoundedFolder: s.Table.Digest}
}

// RowsOf returns the name of the table that the row numbers of batches refer to.
func (s Source) RowsOf() string {
	if s.Table == nil {
		return manifest.RowsOfRange
	}
	return manifest.RowsOfBounded
}

// formStage is the forming of batches in plans, run directories and inspections.
var formStage = Stage{
	Name:     "form",
	Group:    "batches",
	Results:  []string{manifest.BatchesFolder},
	Formats:  []string{manifest.BatchesFormat, manifest.OwnerBatchesFormat},
	Secret:   true,
	faults:   func(p Plan) error { return FormOf(p).Validate() },
	estimate: estimateForm,
}

// PlanBatches says how the batches are laid out in files: see [Form].
type PlanBatches struct {
	Shards int `json:"shards,omitempty"` // at least 1; 0 for as many as the size calls for
}

// FormOf returns the plan's parameters of batches.
func FormOf(p Plan) Form {
	return Form{
		Params:   p.Scheme,
		Bounded:  p.Table(),
		Examples: p.numbered(),
		Shards:   p.Batches.Shards,
	}
}
