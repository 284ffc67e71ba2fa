// Package materialize joins the user's examples with the batches of a run, and writes them in the
// order of the steps: for trainers that read streams, and cannot seek a row.
//
// # Behavior
//
// [Write] reads the batches, finds where the examples are by their ids, reads the rows that take
// part, and writes Parquet files, each of a range of steps. Rows go through the shuffle once, and
// beyond 64 MiB a bundle, or 1 MiB a row, through files in [Config.SharedDir]; before that travel
// ids and places of some 20 bytes. A task holds the ids of one part of the table, or 256 MiB of
// rows of a range of steps, and sorts larger ones through temporary files.
//
// Every example of the table must be in the data once, be it in a batch or not: which examples are
// needed is secret. Other rows of the data are left out.
//
// # Order
//
// Entries of a step are in an order that only the key gives, owners' examples together. Files are
// sorted by step and slot, the place of an entry in its step from 0 on. With [Config.Pad], every
// step is filled up with rows of -1 and nulls to a multiple of it, and has at least one entry.
//
// # Determinism
//
// The rows depend on key, run id, parameters, batches and data. Runner, bundles, retries and the
// order of the data change no byte; the number of shards changes where files are cut.
//
// # Secrecy
//
// The files are as secret as the batches. Nothing of them is logged or counted, and every file has
// mode 0600.
//
// Stability: may change with every release.
package materialize

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/packed"
	"minsep/internal/param"
	"minsep/manifest"
	"minsep/sampling/stream"
	"minsep/transforms/internal/keyref"
)

// init registers what the DoFns exchange; see package packed for the chunks.
func init() {
	for _, fn := range []any{partsFn{}, eventsFn{}, idsFn{}, joinFn{}, splitsFn{}, readFn{}, shardsFn{}, writeFn{}} {
		beam.RegisterDoFn(reflect.TypeOf(fn))
	}
	register.Emitter1[string]()
	register.Emitter2[uint32, []byte]()
	register.Iter1[[]byte]()
}

// ParamError is a faulty parameter.
type ParamError = param.Error

// Config has the parameters of the join. It travels with the pipeline graph, so it holds the place
// of the key, not the key. Folders must mean the same to every worker.
type Config struct {
	Batches  string          `json:"batches"`       // folder of batches
	Table    string          `json:"table"`         // folder of the bounded table; empty where rows are the ids
	Dir      string          `json:"dir"`           // of the files; exists, mode 0700
	Shards   int             `json:"shards"`        // at least 1, at most one a step
	Done     []int           `json:"done"`          // shards with their files there, ascending
	Pad      int             `json:"pad"`           // entries of a step are filled up to a multiple of it; 0: not at all
	IDColumn string          `json:"id_column"`     // of the data
	KeyURI   string          `json:"key_uri"`       // of the root key; see [stream.ReadKeyFile]
	RunID    stream.RunID    `json:"run_id"`        // of the training run
	Params   manifest.Digest `json:"params_sha256"` // of the stage's parameters, from [manifest.Params]

	TempDir     string `json:"temp_dir"`     // of temporary files on each worker; empty for the system's
	SharedDir   string `json:"shared_dir"`   // for chunks that are too much for a bundle; exists, mode 0700; removed by the caller
	SharedAfter int64  `json:"shared_after"` // bytes of a bundle that are passed on before; 0 for 64 MiB
}

// Validate returns every fault of the configuration, joined. It does not read the key.
func (c Config) Validate() error {
	k := param.Checker{Package: "materialize"}
	k.AtLeast("shards", c.Shards, 1)
	k.AtLeast("pad", c.Pad, 0)
	for _, dir := range []struct{ name, path string }{{"batches", c.Batches}, {"dir", c.Dir}, {"shared dir", c.SharedDir}} {
		k.Require(dir.path != "", dir.name, `""`, "must name a folder")
	}
	k.Require(c.IDColumn != "", "id column", `""`, "must name a column")
	k.Add(c.keys().Validate())
	return k.Err()
}

