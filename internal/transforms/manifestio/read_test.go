package manifestio_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"

	"minsep/internal/graphio"
	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/internal/packed"
	"minsep/internal/transforms/manifestio"
)

func init() {
	register.Function2x1(edgeLines)
	register.Function2x1(rowLines)
	register.Function3x1(chunkRange)
	register.Emitter1[string]()
	register.Emitter2[uint32, []byte]()
}

// edgeLines gives the edges of a chunk as text.
func edgeLines(chunk []byte, emit func(string)) error {
	var e ownergraph.Edges
	if _, err := e.Decode(chunk); err != nil {
		return err
	}
	for i := range e.Len() {
		emit(e.Examples.Format(i) + " " + e.Owners.Format(i))
	}
	return nil
}

// rowLines gives the rows of a chunk as text.
func rowLines(chunk []byte, emit func(string)) error {
	var r ownergraph.Rows
	if err := r.UnmarshalBinary(chunk); err != nil {
		return err
	}
	for i := range r.Len() {
		start, end := r.OwnersOf(i)
		line := fmt.Sprintf("%d %s %d", r.First+int64(i), r.Examples.Format(i), r.Copies[i])
		for o := start; o < end; o++ {
			line += " " + r.Owners.Format(o)
		}
		emit(line)
	}
	return nil
}

func openGraph(t *testing.T, o graphio.Options, paths ...string) *graphio.Source {
	t.Helper()
	src := must.Get(graphio.Open(context.Background(), paths, o))(t)
	return src
}

func TestReadGraph(t *testing.T) {
	dir := t.TempDir()
	var want []string
	var text bytes.Buffer
	for i := range 3000 {
		fmt.Fprintf(&text, "%d\t%d\n", i, i%7)
		want = append(want, fmt.Sprintf("%d %d", i, i%7))
	}
	path := filepath.Join(dir, "g.tsv")
	list := filepath.Join(dir, "list.csv")
	must.Do(t, os.WriteFile(path, text.Bytes(), 0o600))
	must.Do(t, os.WriteFile(list, []byte("example_id\nx\ny\n"), 0o600))
	p, s := beam.NewPipelineWithRoot()
	chunks := must.Get(manifestio.ReadGraph(s, openGraph(t, graphio.Options{}, path).Splits()))(t)
	passert.EqualsList(s, beam.ParDo(s, edgeLines, chunks), want)
	ptest.RunAndValidate(t, p)
	p, s = beam.NewPipelineWithRoot()
	chunks = must.Get(manifestio.ReadGraph(s, openGraph(t, graphio.Options{}, list).Splits()))(t)
	passert.EqualsList(s, beam.ParDo(s, edgeLines, chunks), []string{"x x", "y y"})
	ptest.RunAndValidate(t, p)
}

// TestFaultsFailThePipeline: the message names file and line, and shows no value.
func TestFaultsFailThePipeline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g.csv")
	must.Do(t, os.WriteFile(path, []byte("1,2\n3,SECRET\n"), 0o600))
	p, s := beam.NewPipelineWithRoot()
	must.Get(manifestio.ReadGraph(s, openGraph(t, graphio.Options{}, path).Splits()))(t)
	err := ptest.Run(p)
	if err == nil || !strings.Contains(err.Error(), "g.csv: line 2: column 2: not an integer") || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("got %v", err)
	}
	must.Fail(t, "no splits", "there is nothing to read")(manifestio.ReadGraph(s, nil))
}

const (
	tableRows = 10_000
	partRows  = 4_000
)

// tableLine is row i of the table under test.
func tableLine(i int, owners bool) string {
	line := fmt.Sprintf("%d e%06d %d", i, i, 1+i%2)
	if owners {
		line += fmt.Sprintf(" %d %d", i%10, i%10+100)
	}
	return line
}

// overflowDir is the folder of the chunks that do not go through the runner.
var overflowDir string

