package pipelines_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minsep/internal/graphio"
	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/internal/pipelines"
	"minsep/internal/stream"
)

// TestBoundOfAChangedGraph: a graph that is no longer the one that was looked at is not read.
func TestBoundOfAChangedGraph(t *testing.T) {
	dir := t.TempDir()
	graph, key := filepath.Join(dir, "g.csv"), filepath.Join(dir, "key")
	must.Do(t, os.WriteFile(graph, []byte("1,2\n3,4\n"), 0o600))
	must.Do(t, stream.CreateKeyFile(key))
	source := must.Get(graphio.Open(context.Background(), []string{graph}, graphio.Options{}))(t)
	b := pipelines.Bound{Graph: []string{graph}, Bound: ownergraph.Bound{MaxExamplesPerOwner: 2}, Stamp: source.Stamp()}
	o := pipelines.Options{Out: filepath.Join(dir, "run"), KeyFile: key, DryRun: true}
	must.Get(b.Run(context.Background(), o))(t)
	must.Do(t, os.WriteFile(graph, []byte("1,2\n3,4\n5,6\n"), 0o600))
	_, err := b.Run(context.Background(), o)
	if _, isFault := errors.AsType[*graphio.Fault](err); !isFault || !strings.Contains(err.Error(), "--graph "+graph+": the graph was changed") {
		t.Errorf("got %v", err)
	}
}
