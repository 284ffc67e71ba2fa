package manifest

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minsep/internal/must"
	"minsep/sampling"
)

// ownerShard is what the files of a shard hold.
type ownerShard struct{ indptr, rows, owners []int64 }

// writeOwnerShards publishes batches of owners that bring up to 2 examples.
func writeOwnerShards(t *testing.T, format string, steps int, shards ...ownerShard) (*Batches, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "batches")
	s := must.Get(Begin(dir, true))(t)
	ix := Index{Format: format}
	ix.Params, ix.ParamsSHA256, _ = Params(struct{}{})
	ix.Facts, _ = json.Marshal(BatchesFacts{Examples: 100, Steps: steps, Shards: len(shards), RowType: DInt64, RowsOf: RowsOfBounded, Owners: 50, ExamplesPerOwner: 2})
	for i, shard := range shards {
		for name, values := range map[string][]int64{IndptrName(i, len(shards)): shard.indptr, RowsName(i, len(shards)): shard.rows, OwnersName(i, len(shards)): shard.owners} {
			if values == nil {
				continue
			}
			f := must.Get(s.Write(name, func(w io.Writer) error {
				if err := (NPYHeader{DType: DInt64, Shape: []int{len(values)}}).Write(w); err != nil {
					return err
				}
				return binary.Write(w, binary.LittleEndian, values)
			}))(t)
			ix.Files = append(ix.Files, f)
		}
	}
	must.Do(t, s.Publish(ix))
	return OpenBatches(t.Context(), dir)
}

func TestBatchesOfOwners(t *testing.T) {
	b, err := writeOwnerShards(t, OwnerBatchesFormat, 5,
		ownerShard{[]int64{0, 3, 3}, []int64{7, 9, 40}, []int64{0, 2, 3}},
		ownerShard{[]int64{0, 1, 1, 5}, []int64{1, 0, 99, sampling.PadRow, sampling.PadRow}, []int64{0, 1, 3, 5}})
	must.Do(t, err)
	type batch struct {
		Rows []int64
		Ends []int
	}
	var got []batch
	err = b.Each(t.Context(), func(step int, rows []int64, ends []int) error {
		if step != len(got) {
			t.Errorf("step %d after %d", step, len(got)-1)
		}
		got = append(got, batch{append([]int64{}, rows...), append([]int{}, ends...)})
		return nil
	})
	want := []batch{{[]int64{7, 9, 40}, []int{2, 3}}, {[]int64{}, []int{}}, {[]int64{1}, []int{1}}, {[]int64{}, []int{}},
		{[]int64{0, 99, sampling.PadRow, sampling.PadRow}, []int{2, 4}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
}

func TestBatchesOfOwnersRefuseWhatDoesNotFit(t *testing.T) {
	indptr := []int64{0, 3, 5}
	rows, owners := []int64{7, 9, 40, 1, 3}, []int64{0, 2, 3, 5}
	for name, c := range map[string]struct {
		format string
		shard  ownerShard
		want   string
	}{
		"sound":                         {OwnerBatchesFormat, ownerShard{indptr, rows, owners}, ""},
		"of examples":                   {BatchesFormat, ownerShard{indptr, rows, owners}, "invalid facts"},
		"without owners":                {OwnerBatchesFormat, ownerShard{indptr, rows, nil}, "owners-00000-of-00001.npy is not in the index"},
		"owners begin later":            {OwnerBatchesFormat, ownerShard{indptr, rows, []int64{1, 2, 3, 5}}, "owners do not rise"},
		"an owner of two steps":         {OwnerBatchesFormat, ownerShard{indptr, rows, []int64{0, 2, 4, 5}}, "owners do not rise"},
		"an owner of nothing":           {OwnerBatchesFormat, ownerShard{indptr, rows, []int64{0, 2, 2, 3, 5}}, "owners do not rise"},
		"an owner of three":             {OwnerBatchesFormat, ownerShard{indptr, rows, []int64{0, 3, 5}}, "owners do not rise"},
		"owners end too early":          {OwnerBatchesFormat, ownerShard{indptr, rows, []int64{0, 2, 3}}, "owners do not rise"},
		"owners end too late":           {OwnerBatchesFormat, ownerShard{indptr, rows, []int64{0, 2, 3, 5, 6}}, "owners do not rise"},
		"no entry of owners":            {OwnerBatchesFormat, ownerShard{indptr, rows, []int64{}}, "owners do not rise"},
		"rows of an owner descend":      {OwnerBatchesFormat, ownerShard{indptr, []int64{9, 7, 40, 1, 3}, owners}, "do not ascend"},
		"one example twice":             {OwnerBatchesFormat, ownerShard{indptr, []int64{7, 7, 40, 1, 3}, owners}, "do not ascend"},
		"padding first":                 {OwnerBatchesFormat, ownerShard{indptr, []int64{sampling.PadRow, 7, 40, 1, 3}, owners}, "do not ascend"},
		"owners in another order":       {OwnerBatchesFormat, ownerShard{indptr, []int64{7, 9, 2, 1, 3}, owners}, "order of their first rows"},
		"an owner after padding":        {OwnerBatchesFormat, ownerShard{indptr, []int64{sampling.PadRow, sampling.PadRow, 2, 1, 3}, owners}, "order of their first rows"},
		"rows after the last of indptr": {OwnerBatchesFormat, ownerShard{[]int64{0, 3, 4}, rows, []int64{0, 2, 3, 4}}, "indptr does not rise"},
	} {
		b, err := writeOwnerShards(t, c.format, 2, c.shard)
		if err == nil {
			err = b.Each(t.Context(), func(int, []int64, []int) error { return nil })
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}
