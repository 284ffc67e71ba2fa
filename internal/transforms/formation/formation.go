// Package formation forms the batches of a training run: Beam transforms from a table of examples
// to batches of rows by step.
//
// # Behavior
//
// [Range] and [Table] draw every example's participations from its own stream and shuffle the
// pairs (step, row) in packed chunks by shard of steps. [Drawn.Write] writes each shard's files
// ([minsep/internal/transforms/manifestio]), [Assemble] gives its batches to a caller, each in one task,
// which holds the shard in memory: about 16 bytes a participation. Large steps are divided into blocks
// of rows, too: a task assembles a cell, a block of a shard, and all sizes come to it as a side input;
// only the file of a step comes from one task, which gets the assembled rows in order and holds none.
//
// The probability, the number of shards and the key follow from the number of examples, which the
// same pipeline may have counted. So they come to the DoFns as a side input of one element, a
// [Resolved]. For Algorithm 3 ([sampling.MultiOwner]) a second shuffle brings the coins of
// each owner together and finds the blocked participations. [sampling.Fixed] is sequential: one
// task holds the examples, and their owners, in memory.
//
// # Determinism
//
// The batches are a function of the key, the run id, the parameters, and each example's id, row,
// number of copies and owners. Runner, bundles, retries, the order of the input and the number of
// buckets do not change a byte; the number of shards changes where files are cut and nothing else.
//
// # Secrecy
//
// Batches and their sizes are secret. Nothing of them is logged or counted.
package formation

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"
	"minsep/internal/param"
	"minsep/internal/stream"
	"minsep/internal/transforms/keyref"
	"minsep/sampling"
)

// Settings are the parameters of formation that do not follow from the examples. They travel through
// the pipeline, so they hold where the key is, not the key.
type Settings struct {
	Shards  int        `json:"shards"`   // at most one a step; 0 of a request for as many as the number of examples calls for
	Blocks  int        `json:"blocks"`   // of the rows of each shard, at least 1; 0 of a request as for shards
	Names   bool       `json:"names"`    // carry the ids of a table's examples to their batches
	IDs     IDs        `json:"ids"`      // of the examples
	Key     keyref.Ref `json:"key"`      // the root key, the run and, of a Config, the stage's parameters
	Buckets int        `json:"buckets"`  // of owners, where they matter; 0: from the number of coins or examples
	Workers int        `json:"workers"`  // goroutines that draw a bundle; 0 for one a processor
	TempDir string     `json:"temp_dir"` // of temporary files on each worker; empty for the system's
}

// Config holds the parameters of formation besides the examples.
type Config struct {
	Settings
	Spec     sampling.Spec `json:"spec"`     // the scheme, valid
	Examples int64         `json:"examples"` // rows of the table: rows are 0 to Examples-1
	Pools    int           `json:"pools"`    // of the table, for rotation; otherwise 0
}

// IDs says where an example's id comes from.
type IDs struct {
	Type   ownergraph.IDType `json:"type"`    // of the ids
	AreRow bool              `json:"are_row"` // ids are row numbers
}

// Validate returns every fault of the configuration, joined. It does not read the key.
func (c Config) Validate() error {
	k := param.Checker{}
	k.Require(c.Examples >= 1, "examples", c.Examples, "must be at least 1")
	if err := c.Spec.Validate(); err != nil {
		k.Add(err)
	} else {
		steps := c.Spec.Scheme().NumSteps()
		k.Requiref(
			c.Shards >= 1 && c.Shards <= steps,
			"shards",
			c.Shards,
			"must be from 1 to the %d steps", steps,
		)
	}
	k.AtLeast("blocks", c.Blocks, 1)
	k.Requiref(
		c.Buckets >= 0 && c.Buckets <= packed.MaxBuckets,
		"buckets",
		c.Buckets,
		"must be from 0 to %d", packed.MaxBuckets,
	)
	k.AtLeast("workers", c.Workers, 0)
	k.Add(c.Key.Validate())
	k.Require(
		c.Spec.Rotation == nil || c.Pools >= 1 && !c.IDs.AreRow,
		"pools",
		c.Pools,
		"must be at least 1 for rotation, of a table",
	)
	k.Require(
		c.Spec.Owners == nil || !c.IDs.AreRow,
		"sample",
		sampling.SampleOwners,
		"needs a table, which names the owners of examples",
	)
	k.Require(
		c.Spec.MultiOwner == nil || !c.IDs.AreRow,
		"scheme",
		c.Spec.Kind().Name,
		"needs a table, which names the owners of examples",
	)
	if c.Spec.Fixed != nil && c.IDs.AreRow {
		k.Add(c.Spec.Fixed.CheckExamples(c.Examples))
	}
	return k.Err()
}

// key derives the key of one of this stage's purposes.
func (c Config) key(ctx context.Context, purpose string) (stream.Key, error) {
	k, err := c.Key.Key(ctx, "formation")
	return k.Sub(purpose), err
}

// Purposes of keys.
const (
	drawPurpose     = "participations"
	ownerPurpose    = "owners"
	truncatePurpose = "truncation"
	orderPurpose    = "order"
	samplePurpose   = "participations of owners"
	bringPurpose    = "examples of owners"
)

