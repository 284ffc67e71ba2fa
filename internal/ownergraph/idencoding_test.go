package ownergraph

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestIDsSortAsTheyAreEncoded takes pairs of ids there and back and compares their order.
func TestIDsSortAsTheyAreEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ids, back IDs
		typ := rapid.SampledFrom([]IDType{Int64, String}).Draw(t, "type")
		ids.Reset(typ)
		back.Reset(typ)
		var enc [2][]byte
		for i := range enc {
			if typ == Int64 {
				ids.AppendInt(rapid.Int64().Draw(t, "id"))
			} else {
				ids.AppendBytes(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 254, 255}), 0, 5).Draw(t, "id"))
			}
			enc[i] = ids.AppendSortable(nil, i)
			tail := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 255}), 0, 3).Draw(t, "tail")
			n, err := typ.SortableLen(append(slices.Clone(enc[i]), tail...))
			if err != nil || n != len(enc[i]) {
				t.Fatalf("%x followed by %x ends at %d, %v", enc[i], tail, n, err)
			}
			back.AddSortable(enc[i])
			if back.Compare(i, &ids, i) != 0 {
				t.Fatalf("%q came back as %q", ids.Format(i), back.Format(i))
			}
		}
		if got, want := bytes.Compare(enc[0], enc[1]), ids.Compare(0, &ids, 1); got != want {
			t.Fatalf("%q and %q compare as %d, their encodings as %d", ids.Format(0), ids.Format(1), want, got)
		}
	})
}

func FuzzSortableLen(f *testing.F) {
	f.Add([]byte{'a', 0, 255, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, typ := range []IDType{Int64, String} {
			n, err := typ.SortableLen(b)
			if err != nil {
				continue
			}
			var ids IDs
			ids.Reset(typ)
			if ids.AddSortable(b[:n]); ids.Len() != 1 {
				t.Errorf("%x gave %d ids", b[:n], ids.Len())
			}
		}
	})
}