// keys returns the reference to the key.
func (c Config) keys() keyref.Ref { return keyref.New(c.KeyURI, c.RunID, c.Params) }

// orderKey derives the key of the order within steps.
func (c Config) orderKey(ctx context.Context) (stream.Key, error) {
	k, err := c.keys().Key(ctx, "materialize")
	return k.Sub("order within a step"), err
}

// packer returns a packer for records of width bytes, or of any length if that is 0.
func (c Config) packer(width, buckets int) *packed.Packer {
	return packed.NewPacker(width, buckets).Over(packed.Overflow{Dir: c.SharedDir, After: c.SharedAfter})
}

// Write joins the data with the batches. It returns the files that it wrote, without the files
// of Done, as a PCollection<string> of JSON [manifest.File].
func Write(s beam.Scope, c Config, data *Source) (beam.PCollection, error) {
	s = s.Scope("materialize.Write")
	if err := c.Validate(); err != nil {
		return beam.PCollection{}, err
	}
	batches, err := manifest.OpenBatches(context.Background(), c.Batches)
	if err != nil {
		return beam.PCollection{}, err
	}
	if c.Shards > batches.Facts.Steps {
		return beam.PCollection{}, &ParamError{Package: "materialize", Param: "shards", Value: c.Shards, Rule: fmt.Sprintf("must be at most the number of steps, %d", batches.Facts.Steps)}
	}
	units, err := data.units(s)
	if err != nil {
		return beam.PCollection{}, err
	}
	shards := make([]int, batches.Facts.Shards)
	for i := range shards {
		shards[i] = i
	}
	of := s.Scope("batches")
	events := beam.ParDo(of, &eventsFn{Config: c}, beam.Reshuffle(of, beam.CreateList(of, shards)))
	places := c.places(s, data, units, events)
	of = s.Scope("rows")
	rows := beam.ParDo(of, &readFn{Config: c}, beam.CoGroupByKey(of, places, beam.ParDo(of, &splitsFn{}, units)))
	of = s.Scope("files")
	rows = beam.Flatten(of, rows, beam.ParDo(of, &shardsFn{Config: c}, beam.Impulse(of)))
	return beam.ParDo(of, &writeFn{Config: c, First: data.Splits[0]}, beam.GroupByKey(of, rows)), nil
}

// Compare finds every example of the table in the data, once, and does nothing else. A pipeline
// with it fails if one of [Write] would fail for that reason, and writes to [Config.SharedDir]
// only.
func Compare(s beam.Scope, c Config, data *Source) error {
	s = s.Scope("materialize.Compare")
	if err := c.Validate(); err != nil {
		return err
	}
	units, err := data.units(s)
	if err != nil {
		return err
	}
	c.places(s, data, units)
	return nil
}

// units returns the splits of the data as JSON. There must be at least one.
func (d *Source) units(s beam.Scope) (beam.PCollection, error) {
	if len(d.Splits) == 0 {
		return beam.PCollection{}, fmt.Errorf("%s: the data have no rows", FaultPrefix)
	}
	splits := make([]string, len(d.Splits))
	for i, split := range d.Splits {
		b, err := json.Marshal(split)
		if err != nil {
			return beam.PCollection{}, fmt.Errorf("materialize: split: %w", err)
		}
		splits[i] = string(b)
	}
	s = s.Scope("splits")
	return beam.Reshuffle(s, beam.CreateList(s, splits)), nil
}

// places finds every example of the table in the data, and where events are there.
func (c Config) places(s beam.Scope, data *Source, units beam.PCollection, events ...beam.PCollection) beam.PCollection {
	s = s.Scope("join")
	all := append(events, beam.ParDo(s, &partsFn{Config: c}, beam.Impulse(s)))
	ids := beam.ParDo(s, &idsFn{Config: c}, units)
	return beam.ParDo(s, &joinFn{Config: c, Splits: len(data.Splits), Named: data.Splits[0].Named}, beam.CoGroupByKey(s, beam.Flatten(s, all...), ids))
}

// emitChunk takes a key and a chunk of records.
type emitChunk = func(uint32, []byte)
