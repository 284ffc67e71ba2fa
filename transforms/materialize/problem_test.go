package materialize_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/parquet-go/parquet-go"

	"minsep/manifest"
	"minsep/sampling"
	"minsep/sampling/ownergraph"
	"minsep/sampling/stream"
	"minsep/transforms/manifestio"
	"minsep/transforms/materialize"
)

// example is a row of the data with an id of type T.
type example[T int64 | string] struct {
	Label  float32  `parquet:"label"`
	ID     T        `parquet:"id"`
	Text   *string  `parquet:"text,optional"`
	Values []int32  `parquet:"values,list"`
	Raw    [3]byte  `parquet:"raw"`
	Inner  innerRow `parquet:"inner"`
}

type innerRow struct {
	Flag  bool     `parquet:"flag"`
	Names []string `parquet:"names"`
}

func randomExample[T int64 | string](rng *rand.Rand, id T) example[T] {
	e := example[T]{Label: rng.Float32(), ID: id, Raw: [3]byte{byte(rng.IntN(256)), 1, 2}, Inner: innerRow{Flag: rng.IntN(2) == 0}}
	if rng.IntN(3) > 0 {
		text := strings.Repeat("x", rng.IntN(100)) + fmt.Sprint(id)
		e.Text = &text
	}
	for range rng.IntN(4) {
		e.Values = append(e.Values, int32(rng.Int()))
		e.Inner.Names = append(e.Inner.Names, fmt.Sprint(rng.Int()))
	}
	return e
}

// problem is what is joined.
type problem struct {
	dir     string
	ids     ownergraph.IDType
	ofTable bool
	n       int         // rows of the table
	steps   [][][]int64 // by step and owner, or by step and row
	owners  bool
	pad     int
	files   []string                 // of the data
	rows    map[int64]map[string]any // of the data, by row of the table
	byName  bool                     // files are folders of files by name
	change  func()                   // of the data, after they were opened; nil: none
}

// newProblem makes a random problem: batches and a table, if there is one, in dir, and the data.
func newProblem(t *testing.T, rng *rand.Rand) *problem {
	p := &problem{dir: t.TempDir(), ids: ownergraph.IDType(rng.IntN(2)), ofTable: true, n: 1 + rng.IntN(40), pad: max(0, rng.IntN(6)-1), rows: map[int64]map[string]any{}}
	if p.ids == ownergraph.Int64 && rng.IntN(2) == 0 {
		p.ofTable = false
	}
	p.owners = p.ofTable && rng.IntN(2) == 0
	most := 1 + rng.IntN(8)
	p.steps = make([][][]int64, 1+rng.IntN(8))
	for step := range p.steps {
		if rng.IntN(4) == 0 {
			continue // nobody takes part
		}
		for row := 0; row < p.n; row++ {
			if rng.IntN(3) > 0 {
				continue
			}
			group := []int64{int64(row)}
			for p.owners && row+1 < p.n && rng.IntN(2) == 0 && len(group) < most {
				row++
				group = append(group, int64(row))
			}
			p.steps[step] = append(p.steps[step], group)
			if !p.owners && rng.IntN(5) == 0 { // a copy
				p.steps[step] = append(p.steps[step], group)
			}
		}
	}
	p.writeTable(t, rng)
	p.writeBatches(t, 1+rng.IntN(len(p.steps)), most, rng.IntN(2) == 0)
	if p.ids == ownergraph.Int64 {
		writeData(t, p, rng, func(row int) int64 { return p.intID(row) })
	} else {
		writeData(t, p, rng, func(row int) string { return stringID(row) })
	}
	return p
}

func (p *problem) intID(row int) int64 {
	if !p.ofTable {
		return int64(row)
	}
	return int64(3*row - 20)
}

// stringID ascends with the row, and some ids begin others.
func stringID(row int) string { return "id" + strings.Repeat("a", row) }

