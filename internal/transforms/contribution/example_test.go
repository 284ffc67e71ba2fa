package contribution_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"minsep/internal/ownergraph"
	"minsep/internal/stream"
	"minsep/internal/transforms/contribution"
	"minsep/internal/transforms/keyref"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
)

func init() { beam.RegisterDoFn(reflect.TypeFor[printFn]()) }

type printFn struct{}

func (*printFn) ProcessElement(summary []byte) { fmt.Println(string(summary)) }

func ExampleBound() {
	dir, err := os.MkdirTemp("", "bound")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	key := filepath.Join(dir, "key")
	if err := stream.CreateKeyFile(key); err != nil {
		panic(err)
	}
	var edges ownergraph.Edges // one owner of two examples
	edges.Reset(ownergraph.Int64, ownergraph.String)
	for example := range int64(2) {
		edges.Examples.AppendInt(example)
		edges.Owners.AppendBytes([]byte("ada"))
	}
	chunk, err := edges.AppendBinary(nil)
	if err != nil {
		panic(err)
	}

	p, s := beam.NewPipelineWithRoot()
	bounded, err := contribution.Bound(s, contribution.Config{
		Bound:    ownergraph.Bound{MaxExamplesPerOwner: 1},
		Key:      keyref.Ref{KeyURI: key, RunID: stream.NewRunID()},
		Examples: ownergraph.Int64,
		Owners:   ownergraph.String,
		Edges:    2,
	}, beam.CreateList(s, [][]byte{chunk}))
	if err != nil {
		panic(err)
	}
	beam.ParDo0(s, &printFn{}, bounded.Summary)
	if _, err := prism.Execute(context.Background(), p); err != nil {
		panic(err)
	}
	// Output: {"examples":2,"owners":1,"edges":2,"duplicate_edges":0,"kept":1,"kept_copies":1,"kept_edges":1,"dropped_owner_full":1,"dropped_neighborhood":0,"given_examples_per_owner":[{"value":2,"count":1}],"kept_examples_per_owner":[{"value":1,"count":1}],"given_owners_per_example":[{"value":1,"count":2}],"kept_owners_per_example":[{"value":1,"count":1}],"neighborhoods":[{"value":1,"count":1}]}
}
