package manifest

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"minsep/internal/must"
	"minsep/sampling"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writeBatches publishes batches in the given number of shards.
func writeBatches(t *testing.T, dir string, batches [][]int64, shards int, dtype DType) {
	t.Helper()
	s := must.Get(Begin(dir, true))(t)
	ints := func(name string, dtype DType, values []int64) File {
		f := must.Get(s.Write(name, func(w io.Writer) error {
			if err := (NPYHeader{DType: dtype, Shape: []int{len(values)}}).Write(w); err != nil {
				return err
			}
			for _, v := range values {
				b := binary.LittleEndian.AppendUint64(nil, uint64(v))
				if _, err := w.Write(b[:dtype.Size()]); err != nil {
					return err
				}
			}
			return nil
		}))(t)
		return f
	}
	ix := Index{Format: BatchesFormat}
	ix.Params, ix.ParamsSHA256, _ = Params(struct{}{})
	ix.Facts, _ = json.Marshal(BatchesFacts{Examples: 100, Steps: len(batches), Shards: shards, RowType: dtype, RowsOf: RowsOfRange})
	for shard := range shards {
		indptr, rows := []int64{0}, []int64{}
		for t := ShardStart(len(batches), shards, shard); t < ShardStart(len(batches), shards, shard+1); t++ {
			rows = append(rows, batches[t]...)
			indptr = append(indptr, int64(len(rows)))
		}
		ix.Files = append(ix.Files, ints(IndptrName(shard, shards), DInt64, indptr), ints(RowsName(shard, shards), dtype, rows))
	}
	must.Do(t, s.Publish(ix))
}

func TestBatchesReadBackForAnyShards(t *testing.T) {
	want := [][]int64{{1, 5}, {}, {0, 99, sampling.PadRow}, {7}, {}}
	for _, dtype := range []DType{DInt32, DInt64} {
		for shards := 1; shards <= len(want); shards++ {
			dir := filepath.Join(t.TempDir(), "batches")
			writeBatches(t, dir, want, shards, dtype)
			b := must.Get(OpenBatches(t.Context(), dir))(t)
			got := make([][]int64, len(want))
			must.Do(t, b.Each(t.Context(), func(step int, rows []int64, _ []int) error { got[step] = append([]int64{}, rows...); return nil }))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%d shards of %s: %s", shards, dtype, diff)
			}
		}
	}
}

func TestBatchesRefuseWhatDoesNotFit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "batches")
	writeBatches(t, dir, [][]int64{{1}, {2}}, 2, DInt32)
	for _, c := range []struct{ old, new, want string }{
		{`"shards": 2`, `"shards": 1`, "is not in the index"},
		{`"shards": 2`, `"shards": 0`, `"shards":0,`},
		{`"steps": 2`, `"steps": 4`, "indptr has 2 entries"},
		{`"row_type": "\u003ci4"`, `"row_type": "\u003cf4"`, "invalid facts"},
	} {
		edit(dir, c.old, c.new)
		b, err := OpenBatches(t.Context(), dir)
		if err == nil {
			err = b.Each(t.Context(), func(int, []int64, []int) error { return nil })
		}
		must.Fail(t, c.new, c.want)(err)
		edit(dir, c.new, c.old)
	}
}
