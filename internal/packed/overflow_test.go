package packed_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minsep/internal/must"
	"minsep/internal/packed"
)

// TestOverflow packs 4 MB into little more than 1 MB of chunks and gets all records back, sorted
// and not.
func TestOverflow(t *testing.T) {
	const n, buckets, after = 200_000, 5, 1 << 20
	for _, width := range []int{2, 20} {
		var records [][]byte
		rng := rand.New(rand.NewPCG(1, uint64(width)))
		for range n {
			r := make([]byte, 20)
			binary.BigEndian.PutUint16(r, uint16(rng.Uint64()))
			if rng.IntN(100) == 0 { // as a reference begins
				copy(r, bytes.Repeat([]byte{0xff}, len(r)))
			}
			records = append(records, r[:width])
		}
		dir := t.TempDir()
		chunks := make([][][]byte, buckets)
		emitted := 0
		emit := func(bucket uint32, chunk []byte) {
			chunks[bucket] = append(chunks[bucket], chunk)
			emitted += len(chunk)
		}
		bucketOf := func(r []byte) uint32 { return uint32(r[len(r)-1]) % buckets }
		p := packed.NewPacker(buckets).Over(packed.Overflow{Dir: dir, After: after})
		for _, r := range records {
			p.Add(bucketOf(r), r, emit)
		}
		must.Do(t, p.Flush(emit))
		total := n * (1 + width) // a length before each record
		if want := after + 10_000; emitted > want || total > after && emitted == total {
			t.Errorf("width %d: %d bytes emitted of %d, want at most %d", width, emitted, total, want)
		}
		var got, sorted [][]byte
		for _, list := range chunks {
			s := packed.Sorter{Dir: t.TempDir(), Limit: 1 << 20}
			for _, c := range list {
				must.Do(t, packed.Records(c, func(r []byte) error { got = append(got, bytes.Clone(r)); return nil }))
				must.Do(t, s.Add(c))
			}
			must.Do(t, s.Each(func(r []byte) error { sorted = append(sorted, bytes.Clone(r)); return nil }))
			must.Do(t, s.Close())
		}
		slices.SortFunc(records, bytes.Compare)
		slices.SortFunc(got, bytes.Compare)
		slices.SortFunc(sorted, bytes.Compare)
		if !slices.EqualFunc(records, got, bytes.Equal) || !slices.EqualFunc(records, sorted, bytes.Equal) {
			t.Errorf("width %d: %d and %d records came back of %d, or others", width, len(got), len(sorted), n)
		}
	}
}

// TestOverflowFails has no place to write to, then loses what was written.
func TestOverflowFails(t *testing.T) {
	dir := t.TempDir()
	write := func(dir string) (refs [][]byte, err error) {
		emit := func(_ uint32, chunk []byte) { refs = append(refs, chunk) }
		p := packed.NewPacker(1).Over(packed.Overflow{Dir: dir, After: 1})
		for i := range uint64(1000) {
			p.Add(0, binary.BigEndian.AppendUint64(nil, i), emit)
		}
		return refs, p.Flush(emit)
	}
	if refs, err := write(filepath.Join(dir, "none")); err == nil || len(refs) > 0 {
		t.Errorf("without a folder: %d chunks, %v", len(refs), err)
	}
	refs, err := write(dir)
	if err != nil || len(refs) != 1 {
		t.Fatalf("%d chunks, %v", len(refs), err)
	}
	read := func(ref []byte) error { return packed.Records(ref, func([]byte) error { return nil }) }
	must.Fail(t, "a reference that is cut short", "cut short")(read(refs[0][:25]))
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != 1 || os.Truncate(files[0], 7999) != nil {
		t.Fatalf("files: %s", strings.Join(files, " "))
	}
	must.Fail(t, "a file that is cut short", "in a file of 7999")(read(refs[0]))
}
