package contribution

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"math/rand/v2"
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

// TestGrant compares with the definition: walk the sequence of all copies to come, each of which
// finds room or not.
func TestGrant(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	for range 5000 {
		most := uint32(1 + rng.IntN(5))
		copies := make([]uint32, 1+rng.IntN(6))
		levels := map[uint32]uint64{}
		type copyOf struct {
			pass uint32
			i    int
		}
		var sequence []copyOf
		for i := range copies {
			copies[i] = uint32(rng.IntN(int(most)))
			levels[copies[i]]++
			for c := copies[i]; c < most; c++ {
				sequence = append(sequence, copyOf{c, i})
			}
		}
		slices.SortFunc(sequence, func(a, b copyOf) int {
			return cmp.Or(cmp.Compare(a.pass, b.pass), cmp.Compare(a.i, b.i))
		})
		room := rng.IntN(len(sequence))
		want := make([]uint32, len(copies))
		for _, c := range sequence[:room] {
			want[c.i]++
		}
		g := newGrant(levels, uint32(room), most)
		for i, c := range copies {
			if got := g.take(c); got != want[i] {
				t.Fatalf("room %d, most %d, copies %v: example %d is allowed %d, want %d", room, most, copies, i, got, want[i])
			}
		}
	}
}

func TestRoundsGoInPairs(t *testing.T) {
	for _, c := range []struct {
		edges   int64
		k, want int
	}{{0, 1, 0}, {aloneEdges, 1, 0}, {aloneEdges + 1, 1, 2}, {aloneEdges * 100 / 85, 1, 2}, {aloneEdges * 100 / 54, 2, 6},
		{10_000_000_000, 2, 22}, {10_000_000_000, 7, 28}, {10_000_000_000, 50, 36}, {1 << 50, 50, 56}, {1 << 60, 50, 64}} {
		config := Config{Edges: c.edges, Bound: ownergraph.Bound{MaxExamplesPerOwner: c.k}}
		if got := config.rounds(); got != c.want {
			t.Errorf("%d edges, %d an owner: %d rounds, want %d", c.edges, c.k, got, c.want)
		}
		config.Rounds = 1
		if got := config.rounds(); got != 1 {
			t.Errorf("%d rounds, want the one asked for", got)
		}
	}
}

// TestToOneWorker counts the bytes that a bundle of owners passes on, with the default settings: to
// the one worker that makes pools or finishes, a chunk and a reference to a file.
func TestToOneWorker(t *testing.T) {
	for _, pools := range []int{0, 3} {
		f := &ownerFn{Last: true, Spec: spec{Bound: ownergraph.Bound{MaxExamplesPerOwner: 1, Pools: pools}, Buckets: 5, Heavy: 100}}
		f.Spec.Overflow.Dir = t.TempDir()
		width := f.Spec.membershipWidth()
		var memberships []byte
		const examples = 20_000
		for e := range uint32(examples) {
			record := make([]byte, width-turnBytes)
			binary.BigEndian.PutUint32(record, e/4)
			memberships = appendTurn(append(memberships, record...), newTurn(1, newNumber(e%5, e/5)))
		}
		passed := 0
		s := f.Spec.sorter(f.Spec.verdictWidth())
		defer s.Close()
		take := func(bucket uint32, chunk []byte) {
			if passed += len(chunk); bucket != 0 {
				t.Errorf("a chunk for bucket %d", bucket)
			}
			if err := s.Add(chunk); err != nil {
				t.Fatal(err)
			}
		}
		counts := func(uint32, []byte) {}
		f.StartBundle(nil, nil, nil)
		given := false
		err := f.ProcessElement(0, func(c *[]byte) bool {
			first := !given
			*c, given = memberships, true
			return first
		}, take, counts, nil)
		if err == nil {
			err = f.FinishBundle(context.Background(), take, counts, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		if s.Len() != examples || passed > packed.ChunkSize+300 {
			t.Errorf("%d pools: %d verdicts for %d memberships, %d bytes passed on", pools, s.Len(), examples, passed)
		}
	}
}
