package formation

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/internal/stream"
	"minsep/internal/transforms/keyref"
	"minsep/sampling"
)

func testConfig(t *testing.T, spec sampling.Spec) Config {
	key := filepath.Join(t.TempDir(), "key")
	must.Do(t, os.WriteFile(key, []byte("formation tests: 32 bytes of key"), 0o600))
	return Config{Settings: Settings{Shards: 2, Blocks: 1, Names: true, Key: keyref.Ref{KeyURI: key, RunID: stream.RunID{1}}}, Spec: spec, Examples: 100}
}

// sideInput returns the configuration as DoFns get it.
func sideInput(t *testing.T, c Config) side {
	b := must.Get(json.Marshal(Resolved{Config: c}))(t)
	return func(to *[]byte) bool {
		*to = b
		return true
	}
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
	encoded := must.Get(rows.AppendBinary(nil))(t)
	f, resolved := &drawTableFn{}, sideInput(t, c)
	var tallies [][]byte
	draw := func() (events, coins []chunk) {
		e := func(b uint32, c []byte) { events = append(events, chunk{b, c}) }
		o := func(b uint32, c []byte) { coins = append(coins, chunk{b, c}) }
		sum := func(b []byte) { tallies = append(tallies, b) }
		must.Do(t, f.ProcessElement(ctx, encoded, resolved, e, o, sum))
		must.Do(t, f.FinishBundle(ctx, resolved, e, o, sum))
		return events, coins
	}
	same := func(a, b []chunk) bool {
		return len(a) > 0 && slices.EqualFunc(a, b, func(x, y chunk) bool { return x.bucket == y.bucket && bytes.Equal(x.bytes, y.bytes) })
	}
	events, coins := draw()
	events2, coins2 := draw()
	if !same(events, events2) || !same(coins, coins2) || len(tallies) != 2 || !bytes.Equal(tallies[0], tallies[1]) {
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
	x := &excludeFn{}
	exclude := func() (out []chunk) {
		must.Do(t, x.ProcessElement(ctx, 0, iterate(coins, 0), resolved, func(b uint32, c []byte) { out = append(out, chunk{b, c}) }))
		return out
	}
	if !same(exclude(), exclude()) {
		t.Error("excluding twice gives other chunks")
	}
	w := &writeFn{Dir: t.TempDir()}
	write := func() (files []string) {
		must.Do(t, w.ProcessElement(ctx, 1, iterate(append(exclude(), events...), 1), resolved, resolved, func(s string) { files = append(files, s) }))
		return files
	}
	first, second := write(), write()
	if len(first) != 2 || !cmp.Equal(first, second) {
		t.Errorf("writing twice: %v, then %v", first, second)
	}
	info, err := os.Stat(filepath.Join(w.Dir, manifest.RowsName(1, 2)))
	if err != nil || info.Mode().Perm() != manifest.SecretFile {
		t.Errorf("%v: mode %v", err, info.Mode())
	}
}

// TestManyRows forms batches of a few rows at the end of a table that is too long for 32 bits.
func TestManyRows(t *testing.T) {
	const first = 1 << 33
	var batches [2][]int64
	for i, from := range []int64{0, first} {
		c := testConfig(t, sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 40, MinSep: 6, WarmStart: true}})
		c.Examples, c.Shards = from+50, 1
		var rows ownergraph.Rows
		rows.First = from
		for id := range int64(50) {
			rows.Examples.AppendInt(id)
			rows.Copies, rows.Ends = append(rows.Copies, 1), append(rows.Ends, 0)
		}
		encoded := must.Get(rows.AppendBinary(nil))(t)
		var events [][]byte
		f, resolved := &drawTableFn{}, sideInput(t, c)
		emit := func(_ uint32, b []byte) { events = append(events, b) }
		must.Do(t, f.ProcessElement(t.Context(), encoded, resolved, emit, emit, func([]byte) {}))
		must.Do(t, f.FinishBundle(t.Context(), resolved, emit, emit, func([]byte) {}))
		next := func(b *[]byte) bool {
			if len(events) == 0 {
				return false
			}
			*b, events = events[0], events[1:]
			return true
		}
		err := Assemble(t.Context(), c, 0, next, nil, 1000, func(p *Part) error {
			batches[i] = append(batches[i], -1)
			for j, row := range p.Rows {
				batches[i] = append(batches[i], row-from)
				if p.IDs.Int(int(p.Places[j])) != row-from {
					t.Errorf("row %d has the id %d", row, p.IDs.Int(int(p.Places[j])))
				}
			}
			return nil
		})
		if err != nil || manifest.RowType(c.Examples) != []manifest.DType{manifest.DInt32, manifest.DInt64}[i] {
			t.Fatal(err)
		}
	}
	if !slices.Equal(batches[0], batches[1]) || len(batches[0]) < 60 {
		t.Errorf("rows %d, want %d", batches[1], batches[0])
	}
}

func TestMalformedRows(t *testing.T) {
	ctx := context.Background()
	f, resolved := &drawTableFn{}, sideInput(t, testConfig(t, sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.1, Steps: 5}}))
	none, noTally := func(uint32, []byte) {}, func([]byte) {}
	var rows ownergraph.Rows
	encoded := must.Get(rows.AppendBinary(nil))(t)
	must.Do(t, f.ProcessElement(ctx, append(encoded, 1), resolved, none, none, noTally))
	must.Fail(t, "malformed rows", "malformed column of ids")(f.FinishBundle(ctx, resolved, none, none, noTally))
}

func TestIDsOfAnotherType(t *testing.T) {
	var ids ownergraph.IDs
	ids.AppendInt(7)
	names := newNamePacker(newShards(1, 1, 1, 1))
	names.add(&ids, 0, 0, []int32{0})
	must.Fail(t, "integers", "ids of the table are of type int64")(decodeNames(names.flush(nil)[0].bytes, ownergraph.String))
}

// FuzzAssembly: no chunk makes the reader panic, and what it accepts lies in the shard.
func FuzzAssembly(f *testing.F) {
	p := newEventPacker(newShards(10, 2, 1, 1), taken)
	p.add(5, 6)
	p.add(3, 7)
	f.Add(p.flush(nil)[0].bytes)
	p.add(5, 6)
	p.buffers[1] = AppendInts(p.buffers[1], []int64{0, 4})
	f.Add(p.flush(nil)[0].bytes)
	f.Add([]byte{byte(named), 1, 2})
	f.Add([]byte{byte(blocked), 0x80})
	f.Fuzz(func(t *testing.T, chunk []byte) {
		for _, unit := range []*sampling.OwnerSampling{nil, {ExamplesPerOwner: 2}} {
			c := Config{Settings: Settings{Shards: 2, Blocks: 1}, Examples: 100}
			c.Spec = sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.1, Steps: 10}, Owners: unit}
			b, err := c.assemble(t.Context(), 1, once(chunk), nil)
			if err != nil {
				continue
			}
			if len(b.starts) != 6 || b.starts[5] != int64(len(b.units)) {
				t.Errorf("%d starts for %d units", len(b.starts), len(b.units))
			}
			b.sizes()
		}
	})
}

// once gives a chunk once.
func once(chunk []byte) side {
	return func(to *[]byte) bool {
		given := chunk
		*to, chunk = given, nil
		return given != nil
	}
}