// chunkRange encodes rows of the table as chunks for their parts.
func chunkRange(_ context.Context, first int, emit func(uint32, []byte)) error {
	var r ownergraph.Rows
	r.Reset(int64(first), ownergraph.String, ownergraph.Int64)
	for i := first; i < min(first+100, tableRows); i++ {
		r.Examples.AppendBytes(fmt.Appendf(nil, "e%06d", i))
		r.Copies = append(r.Copies, uint32(1+i%2))
		r.Owners.AppendInt(int64(i % 10))
		r.Owners.AppendInt(int64(i%10 + 100))
		r.Ends = append(r.Ends, uint32(r.Owners.Len()))
	}
	b, err := r.AppendBinary(nil)
	if err == nil {
		p := packed.NewPacker(0)
		if first%300 > 0 {
			p.Over(packed.Overflow{Dir: overflowDir, After: 1})
		}
		p.AddAlone(uint32(first/partRows), b, emit)
		err = p.Flush(emit)
	}
	return err
}

// writeTable writes the table from chunks in some order and opens it.
func writeTable(t *testing.T, dir string, rng *rand.Rand) *manifest.Bounded {
	t.Helper()
	stage := must.Get(manifest.Begin(dir, false))(t)
	var firsts []int
	for first := 0; first < tableRows; first += 100 {
		firsts = append(firsts, first)
	}
	rng.Shuffle(len(firsts), func(i, j int) { firsts[i], firsts[j] = firsts[j], firsts[i] })
	overflowDir = t.TempDir()
	p, s := beam.NewPipelineWithRoot()
	rows := beam.ParDo(s, chunkRange, beam.CreateList(s, firsts))
	manifestio.Collect(s, dir, "collected", manifestio.WriteBounded(s, dir, t.TempDir(), ownergraph.String, ownergraph.Int64, false, rows))
	must.Do(t, ptest.Run(p))
	ix := manifest.Index{Format: manifest.BoundedFormat}
	var err error
	ix.Params, ix.ParamsSHA256, err = manifest.Params(struct{}{})
	must.Do(t, err)
	ix.Facts = must.Get(json.Marshal(ownergraph.Summary{Kept: tableRows}))(t)
	ix.Files = must.Get(manifestio.CollectedFiles(dir, "collected"))(t)
	must.Do(t, stage.Publish(ix))
	table := must.Get(manifest.OpenBounded(t.Context(), dir))(t)
	return table
}

// TestBoundedTableThroughBeam writes a table twice, from chunks in other orders: the same bytes,
// and the rows come back.
func TestBoundedTableThroughBeam(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	table := writeTable(t, filepath.Join(t.TempDir(), "a"), rng)
	again := writeTable(t, filepath.Join(t.TempDir(), "b"), rng)
	if len(table.Parts) != 3 || table.Rows != tableRows {
		t.Fatalf("parts %+v", table.Parts)
	}
	for i, f := range table.Index.Files {
		if f != again.Index.Files[i] {
			t.Errorf("part %d has other bytes", i)
		}
	}
	for _, owners := range []bool{true, false} {
		var want []string
		for i := range tableRows {
			want = append(want, tableLine(i, owners))
		}
		p, s := beam.NewPipelineWithRoot()
		chunks := must.Get(manifestio.ReadBounded(s, table, owners))(t)
		passert.EqualsList(s, beam.ParDo(s, rowLines, chunks), want)
		ptest.RunAndValidate(t, p)
	}
}

// TestSpoiledTableFailsThePipeline changes a part between opening and reading.
func TestSpoiledTableFailsThePipeline(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t")
	table := writeTable(t, dir, rand.New(rand.NewPCG(3, 4)))
	name := manifest.BoundedPartName(1)
	must.Get(manifest.WriteFile(dir, name, manifest.PublicFile, func(w io.Writer) error { _, err := w.Write(make([]byte, 100)); return err }))(t)
	p, s := beam.NewPipelineWithRoot()
	must.Get(manifestio.ReadBounded(s, table, true))(t)
	must.Fail(t, "", name)(ptest.Run(p))
}
