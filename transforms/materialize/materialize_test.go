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
	//lint:ignore SA1019 it is the default runner
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"minsep/manifest"
	"minsep/sampling"
	"minsep/sampling/ownergraph"
	"minsep/sampling/stream"
	"minsep/transforms/manifestio"
	"minsep/transforms/materialize"
)

var keyFile string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "materialize")
	if err != nil {
		panic(err)
	}
	keyFile = filepath.Join(dir, "key")
	if err := os.WriteFile(keyFile, []byte("materialize tests: 32 bytes: key"), 0o600); err != nil {
		panic(err)
	}
	beam.Init()
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

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
			b := manifest.NewBoundedWriter(w, p.ids, ownergraph.Int64)
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

// entries reads what was written.
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

// TestJoin compares with a join in memory.
func TestJoin(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := newProblem(t, rng)
		h := how{runner: "direct", shards: 1 + rng.IntN(len(p.steps)), after: int64(rng.IntN(2))}
		if seed%12 == 0 {
			h.runner = "prism"
		}
		dir, files, err := p.write(t, h)
		must(t, err)
		want, got := withoutNulls(p.joined(t)), withoutNulls(entries(t, dir, files))
		if diff := gocmp.Diff(want, got); diff != "" || len(files) != h.shards {
			t.Fatalf("seed %d, %+v, %d files (-in memory +join):\n%s", seed, h, len(files), diff)
		}
	}
}

// TestAnyWay: other shards, another runner, chunks through files and files that are there already
// change no entry; a file of an earlier job is not written again.
func TestAnyWay(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	p := newProblem(t, rng)
	for len(p.steps) < 3 {
		p = newProblem(t, rng)
	}
	dir, files, err := p.write(t, how{runner: "direct", shards: 3})
	must(t, err)
	want := entries(t, dir, files)
	other, again, err := p.write(t, how{runner: "prism", shards: 3, after: 1})
	must(t, err)
	if !slices.Equal(files, again) {
		t.Errorf("%v on the direct runner, %v on Prism", files, again)
	}
	one, single, err := p.write(t, how{runner: "direct", shards: 1})
	must(t, err)
	if diff := gocmp.Diff(want, entries(t, one, single)); diff != "" {
		t.Errorf("-3 shards +1:\n%s", diff)
	}

	_, rest, err := p.write(t, how{runner: "direct", shards: 3, done: []int{0, 2}})
	must(t, err)
	if !slices.Equal(rest, files[1:2]) {
		t.Errorf("with shards 0 and 2 done %v were written, want %v", rest, files[1:2])
	}
	done, kept, err := materialize.Finished(t.Context(), other, 3)
	if err != nil || !slices.Equal(done, []int{0, 1, 2}) || !slices.Equal(kept, again) {
		t.Errorf("finished: %v, %v, %v", done, kept, err)
	}
	must(t, os.WriteFile(filepath.Join(other, again[1].Name), []byte("damaged"), 0o600))
	if done, _, err := materialize.Finished(t.Context(), other, 3); err != nil || !slices.Equal(done, []int{0, 2}) {
		t.Errorf("with a damaged file %v are finished, %v", done, err)
	}
	if done, _, err := materialize.Finished(t.Context(), other, 4); err != nil || done != nil {
		t.Errorf("of another number of shards %v are finished, %v", done, err)
	}
}

