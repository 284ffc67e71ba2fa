// Command faulty bounds a graph as `minsep bound` does, except that two DoFns fail once each:
// one in the middle of its bundle, when it has already passed edges on, and one when the first
// file of the result has been written. It is for tests of a runner's retries, and prints the
// counters.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	"minsep/internal/graphio"
	"minsep/internal/manifest"
	"minsep/internal/ownergraph"
	"minsep/internal/stream"
	"minsep/internal/transforms/contribution"
	"minsep/internal/transforms/keyref"
	"minsep/internal/transforms/manifestio"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[failChunkFn]())
	beam.RegisterDoFn(reflect.TypeFor[failLineFn]())
	register.Emitter1[[]byte]()
	register.Emitter1[string]()
}

var (
	graph       = flag.String("graph", "", "graph")
	key         = flag.String("key", "", "key file")
	runID       = flag.String("run-id", "", "run id")
	maxPerOwner = flag.Int("max-per-owner", 2, "bound")
	out         = flag.String("out", "", "folder of the parts")
	marks       = flag.String("marks", "", "folder where the DoFns leave a mark before they fail")
)

func main() {
	flag.Parse()
	beam.Init()
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "faulty:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	id, err := stream.ParseRunID(*runID)
	if err != nil {
		return err
	}
	source, err := graphio.Open(ctx, []string{*graph}, graphio.Options{})
	if err != nil {
		return err
	}
	bound := ownergraph.Bound{MaxExamplesPerOwner: *maxPerOwner}
	_, params, err := manifest.Params(bound)
	if err != nil {
		return err
	}
	p, s := beam.NewPipelineWithRoot()
	edges, err := manifestio.ReadGraph(s, source.Splits())
	if err != nil {
		return err
	}
	edges = beam.ParDo(s, &failChunkFn{fault{Mark: filepath.Join(*marks, "edges"), After: 20}}, edges)
	bounded, err := contribution.Bound(s, contribution.Config{Bound: bound,
		Key:      keyref.Ref{KeyURI: *key, RunID: id, Params: params},
		Examples: source.ExampleType, Owners: source.OwnerType, RowsPerPart: 1 << 14}, edges)
	if err != nil {
		return err
	}
	written := manifestio.WriteBounded(s, *out, "", source.ExampleType, source.OwnerType, false, bounded.Rows)
	written = beam.ParDo(s, &failLineFn{fault{Mark: filepath.Join(*marks, "written"), After: 1}}, written)
	manifestio.Collect(s, *out, "files.json", written)
	result, err := beamx.RunWithMetrics(ctx, p)
	if err != nil {
		return err
	}
	counters := make(map[string]int64)
	for _, c := range result.Metrics().AllMetrics().Counters() {
		counters[c.Key.Name] += c.Result()
	}
	return json.NewEncoder(os.Stdout).Encode(counters)
}

// fault is a failure after so many elements, unless the mark is there, which it leaves.
type fault struct {
	Mark  string
	After int

	seen int
}

func (f *fault) happen() error {
	if f.seen++; f.seen != f.After {
		return nil
	}
	mark, err := os.OpenFile(f.Mark, os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(errors.New("failing once"), mark.Close())
}

// failChunkFn passes chunks on and fails once.
type failChunkFn struct{ fault }

func (f *failChunkFn) ProcessElement(chunk []byte, emit func([]byte)) error {
	emit(chunk)
	return f.happen()
}

// failLineFn passes lines on and fails once.
type failLineFn struct{ fault }

func (f *failLineFn) ProcessElement(line string, emit func(string)) error {
	emit(line)
	return f.happen()
}