func (c Config) shards() *shards {
	return newShards(c.Spec.Scheme().NumSteps(), c.Shards, c.Blocks, c.Examples)
}

// needsNames says whether the ids of rows must travel with the events.
func (c Config) needsNames() bool { return c.Names && !c.IDs.AreRow }

// sequential says that one task forms all batches of a scheme.
const sequential = "fixed"

// Drawn are participations by cell, not yet assembled to batches.
type Drawn struct {
	Grouped  beam.PCollection // CoGBK<uint32, []byte>: cell, and chunks of events
	Resolved beam.PCollection // one []byte: a [Resolved] as JSON
	Sizes    beam.PCollection // []byte: where shards have several blocks, the sizes of each cell; there once each row of a table was drawn for exactly once
	blocks   int
}

// Range draws for the examples 0 to n-1, each its own row, in one copy, and its own owner. resolved
// is a PCollection<[]byte> of one [Resolved] as JSON, whose configuration says the same, for the
// scheme and the blocks of r.
func Range(s beam.Scope, r Request, resolved beam.PCollection, n int64) Drawn {
	s = s.Scope("formation.Range")
	side := beam.SideInput{Input: resolved}
	if r.Params.Scheme == sequential {
		return r.group(s, beam.ParDo(s, &fixedRangeFn{}, beam.Impulse(s), side), resolved, resolved)
	}
	spans := beam.ParDo(s, &spanFn{Examples: n}, beam.Impulse(s))
	return r.group(s, beam.ParDo(s, &drawRangeFn{}, beam.Reshuffle(s, spans), side), resolved, resolved)
}

// Table draws for the examples of a table: rows is a PCollection<[]byte> of encoded
// ownergraph.Rows, which together hold the rows 0 to n-1 in any order, each once. Their owners may
// be left out unless the scheme is sequential, excludes or samples owners: then each row must have
// one owner and one copy. r and resolved are as for [Range].
func Table(s beam.Scope, r Request, resolved, rows beam.PCollection) Drawn {
	s = s.Scope("formation.Table")
	side := beam.SideInput{Input: resolved}
	if r.Params.Scheme == sequential { // its task checks the rows
		all := beam.GroupByKey(s, beam.AddFixedKey(s, rows))
		return r.group(s, beam.ParDo(s, &fixedTableFn{}, all, side), resolved, resolved)
	}
	events, owners, tallies := beam.ParDo3(s, &drawTableFn{}, rows, side)
	once := s.Scope("every row once")
	checked := beam.ParDo(once, &checkFn{}, beam.GroupByKey(once, beam.AddFixedKey(once, tallies)), side)
	switch {
	case r.Params.Sample == sampling.SampleOwners:
		events = beam.ParDo(s, &drawOwnersFn{}, beam.GroupByKey(s, owners), side)
	case r.Params.Kind().Owners == sampling.OwnersNeeded:
		s := s.Scope("exclude")
		events = beam.Flatten(s, events, beam.ParDo(s, &excludeFn{}, beam.GroupByKey(s, owners), side))
	}
	return r.group(s, events, resolved, checked)
}

// group brings the events of each cell together.
func (r Request) group(s beam.Scope, events, resolved, checked beam.PCollection) Drawn {
	d := Drawn{Resolved: resolved, Sizes: checked, blocks: r.Blocks}
	cells := s.Scope("by shard")
	// Every cell has a task even if nothing takes part in it.
	empty := beam.ParDo(cells, &emptyFn{}, resolved)
	d.Grouped = beam.GroupByKey(cells, beam.Flatten(cells, events, empty))
	if r.Blocks > 1 {
		d.measure(s.Scope("sizes"), r.Params.MaxBatchSize > 0)
	}
	return d
}

// Each applies a DoFn to the chunks of each cell. Its side inputs are the configuration and the sizes.
func (d Drawn) Each(s beam.Scope, fn any) beam.PCollection {
	return beam.ParDo(s, fn, d.Grouped, beam.SideInput{Input: d.Resolved}, beam.SideInput{Input: d.Sizes})
}

// Write writes the files of every shard into dir, which exists with mode 0700. It returns the files as
// a PCollection<string> of JSON [manifest.File].
func (d Drawn) Write(s beam.Scope, dir string) beam.PCollection {
	s = s.Scope("formation.Write")
	if d.blocks > 1 {
		d.Grouped = beam.GroupByKey(s, d.Each(s, &piecesFn{}))
	}
	return d.Each(s, &writeFn{Dir: dir})
}

// buckets is the number of buckets of owners: a coin takes about coinBytes with its owner, and
// about two owners have it.
func (c Config) buckets() int {
	const coinBytes = 64
	if c.Buckets == 0 && c.Spec.Owners != nil {
		return packed.Buckets(c.Examples * coinBytes)
	}
	if c.Buckets > 0 || c.Spec.MultiOwner == nil {
		return max(1, c.Buckets)
	}
	return packed.Buckets(int64(c.Spec.ExpectedCoins(c.Examples) * coinBytes))
}