// TestFaults: data that lack an example, be it in a batch or not, or have one twice; other columns;
// ids of another type; a file that was changed.
func TestFaults(t *testing.T) {
	write := func(name string, rows any) string {
		t.Helper()
		var b bytes.Buffer
		switch rows := rows.(type) {
		case []example[int64]:
			must(t, parquet.Write(&b, rows))
		case []example[string]:
			must(t, parquet.Write(&b, rows))
		case []innerRow:
			must(t, parquet.Write(&b, rows))
		case []withStep:
			must(t, parquet.Write(&b, rows))
		case []withLabel:
			must(t, parquet.Write(&b, rows))
		case []withControl:
			must(t, parquet.Write(&b, rows))
		}
		path := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(path, b.Bytes(), 0o600))
		return path
	}
	// Of ten examples, 3 takes part.
	p := &problem{dir: t.TempDir(), n: 10, steps: [][][]int64{{{3}}}}
	p.writeBatches(t, 1, 1, false)
	var all []example[int64]
	for id := range int64(12) {
		all = append(all, example[int64]{ID: id})
	}
	good := write("good.parquet", all)
	damaged := func() string {
		b, err := os.ReadFile(good)
		must(t, err)
		name := write("damaged.parquet", []innerRow{})
		must(t, os.WriteFile(name, append(b[:100:100], b[140:]...), 0o600))
		return name
	}
	for name, c := range map[string]struct {
		files []string
		want  string
	}{
		"none":          {[]string{"none.parquet"}, "no such file"},
		"few":           {[]string{write("few.parquet", all[:8])}, "at least 2 of the run's examples are not in the data, such as 8, 9"},
		"twice":         {[]string{good, write("more.parquet", all[5:6])}, "more than once, such as 5:"},
		"strings":       {[]string{write("strings.parquet", []example[string]{{ID: "1"}})}, "has strings, and the ids of the run's examples are integers"},
		"no ids":        {[]string{write("without.parquet", []innerRow{{}})}, "has no column id"},
		"other columns": {[]string{good, write("other.parquet", []withStep{{ID: 99}})}, "has the name of one that is added"},
		"damaged":       {[]string{damaged()}, "corrupt"},
		"no id":         {[]string{write("floats.parquet", []withLabel{{}})}, "column id: must hold one id a row, an integer or a string; --id-column names the column of ids: type DOUBLE"},
		"control bytes": {[]string{write("bytes.parquet", []withControl{{}})}, `there are "a\x1b[31m"`},
		"half, bytes":   {[]string{halves(t, true, 0, 10), halves(t, false, 10, 11)}, "must have the columns of the first file"},
		"two names":     {[]string{doubled(t, 10)}, "has two columns a in one place"},
	} {
		p.files = c.files
		if err := p.compare(t); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: compared: %v", name, err)
		}
		if _, _, err := p.write(t, how{runner: "direct", shards: 1}); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), materialize.FaultPrefix) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.files = []string{good}
	if err := p.compare(t); err != nil {
		t.Error(err)
	}
	if _, _, err := p.write(t, how{runner: "direct", shards: 1}); err != nil {
		t.Error(err)
	}
	p.change = func() { must(t, os.WriteFile(good, []byte("PAR1 something else"), 0o600)) }
	if _, _, err := p.write(t, how{runner: "direct", shards: 1}); err == nil || !strings.Contains(err.Error(), "was changed since the command began") {
		t.Errorf("changed: %v", err)
	}
}

type withStep struct {
	ID   int64 `parquet:"id"`
	Step int32 `parquet:"step"`
}

type withLabel struct {
	ID float64 `parquet:"id"`
}

type withControl struct {
	Name int32 `parquet:"a\x1b[31m"`
}

// halfNode is of two bytes, which are said to be a number of type FLOAT16 if half.
type halfNode struct {
	parquet.Node
	half bool
}

func (n halfNode) Type() parquet.Type {
	if n.half {
		return halfType{n.Node.Type()}
	}
	return n.Node.Type()
}

type halfType struct{ parquet.Type }

func (halfType) LogicalType() *format.LogicalType {
	return &format.LogicalType{Value: new(format.Float16Type)}
}

// halves writes the examples first to end-1, each with its id as two bytes, in a list as well.
func halves(t *testing.T, half bool, first, end int) string {
	two := halfNode{parquet.Leaf(parquet.FixedLenByteArrayType(2)), half}
	schema := parquet.NewSchema("halves", parquet.Group{"id": parquet.Int(64), "half": two, "list": parquet.List(two)})
	var b bytes.Buffer
	w := parquet.NewWriter(&b, schema)
	for id := first; id < end; id++ {
		number := parquet.FixedLenByteArrayValue([]byte{byte(id), 0})
		_, err := w.WriteRows([]parquet.Row{{number.Level(0, 0, 0), parquet.Int64Value(int64(id)).Level(0, 0, 1), number.Level(0, 1, 2)}})
		must(t, err)
	}
	must(t, w.Close())
	name := filepath.Join(t.TempDir(), "halves.parquet")
	must(t, os.WriteFile(name, b.Bytes(), 0o600))
	return name
}

