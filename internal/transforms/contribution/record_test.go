package contribution

import (
	"encoding/binary"
	"testing"

	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/internal/packed"
)

// TestToOneWorker counts the bytes that a bundle of owners passes on to the one worker that decides,
// with the default settings: a chunk and a reference to a file.
func TestToOneWorker(t *testing.T) {
	f := &ownerFn{Config: Config{Bound: ownergraph.Bound{MaxExamplesPerOwner: 1}, Buckets: 5}}
	f.Config.Overflow.Dir = t.TempDir()
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
		must.Do(t, s.Add(chunk))
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
		err = f.FinishBundle(take, counts)
	}
	must.Do(t, err)
	if s.Len() != examples || passed > packed.ChunkSize+300 {
		t.Errorf("%d ownerships for %d memberships, %d bytes passed on", s.Len(), examples, passed)
	}
}
