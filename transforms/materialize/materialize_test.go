package materialize_test

import (
	"bytes"
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
