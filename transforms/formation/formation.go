// Package formation forms the batches of a training run: Beam transforms from a table of examples
// to files of row numbers by step.
//
// # Behavior
//
// [Range] and [Table] draw every example's participations from its own stream, shuffle the
// pairs (step, row) in packed chunks by shard of steps, and write each shard's files
// ([minsep/transforms/manifestio]) in one task, which holds the shard in memory: about 12 bytes
// a participation. For Algorithm 3 ([sampling.MultiOwner]) a second shuffle brings the coins of
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
//
// Stability: may change with every release.
package formation

import (
	"context"
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/packed"
	"minsep/internal/param"
	"minsep/manifest"
	"minsep/sampling"
	"minsep/sampling/ownergraph"
	"minsep/sampling/stream"
	"minsep/transforms/internal/keyref"
)

// ParamError is a faulty parameter.
type ParamError = param.Error

// Config holds the parameters of formation besides the examples. It travels with the pipeline
// graph, so it holds where the key is, not the key.
type Config struct {
	Spec     sampling.Spec   `json:"spec"`          // the scheme, valid
	Examples int64           `json:"examples"`      // rows of the table: rows are 0 to Examples-1
	Shards   int             `json:"shards"`        // at most one a step; [Shards] gives a good number
	Dir      string          `json:"dir"`           // of the files; exists, mode 0700
	Parquet  bool            `json:"parquet"`       // write the long form as well
	IDs      IDs             `json:"ids"`           // of a table, for the long form
	KeyURI   string          `json:"key_uri"`       // of the root key; see [stream.ReadKeyFile]
	RunID    stream.RunID    `json:"run_id"`        // of the training run
	Params   manifest.Digest `json:"params_sha256"` // of the stage's parameters, from [manifest.Params]
	Pools    int             `json:"pools"`         // of the table, for rotation; otherwise 0
	Buckets  int             `json:"buckets"`       // of owners, where they matter; 0: from the number of coins or examples
	TempDir  string          `json:"temp_dir"`      // of temporary files on each worker; empty for the system's
}

// IDs says where the long form has an example's id from.
type IDs struct {
	Type   ownergraph.IDType `json:"type"`    // of the ids
	AreRow bool              `json:"are_row"` // ids are row numbers; Range sets it
}

// Validate returns every fault of the configuration, joined. It does not read the key.
func (c Config) Validate() error {
	k := param.Checker{Package: "formation"}
	k.Require(c.Examples >= 1, "examples", c.Examples, "must be at least 1")
	if err := c.Spec.Validate(); err != nil {
		k.Add(err)
	} else {
		steps := c.Spec.Scheme().NumSteps()
		k.Require(c.Shards >= 1 && c.Shards <= steps, "shards", c.Shards, fmt.Sprintf("must be from 1 to the %d steps", steps))
	}
	k.Require(c.Buckets >= 0 && c.Buckets <= packed.MaxBuckets, "buckets", c.Buckets, fmt.Sprintf("must be from 0 to %d", packed.MaxBuckets))
	k.Require(c.Dir != "", "dir", `""`, "must name a folder")
	k.Add(c.keys().Validate())
	k.Require(c.Spec.Rotation == nil || c.Pools >= 1 && !c.IDs.AreRow, "pools", c.Pools, "must be at least 1 for rotation, of a table")
	k.Require(c.Spec.Owners == nil || !c.IDs.AreRow, "sample", sampling.SampleOwners, "needs a table, which names the owners of examples")
	return k.Err()
}

func (c Config) keys() keyref.Ref { return keyref.New(c.KeyURI, c.RunID, c.Params) }

// key derives the key of one of this stage's purposes.
func (c Config) key(ctx context.Context, purpose string) (stream.Key, error) {
	k, err := c.keys().Key(ctx, "formation")
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

func (c Config) shards() *shards { return newShards(c.Spec.Scheme().NumSteps(), c.Shards) }

// RowType is the type of row numbers in the files.
func (c Config) RowType() manifest.DType {
	if c.Examples <= 1<<31 {
		return manifest.DInt32
	}
	return manifest.DInt64
}

// needsNames says whether the ids of rows must travel with the events.
func (c Config) needsNames() bool { return c.Parquet && !c.IDs.AreRow }

// Range forms batches of the examples 0 to Examples-1, each its own row, in one copy, and its own
// owner. It returns the files that it wrote as a PCollection<string> of JSON [manifest.File].
func Range(s beam.Scope, c Config) (beam.PCollection, error) {
	s = s.Scope("formation.Range")
	c.IDs = IDs{Type: ownergraph.Int64, AreRow: true}
	if err := c.Validate(); err != nil {
		return beam.PCollection{}, err
	}
	if c.Spec.Fixed != nil {
		if err := c.Spec.Fixed.CheckExamples(c.Examples); err != nil {
			return beam.PCollection{}, err
		}
		events := beam.ParDo(s, &fixedRangeFn{Config: c}, beam.Impulse(s))
		return write(s, c, events), nil
	}
	spans := beam.ParDo(s, &spanFn{Examples: c.Examples}, beam.Impulse(s))
	events, coins := beam.ParDo2(s, &drawRangeFn{drawFn{Config: c}}, beam.Reshuffle(s, spans))
	return write(s, c, exclude(s, c, events, coins)), nil
}

// Table forms batches of the examples of a table: rows is a PCollection<[]byte> of encoded
// ownergraph.Rows, which together hold the rows 0 to Examples-1 in any order. Their owners may
// be left out unless the scheme is MultiOwner or Fixed, or owners follow it: then each row must
// have one owner and one copy. Its results are as for Range.
func Table(s beam.Scope, c Config, rows beam.PCollection) (beam.PCollection, error) {
	s = s.Scope("formation.Table")
	c.IDs.AreRow = false
	if err := c.Validate(); err != nil {
		return beam.PCollection{}, err
	}
	if c.Spec.Fixed != nil {
		all := beam.GroupByKey(s, beam.AddFixedKey(s, rows))
		return write(s, c, beam.ParDo(s, &fixedTableFn{Config: c}, all)), nil
	}
	if c.Spec.Owners != nil {
		owned := beam.GroupByKey(s, beam.ParDo(s, &ownedFn{Config: c}, rows))
		return write(s, c, beam.ParDo(s, &drawOwnersFn{Config: c}, owned)), nil
	}
	events, coins := beam.ParDo2(s, &drawTableFn{drawFn: drawFn{Config: c}}, rows)
	return write(s, c, exclude(s, c, events, coins)), nil
}

// exclude adds the events that Algorithm 3 blocks to the drawn ones.
func exclude(s beam.Scope, c Config, events, coins beam.PCollection) beam.PCollection {
	if c.Spec.MultiOwner == nil {
		return events
	}
	s = s.Scope("exclude")
	blocked := beam.ParDo(s, &excludeFn{Config: c}, beam.GroupByKey(s, coins))
	return beam.Flatten(s, events, blocked)
}

func write(s beam.Scope, c Config, events beam.PCollection) beam.PCollection {
	// Every shard has a task even if nothing takes part in it.
	s = s.Scope("write")
	empty := beam.ParDo(s, &emptyFn{Shards: c.Shards}, beam.Impulse(s))
	return beam.ParDo(s, &writeFn{Config: c}, beam.GroupByKey(s, beam.Flatten(s, events, empty)))
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
