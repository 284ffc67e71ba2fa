package contribution

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"testing"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"

	"pgregory.net/rapid"
)

// TestIDsSortAsTheyAreEncoded takes pairs of ids there and back and compares their order.
func TestIDsSortAsTheyAreEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ids, back ownergraph.IDs
		typ := rapid.SampledFrom([]ownergraph.IDType{ownergraph.Int64, ownergraph.String}).Draw(t, "type")
		ids.Reset(typ)
		back.Reset(typ)
		var enc [2][]byte
		for i := range enc {
			if typ == ownergraph.Int64 {
				ids.AppendInt(rapid.Int64().Draw(t, "id"))
			} else {
				ids.AppendBytes(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 254, 255}), 0, 5).Draw(t, "id"))
			}
			enc[i] = appendID(nil, &ids, i)
			tail := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 255}), 0, 3).Draw(t, "tail")
			n, err := idLen(append(slices.Clone(enc[i]), tail...), typ)
			if err != nil || n != len(enc[i]) {
				t.Fatalf("%x followed by %x ends at %d, %v", enc[i], tail, n, err)
			}
			decodeID(&back, enc[i])
			if back.Compare(i, &ids, i) != 0 {
				t.Fatalf("%q came back as %q", ids.Format(i), back.Format(i))
			}
		}
		if got, want := bytes.Compare(enc[0], enc[1]), ids.Compare(0, &ids, 1); got != want {
			t.Fatalf("%q and %q compare as %d, their encodings as %d", ids.Format(0), ids.Format(1), want, got)
		}
	})
}

func FuzzIDLen(f *testing.F) {
	f.Add([]byte{'a', 0, 255, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, typ := range []ownergraph.IDType{ownergraph.Int64, ownergraph.String} {
			n, err := idLen(b, typ)
			if err != nil {
				continue
			}
			var ids ownergraph.IDs
			ids.Reset(typ)
			if decodeID(&ids, b[:n]); ids.Len() != 1 {
				t.Errorf("%x gave %d ids", b[:n], ids.Len())
			}
		}
	})
}

// TestToOneWorker counts the bytes that a bundle of owners passes on to the one worker that decides,
// with the default settings: a chunk and a reference to a file.
func TestToOneWorker(t *testing.T) {
	f := &ownerFn{Spec: spec{Bound: ownergraph.Bound{MaxExamplesPerOwner: 1}, Buckets: 5}}
	f.Spec.Overflow.Dir = t.TempDir()
	var memberships []byte
	const examples = 20_000
	for e := range uint32(examples) {
		record := make([]byte, hashBytes)
		binary.BigEndian.PutUint32(record, e/4)
		record = turn{1, 0, newNumber(e%5, e/5)}.append(record)
		memberships = append(append(memberships, byte(len(record))), record...)
	}
	passed := 0
	s := packed.Sorter{}
	defer s.Close()
	take := func(bucket uint32, chunk []byte) {
		if passed += len(chunk); bucket != 0 {
			t.Errorf("a chunk for bucket %d", bucket)
		}
		if err := s.Add(chunk); err != nil {
			t.Fatal(err)
		}
	}
	counts := func(_ uint32, n []byte) {
		if got := binary.BigEndian.Uint64(n); got != examples/4 {
			t.Errorf("%d owners", got)
		}
	}
	f.StartBundle(nil, nil)
	given := false
	err := f.ProcessElement(0, func(c *[]byte) bool {
		first := !given
		*c, given = memberships, true
		return first
	}, take, counts)
	if err == nil {
		err = f.FinishBundle(context.Background(), take, counts)
	}
	if err != nil {
		t.Fatal(err)
	}
	if s.Len() != examples || passed > packed.ChunkSize+300 {
		t.Errorf("%d ownerships for %d memberships, %d bytes passed on", s.Len(), examples, passed)
	}
}