// TestTypesAreKept: a logical type that the library does not know is that of the file, and there
// are no least and largest values of it, whose order would be another one.
func TestTypesAreKept(t *testing.T) {
	for _, pad := range []int{0, 4} {
		p := &problem{dir: t.TempDir(), n: 10, pad: pad, steps: [][][]int64{{{3}, {7}}}, files: []string{halves(t, true, 0, 10)}}
		p.writeBatches(t, 1, 1, false)
		dir, files, err := p.write(t, how{runner: "direct", shards: 1})
		must(t, err)
		content, err := os.ReadFile(filepath.Join(dir, files[0].Name))
		must(t, err)
		f, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
		must(t, err)
		var found []string
		leaf := 0
		for _, e := range f.Metadata().Schema {
			if !e.Type.Valid {
				continue
			}
			statistics := f.Metadata().RowGroups[0].Columns[leaf].MetaData.Statistics
			if leaf++; e.Name != "half" && e.Name != "element" {
				continue
			}
			found = append(found, fmt.Sprint(e.LogicalType.Value))
			if statistics.MinValue != nil || statistics.MaxValue != nil {
				t.Errorf("%s: has a least and a largest value", e.Name)
			}
		}
		if fmt.Sprint(found) != "[FLOAT16 FLOAT16]" {
			t.Errorf("pad %d: types %v", pad, found)
		}
		for _, e := range withoutNulls(entries(t, dir, files)) {
			want := fmt.Sprint([]byte{byte(e["row"].(int64)), 0})
			if e["id"] != nil && (fmt.Sprint(e["half"]) != want || fmt.Sprint(e["list"]) != "["+want+"]") {
				t.Errorf("entry %v", e)
			}
		}
	}
}

// doubledGroup is a group whose columns a and b are both called a.
type doubledGroup struct{ parquet.Group }

func (g doubledGroup) Fields() (fields []parquet.Field) {
	for _, f := range g.Group.Fields() {
		fields = append(fields, doubledField{f})
	}
	return fields
}

type doubledField struct{ parquet.Field }

func (f doubledField) Name() string { return strings.Replace(f.Field.Name(), "b", "a", 1) }

// doubled writes the examples up to n with two columns of one name.
func doubled(t *testing.T, n int) string {
	schema := parquet.NewSchema("doubled", doubledGroup{parquet.Group{"a": parquet.Int(64), "b": parquet.Int(64), "id": parquet.Int(64)}})
	var b bytes.Buffer
	w := parquet.NewWriter(&b, schema)
	for id := range n {
		number := parquet.Int64Value(int64(id))
		_, err := w.WriteRows([]parquet.Row{{number.Level(0, 0, 0), number.Level(0, 0, 1), number.Level(0, 0, 2)}})
		must(t, err)
	}
	must(t, w.Close())
	name := filepath.Join(t.TempDir(), "doubled.parquet")
	must(t, os.WriteFile(name, b.Bytes(), 0o600))
	return name
}

// byName writes the examples of a problem as files of their own, in two folders, and makes the rows
// that are then to be joined.
func byName(t *testing.T, p *problem, rng *rand.Rand) (folders []string) {
	p.rows = map[int64]map[string]any{}
	for i := range 2 {
		folders = append(folders, filepath.Join(p.dir, fmt.Sprintf("files-%d", i)))
		must(t, os.Mkdir(folders[i], 0o700))
	}
	for _, row := range rng.Perm(p.n + 3) {
		name := stringID(row)
		if p.ids == ownergraph.Int64 {
			name = fmt.Sprint(p.intID(row))
		}
		name += []string{"", ".txt", ".jpg"}[rng.IntN(3)]
		content := []byte(strings.Repeat("x", rng.IntN(50)*rng.IntN(50)) + name)
		must(t, os.WriteFile(filepath.Join(folders[rng.IntN(2)], name), content, 0o600))
		if row < p.n {
			p.rows[int64(row)] = map[string]any{"file": name, "bytes": content}
		}
	}
	must(t, os.WriteFile(filepath.Join(folders[0], ".hidden"), nil, 0o600))
	return folders
}