func (p *problem) writeTable(t *testing.T, rng *rand.Rand) {
	if !p.ofTable {
		return
	}
	dir := filepath.Join(p.dir, "bounded")
	stage, err := manifest.Begin(dir, false, false)
	must(t, err)
	var files []manifest.File
	for first := 0; first < p.n; {
		rows := new(ownergraph.Rows)
		rows.Reset(int64(first), p.ids, ownergraph.Int64)
		for ; first < p.n && (rows.Len() == 0 || rng.IntN(20) > 0); first++ {
			if p.ids == ownergraph.Int64 {
				rows.Examples.AppendInt(p.intID(first))
			} else {
				rows.Examples.AppendBytes([]byte(stringID(first)))
			}
			rows.Copies = append(rows.Copies, 2)
			rows.Owners.AppendInt(int64(first))
			rows.Ends = append(rows.Ends, uint32(rows.Owners.Len()))
		}
		f, err := stage.Write(manifest.BoundedPartName(len(files)), func(w io.Writer) error {
			b := manifest.NewBoundedWriter(w, p.ids, ownergraph.Int64, false)
			return cmp.Or(b.Write(rows), b.Close())
		})
		must(t, err)
		files = append(files, f)
	}
	publish(t, stage, manifest.BoundedFormat, ownergraph.Summary{Kept: int64(p.n)}, files)
}

func (p *problem) writeBatches(t *testing.T, shards, most int, padded bool) {
	dir := filepath.Join(p.dir, "batches")
	stage, err := manifest.Begin(dir, true, false)
	must(t, err)
	var files []manifest.File
	for shard := range shards {
		starts, rows, ends := []int64{0}, []int32{}, []int64{}
		for _, groups := range p.steps[manifest.ShardStart(len(p.steps), shards, shard):manifest.ShardStart(len(p.steps), shards, shard+1)] {
			for _, group := range groups {
				for _, row := range group {
					rows = append(rows, int32(row))
				}
				for i := len(group); i < most && padded && p.owners; i++ {
					rows = append(rows, sampling.PadRow)
				}
				ends = append(ends, int64(len(rows)))
			}
			if padded && p.owners { // an owner of padding
				for range most {
					rows = append(rows, sampling.PadRow)
				}
				ends = append(ends, int64(len(rows)))
			} else if padded {
				rows = append(rows, sampling.PadRow, sampling.PadRow)
			}
			starts = append(starts, int64(len(rows)))
		}
		sink := manifestio.BatchSink[int32]{Dir: dir, Shard: shard, Shards: shards}
		write := func() ([]manifest.File, error) { return sink.Write(starts, rows) }
		if p.owners {
			write = func() ([]manifest.File, error) { return sink.WriteOwners(starts, rows, ends) }
		}
		written, err := write()
		must(t, err)
		files = append(files, written...)
	}
	facts := manifest.BatchesFacts{Examples: int64(p.n), Steps: len(p.steps), Shards: shards, RowType: manifest.DInt32, RowsOf: manifest.RowsOfRange}
	format := manifest.BatchesFormat
	if p.ofTable {
		facts.RowsOf = manifest.RowsOfBounded
	}
	if p.owners {
		facts.Owners, facts.ExamplesPerOwner, format = int64(p.n), most, manifest.OwnerBatchesFormat
	}
	publish(t, stage, format, facts, files)
}

func publish(t *testing.T, stage *manifest.Stage, format string, facts any, files []manifest.File) {
	params, sum, err := manifest.Params(struct{}{})
	must(t, err)
	b, err := json.Marshal(facts)
	must(t, err)
	must(t, stage.Publish(manifest.Index{Format: format, Params: params, ParamsSHA256: sum, Facts: b, Files: files}))
}

// writeData writes the examples in any order to some files, with others that the table has not.
func writeData[T int64 | string](t *testing.T, p *problem, rng *rand.Rand, id func(row int) T) {
	var all []example[T]
	for _, row := range rng.Perm(p.n + 5) {
		if row >= p.n && !p.ofTable && rng.IntN(2) == 0 {
			continue
		}
		all = append(all, randomExample(rng, id(row)))
	}
	for len(all) > 0 {
		n := 1 + rng.IntN(len(all))
		var b bytes.Buffer
		must(t, parquet.Write(&b, all[:n], parquet.MaxRowsPerRowGroup(int64(1+rng.IntN(10)))))
		name := filepath.Join(p.dir, fmt.Sprintf("data-%02d.parquet", len(p.files)))
		must(t, os.WriteFile(name, b.Bytes(), 0o600))
		p.files = append(p.files, name)
		read, err := parquet.Read[any](bytes.NewReader(b.Bytes()), int64(b.Len()))
		must(t, err)
		for i, values := range read {
			for row := range p.n {
				if id(row) == all[i].ID {
					p.rows[int64(row)] = values.(map[string]any)
				}
			}
		}
		all = all[n:]
	}
}

