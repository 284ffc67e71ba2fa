package packed_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"minsep/internal/packed"

	"pgregory.net/rapid"
)

// collect packs records by one bucket each and returns the chunks of every bucket.
func collect(buckets int, records [][]byte, bucketOf func([]byte) uint32) map[uint32][][]byte {
	got := make(map[uint32][][]byte)
	emit := func(bucket uint32, chunk []byte) { got[bucket] = append(got[bucket], chunk) }
	p := packed.NewPacker(buckets)
	for _, r := range records {
		p.Add(bucketOf(r), r, emit)
	}
	p.Flush(emit)
	return got
}

func sorted(t interface{ Fatal(...any) }, s *packed.Sorter, chunks [][]byte) [][]byte {
	for _, c := range chunks {
		if err := s.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	var out [][]byte
	for range 2 { // Each may be called again
		out = nil
		if err := s.Each(func(r []byte) error { out = append(out, bytes.Clone(r)); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPackAndSort compares with sorting the records themselves, for any lengths, many equal
// prefixes, and spills.
func TestPackAndSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.SampledFrom([]int{0, 0, 1, 7, 8, 9, 20}).Draw(t, "width") // 0 for any
		seed := rapid.Uint64().Draw(t, "seed")
		n := rapid.SampledFrom([]int{0, 1, 40, 49, 400, 3000}).Draw(t, "n")
		alphabet := rapid.IntRange(1, 256).Draw(t, "alphabet")
		rng := rand.New(rand.NewPCG(seed, 1))
		records := make([][]byte, n)
		for i := range records {
			length := width
			if width == 0 {
				length = rng.IntN(30)
			}
			records[i] = make([]byte, length)
			for j := range records[i] {
				records[i][j] = byte(rng.IntN(alphabet))
			}
		}
		limit := rapid.SampledFrom([]int{0, 1, 500, 20000}).Draw(t, "limit")
		chunks := collect(1, records, func([]byte) uint32 { return 0 })[0]
		var pieces [][]byte // smaller chunks, so that several runs are spilled
		for _, c := range chunks {
			packed.Records(c, func(r []byte) error {
				pieces = append(pieces, collect(1, [][]byte{r}, func([]byte) uint32 { return 0 })[0]...)
				return nil
			})
		}
		if len(pieces) < 200 {
			chunks = pieces
		}
		got := sorted(t, &packed.Sorter{Limit: limit}, chunks)
		slices.SortFunc(records, bytes.Compare)
		if !slices.EqualFunc(got, records, bytes.Equal) {
			t.Fatalf("%d records of width %d came back in another order or number (%d)", n, width, len(got))
		}
	})
}

func TestChunksAreBounded(t *testing.T) {
	var records [][]byte
	for i := range 100_000 {
		records = append(records, binary.BigEndian.AppendUint32(nil, uint32(i)*2654435761))
	}
	records = append(records, make([]byte, 3*packed.ChunkSize)) // one record larger than a chunk
	total := 0
	for bucket, chunks := range collect(7, records, func(r []byte) uint32 { return uint32(len(r)+int(r[0])) % 7 }) {
		for _, c := range chunks {
			if len(c) > packed.ChunkSize && len(c) < 3*packed.ChunkSize {
				t.Errorf("bucket %d has a chunk of %d bytes", bucket, len(c))
			}
			packed.Records(c, func([]byte) error { total++; return nil })
		}
	}
	if total != len(records) {
		t.Errorf("%d records came back of %d", total, len(records))
	}
}

func TestBucketKeepsOrder(t *testing.T) {
	last := uint32(0)
	for w := uint64(0); w < 1<<63; w += 1 << 57 {
		b := packed.Bucket(w, 13)
		if b < last || b >= 13 {
			t.Fatalf("word %x is in bucket %d after %d", w, b, last)
		}
		last = b
	}
	if packed.Bucket(1<<64-1, 13) != 12 || packed.Bucket(0, 13) != 0 {
		t.Error("the ends are not in the end buckets")
	}
	for total, want := range map[int64]int{0: 1, 1: 1, packed.BucketSize: 1, packed.BucketSize + 1: 2, 1 << 62: packed.MaxBuckets} {
		if got := packed.Buckets(total); got != want {
			t.Errorf("Buckets(%d) = %d, want %d", total, got, want)
		}
	}
}

// TestFullDiskIsAnError spills into a folder that does not exist.
func TestFullDiskIsAnError(t *testing.T) {
	s := packed.Sorter{Limit: 1, Dir: "no such folder"}
	if err := s.Add([]byte{1, 'a'}); err == nil {
		t.Error("spilling into nowhere succeeded")
	}
}

func FuzzRecords(f *testing.F) {
	f.Add([]byte{2, 'a', 'b', 0, 1, 'c'})
	f.Fuzz(func(t *testing.T, chunk []byte) {
		n := 0
		if packed.Records(chunk, func(r []byte) error { n += len(r); return nil }) == nil && n > len(chunk) {
			t.Errorf("%d bytes of records in a chunk of %d", n, len(chunk))
		}
		s := packed.Sorter{}
		if (s.Add(chunk) == nil) != (packed.Records(chunk, func([]byte) error { return nil }) == nil) {
			t.Error("Add and Records disagree about the chunk")
		}
	})
}