// plain makes every kind of text and bytes a string, to compare what readers return.
func plain(rows []map[string]any) []map[string]any {
	for _, row := range withoutNulls(rows) {
		for k, v := range row {
			if b, is := v.([]byte); is {
				row[k] = string(b)
			}
		}
	}
	return rows
}

// TestFilesByName compares with a join in memory, on two runners and with any number of shards.
func TestFilesByName(t *testing.T) {
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 5))
		p := newProblem(t, rng)
		p.files, p.byName = byName(t, p, rng), true
		h := how{runner: "direct", shards: 1 + rng.IntN(len(p.steps)), after: int64(rng.IntN(2))}
		if seed%8 == 0 {
			h.runner = "prism"
		}
		dir, files, err := p.write(t, h)
		must(t, err)
		if diff := gocmp.Diff(plain(p.joined(t)), plain(entries(t, dir, files))); diff != "" {
			t.Fatalf("seed %d, %+v (-in memory +join):\n%s", seed, h, diff)
		}
	}
}

// TestManyFilesByName has more files than a task takes.
func TestManyFilesByName(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	p := &problem{dir: t.TempDir(), n: 3000, steps: make([][][]int64, 3)}
	for step := range p.steps {
		for row := step; row < p.n; row += 50 {
			p.steps[step] = append(p.steps[step], []int64{int64(row)})
		}
	}
	p.writeBatches(t, 2, 1, false)
	p.files, p.byName = byName(t, p, rng), true
	dir, files, err := p.write(t, how{runner: "direct", shards: 2})
	must(t, err)
	if diff := gocmp.Diff(plain(p.joined(t)), plain(entries(t, dir, files))); diff != "" {
		t.Fatalf("(-in memory +join):\n%s", diff)
	}
}

// TestFilesByNameAreRefused: an id that is missing, one in two files, names that are none, folders
// in folders, and files that were changed.
func TestFilesByNameAreRefused(t *testing.T) {
	for words, spoil := range map[string]func(t *testing.T, dir string, p *problem){
		"2": func(t *testing.T, dir string, p *problem) { must(t, os.Remove(filepath.Join(dir, "2.txt"))) },
		"must be the id of an example": func(t *testing.T, dir string, p *problem) {
			must(t, os.WriteFile(filepath.Join(dir, "x.txt"), nil, 0o600))
		},
		"03.txt: its name must be the id": func(t *testing.T, dir string, p *problem) {
			must(t, os.Rename(filepath.Join(dir, "3.txt"), filepath.Join(dir, "03.txt")))
		},
		"is a folder":                  func(t *testing.T, dir string, p *problem) { must(t, os.Mkdir(filepath.Join(dir, "more"), 0o700)) },
		"must be a folder whose files": func(t *testing.T, dir string, p *problem) { must(t, os.RemoveAll(dir)) },
		"was changed since the command": func(t *testing.T, dir string, p *problem) {
			p.change = func() { must(t, os.WriteFile(filepath.Join(dir, "3.txt"), []byte("longer than before"), 0o600)) }
		},
		"more than once": func(t *testing.T, dir string, p *problem) {
			must(t, os.WriteFile(filepath.Join(dir, "3.png"), nil, 0o600))
		},
	} {
		p := &problem{dir: t.TempDir(), n: 10, steps: [][][]int64{{{3}}}, byName: true, rows: map[int64]map[string]any{}}
		p.writeBatches(t, 1, 1, false)
		dir := filepath.Join(p.dir, "files")
		must(t, os.Mkdir(dir, 0o700))
		for id := range 12 {
			must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.txt", id)), []byte{byte(id)}, 0o600))
		}
		p.files = []string{dir}
		if _, _, err := p.write(t, how{runner: "direct", shards: 1}); err != nil {
			t.Fatal(err)
		}
		spoil(t, dir, p)
		if _, _, err := p.write(t, how{runner: "direct", shards: 1}); err == nil || !strings.Contains(err.Error(), materialize.FaultPrefix) || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v", words, err)
		}
	}
}