// joined is the join in memory: the entries in their order.
func (p *problem) joined(t *testing.T) (entries []map[string]any) {
	root, err := stream.ReadKeyFile(keyFile)
	must(t, err)
	src := stream.NewSource(root.Key(runID, paramsOf(p), "materialize").Sub("order within a step"))
	for step, groups := range p.steps {
		type ordered struct {
			word uint64
			rows []int64
		}
		var order []ordered
		for i, group := range groups {
			words := src.Stream(src.IntAddress(group[0], uint32(step)))
			if i > 0 && groups[i-1][0] == group[0] { // the second copy
				words.Uint64()
			}
			order = append(order, ordered{words.Uint64(), group})
		}
		slices.SortFunc(order, func(a, b ordered) int { return cmp.Compare(a.word, b.word) })
		slot := int32(0)
		add := func(row int64, owner int32, values map[string]any) {
			e := map[string]any{"step": int32(step), "slot": slot, "row": row}
			maps.Copy(e, values)
			if p.owners {
				e["owner"] = owner
			}
			entries = append(entries, e)
			slot++
		}
		for owner, o := range order {
			for _, row := range o.rows {
				add(row, int32(owner), p.rows[row])
			}
		}
		for p.pad > 0 && (slot == 0 || slot%int32(p.pad) != 0) {
			add(-1, -1, nil)
		}
	}
	return entries
}

var runID = stream.RunID{1}

func paramsOf(p *problem) manifest.Digest { return manifest.Digest{byte(p.pad)} }

// how says how a test joins; none of it may change the entries.
type how struct {
	runner string
	shards int
	done   []int
	after  int64
}

// open opens the data, and says what a join of them needs.
func (p *problem) open(t *testing.T, h how) (c materialize.Config, source *materialize.Source, err error) {
	data := materialize.Data{Paths: p.files, IDColumn: "id", IDs: p.ids, Owners: p.owners, ByName: p.byName}
	if source, err = data.Open(t.Context()); err != nil {
		return c, nil, err
	}
	if p.change != nil {
		p.change()
	}
	c = materialize.Config{Batches: filepath.Join(p.dir, "batches"), Dir: t.TempDir(), Shards: h.shards, Done: h.done, Pad: p.pad, IDColumn: "id",
		KeyURI: keyFile, RunID: runID, Params: paramsOf(p), TempDir: t.TempDir(), SharedDir: t.TempDir(), SharedAfter: h.after}
	if p.ofTable {
		c.Table = filepath.Join(p.dir, "bounded")
	}
	return c, source, nil
}

func (p *problem) write(t *testing.T, h how) (dir string, files []manifest.File, err error) {
	c, source, err := p.open(t, h)
	if err != nil {
		return "", nil, err
	}
	pipeline, s := beam.NewPipelineWithRoot()
	lines, err := materialize.Write(s, c, source)
	if err != nil {
		return "", nil, err
	}
	manifestio.Collect(s, c.Dir, "files.json", lines)
	if _, err := beam.Run(context.Background(), h.runner, pipeline); err != nil {
		return "", nil, err
	}
	files, err = manifestio.CollectedFiles(c.Dir, "files.json")
	return c.Dir, files, err
}

// compare only compares the ids.
func (p *problem) compare(t *testing.T) error {
	c, source, err := p.open(t, how{shards: 1})
	if err != nil {
		return err
	}
	pipeline, s := beam.NewPipelineWithRoot()
	if err := materialize.Compare(s, c, source); err != nil {
		return err
	}
	_, err = beam.Run(context.Background(), "direct", pipeline)
	if left, _ := os.ReadDir(c.Dir); len(left) > 0 {
		t.Errorf("%v is written", left)
	}
	return err
}

// entries reads the written files.
func entries(t *testing.T, dir string, files []manifest.File) (all []map[string]any) {
	slices.SortFunc(files, func(a, b manifest.File) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range files {
		must(t, f.Check(t.Context(), dir))
		info, err := os.Stat(filepath.Join(dir, f.Name))
		must(t, err)
		if info.Mode() != 0o600 {
			t.Errorf("%s has mode %v", f.Name, info.Mode())
		}
		b, err := os.ReadFile(filepath.Join(dir, f.Name))
		must(t, err)
		rows, err := parquet.Read[any](bytes.NewReader(b), int64(len(b)))
		must(t, err)
		for _, row := range rows {
			all = append(all, row.(map[string]any))
		}
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// withoutNulls leaves nulls out: readers leave out the values of padding, or have nil for them.
func withoutNulls(rows []map[string]any) []map[string]any {
	for _, row := range rows {
		maps.DeleteFunc(row, func(_ string, v any) bool { return v == nil })
	}
	return rows
}
