package formation

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minsep/manifest"
	"minsep/sampling"
	"minsep/sampling/ownergraph"
	"minsep/sampling/stream"
)

func testConfig(t *testing.T, spec sampling.Spec) Config {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte("formation tests: 32 bytes of key"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Config{Spec: spec, Examples: 100, Shards: 2, Dir: dir, KeyURI: key, RunID: stream.RunID{1}, Parquet: true}
}

// TestTwice processes each bundle a second time, as after a failure: the same chunks and files must
// come out.
func TestTwice(t *testing.T) {
	ctx := context.Background()
	spec := sampling.Spec{MultiOwner: &sampling.MultiOwner{Prob: 0.1, Steps: 30, MinSep: 4}, Truncation: &sampling.Truncation{MaxBatchSize: 5}}
	c := testConfig(t, spec)
	var rows ownergraph.Rows
	for i := range 100 {
		rows.Examples.AppendInt(int64(7 * i))
		rows.Copies = append(rows.Copies, 1)
		rows.Owners.AppendInt(int64(i / 2))
		rows.Ends = append(rows.Ends, uint32(i+1))
	}
	encoded, err := rows.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &drawTableFn{drawFn: drawFn{Config: c}}
	if err := f.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	defer f.Teardown()
	draw := func() (events, coins []chunk) {
		e := func(b uint32, c []byte) { events = append(events, chunk{b, c}) }
		o := func(b uint32, c []byte) { coins = append(coins, chunk{b, c}) }
		f.StartBundle(e, o)
		if err := f.ProcessElement(ctx, encoded, e, o); err != nil {
			t.Fatal(err)
		}
		if err := f.FinishBundle(ctx, e, o); err != nil {
			t.Fatal(err)
		}
		return events, coins
	}
	same := func(a, b []chunk) bool {
		return len(a) > 0 && slices.EqualFunc(a, b, func(x, y chunk) bool { return x.bucket == y.bucket && bytes.Equal(x.bytes, y.bytes) })
	}
	events, coins := draw()
	events2, coins2 := draw()
	if !same(events, events2) || !same(coins, coins2) {
		t.Error("drawing a bundle twice gives other chunks")
	}
	iterate := func(chunks []chunk, bucket uint32) func(*[]byte) bool {
		return func(b *[]byte) bool {
			for len(chunks) > 0 {
				next := chunks[0]
				chunks = chunks[1:]
				if next.bucket == bucket {
					*b = next.bytes
					return true
				}
			}
			return false
		}
	}
	x := &excludeFn{Config: c}
	x.Setup()
	exclude := func() (out []chunk) {
		if err := x.ProcessElement(ctx, 0, iterate(coins, 0), func(b uint32, c []byte) { out = append(out, chunk{b, c}) }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if !same(exclude(), exclude()) {
		t.Error("excluding twice gives other chunks")
	}
	w := &writeFn{Config: c}
	if err := w.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	write := func() (files []string) {
		if err := w.ProcessElement(ctx, 1, iterate(append(exclude(), events...), 1), func(s string) { files = append(files, s) }); err != nil {
			t.Fatal(err)
		}
		return files
	}
	first, second := write(), write()
	if len(first) != 3 || !cmp.Equal(first, second) {
		t.Errorf("writing twice: %v, then %v", first, second)
	}
	info, err := os.Stat(filepath.Join(c.Dir, manifest.RowsName(1, 2)))
	if err != nil || info.Mode().Perm() != manifest.SecretFile {
		t.Errorf("%v: mode %v", err, info.Mode())
	}
}

func TestFailedBundleLeavesNoWorkers(t *testing.T) {
	ctx := context.Background()
	f := &drawTableFn{drawFn: drawFn{Config: testConfig(t, sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.1, Steps: 5}})}}
	if err := f.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	none := func(uint32, []byte) {}
	f.StartBundle(none, none)
	if err := f.ProcessElement(ctx, []byte("no rows"), none, none); err != nil {
		t.Fatal(err)
	}
	if err := f.FinishBundle(ctx, none, none); err == nil {
		t.Error("malformed rows were taken")
	}
	if f.workers != nil {
		t.Error("workers are left")
	}
	f.Teardown()
}

// FuzzAssembly: no chunk makes the reader panic, and what it accepts lies in the shard.
func FuzzAssembly(f *testing.F) {
	p := newEventPacker(newShards(10, 2), taken)
	p.add(5, 6)
	p.add(3, 7)
	f.Add(p.flush(nil)[0].bytes)
	f.Add([]byte{byte(named), 1, 2})
	f.Add([]byte{byte(blocked), 0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		a := &assembly[int64]{first: 5, steps: 5}
		if a.add(b) != nil {
			return
		}
		l, err := a.batches()
		if err == nil && (len(l.starts) != 6 || l.starts[5] != int64(len(l.rows))) {
			t.Errorf("%d starts for %d rows", len(l.starts), len(l.rows))
		}
	})
}

func TestRemove(t *testing.T) {
	for _, c := range [][3][]int32{
		{{1, 2, 2, 5, 9}, {2, 2, 7, 9}, {1, 5}},
		{{1, 2}, nil, {1, 2}},
		{{4}, {1, 2, 3}, {4}},
		{{}, {1}, {}},
	} {
		if got := remove(slices.Clone(c[0]), c[1]); !slices.Equal(got, c[2]) {
			t.Errorf("%v without %v is %v, want %v", c[0], c[1], got, c[2])
		}
	}
}
