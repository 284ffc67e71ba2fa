package packed_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"

	"minsep/internal/must"
	"minsep/internal/packed"
)

// TestSpoolGivesBack adds records, more and fewer than memory holds, reads
// them twice, and begins anew.
func TestSpoolGivesBack(t *testing.T) {
	for _, limit := range []int{1, 100, 1 << 20} {
		s := packed.Spool{Limit: limit, Dir: t.TempDir()}
		for round, n := range []int{0, 1000, 3, 500} {
			s.Reset()
			var want [][]byte
			for i := range n {
				r := fmt.Appendf(nil, "%05d", i)[:i%6]
				want = append(want, r)
				must.Do(t, s.Add(r))
			}
			if round == 1 && s.Spilled() != (limit < 1<<20) {
				t.Errorf("limit %d: spilled %v", limit, s.Spilled())
			}
			for range 2 {
				i := 0
				err := s.Each(func(r []byte) error {
					if i >= n || !bytes.Equal(r, want[i]) {
						return fmt.Errorf("record %d is another", i)
					}
					i++
					return nil
				})
				if err != nil || i != n {
					t.Fatalf("limit %d: %d of %d records: %v", limit, i, n, err)
				}
			}
		}
		if left, _ := os.ReadDir(s.Dir); len(left) > 0 {
			t.Errorf("%d temporary files have names", len(left))
		}
		must.Do(t, s.Close())
	}
}

func TestSpoolErrors(t *testing.T) {
	s := packed.Spool{Limit: 1, Dir: "no such folder"}
	must.Fail(t, "spilling into nowhere", "making a temporary file")(s.Add([]byte("a")))
	stop := errors.New("stop")
	s = packed.Spool{Limit: 1, Dir: t.TempDir()}
	defer s.Close()
	must.Do(t, s.Add([]byte("a")))
	if err := s.Each(func([]byte) error { return stop }); err != stop {
		t.Errorf("got %v", err)
	}
}

// TestManyRuns merges hundreds of runs.
func TestManyRuns(t *testing.T) {
	const n = 300
	s := packed.Sorter{Limit: 1, Dir: t.TempDir()}
	defer s.Close()
	chunk := append([]byte{8}, make([]byte, 8)...)
	for i := range uint64(n) {
		binary.BigEndian.PutUint64(chunk[1:], i*0x9e3779b97f4a7c15)
		must.Do(t, s.Add(bytes.Clone(chunk)))
	}
	last, count := uint64(0), 0
	err := s.Each(func(r []byte) error {
		if v := binary.BigEndian.Uint64(r); v < last {
			return fmt.Errorf("record %d is out of order", count)
		} else {
			last = v
		}
		count++
		return nil
	})
	if err != nil || count != n {
		t.Errorf("%d records: %v", count, err)
	}
}

// TestPackerOfManyBuckets packs for more buckets than there is memory for chunks: nothing is lost,
// and what is held stays bounded.
func TestPackerOfManyBuckets(t *testing.T) {
	const buckets, records = 3 << 17, 4
	p := packed.NewPacker(buckets)
	emitted, early := 0, 0
	emit := func(_ uint32, chunk []byte) { emitted += len(chunk) }
	var record [8]byte
	for range records {
		for b := range uint32(buckets) {
			p.Add(b, record[:], emit)
		}
		early = emitted
	}
	p.Flush(emit)
	if early == 0 {
		t.Error("all was held")
	}
	if want := 9 * records * buckets; emitted != want {
		t.Errorf("%d bytes, want %d", emitted, want)
	}
}
