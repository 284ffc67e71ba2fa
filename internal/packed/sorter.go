package packed

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// DefaultLimit is the number of bytes that a Sorter holds in memory before it writes to files.
const DefaultLimit = 256 << 20

// Sorter sorts the records of a bucket by their bytes, in bounded memory whatever the bucket's
// size. Records beyond Limit are sorted in runs in temporary files, which are merged when they are
// read: an open file and 256 KiB each. The zero value is ready to use; the caller must Close it. It is not safe for concurrent use.
type Sorter struct {
	Limit int    // bytes of records and index held in memory; 0 means DefaultLimit
	Dir   string // folder for temporary files; "" means os.TempDir

	chunks [][]byte
	refs   []ref
	held   int
	sorted bool // whether refs are sorted
	runs   []*run
	sorter refSorter
}

// Sort calls body with a sorter of the chunks of a GroupByKey's iterator, and closes it. dir is a field
// of [Sorter].
func Sort(dir string, chunks func(*[]byte) bool, body func(*Sorter) error) (err error) {
	s := &Sorter{Dir: dir}
	defer func() { err = errors.Join(err, s.Close()) }()
	for chunk := []byte(nil); chunks(&chunk); chunk = nil {
		if err := s.Add(chunk); err != nil {
			return err
		}
	}
	return body(s)
}

// Add adds the records of a chunk, which may be a reference to a file: see [Overflow]. All calls
// come before the first of Each. The chunk must not change until Close.
func (s *Sorter) Add(chunk []byte) error {
	chunk, err := Resolve(chunk)
	if err != nil {
		return err
	}
	number := uint32(len(s.chunks))
	for off := 0; off < len(chunk); {
		start, end, err := next(chunk, off)
		if err != nil {
			return err
		}
		s.refs = append(
			s.refs,
			ref{
				key:   keyAt(chunk[start:end], 0),
				after: keyAt(chunk[start:end], 8),
				chunk: number,
				off:   uint32(off),
			},
		)
		s.held += refBytes
		off = end
	}
	s.chunks = append(s.chunks, chunk)
	s.held += len(chunk)
	limit := s.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	if s.held >= limit {
		return s.spill()
	}
	return nil
}

// refBytes is the memory of a ref with its place in the scratch space.
const refBytes = 48

func (s *Sorter) record(r ref) []byte {
	chunk := s.chunks[r.chunk]
	n, k := binary.Uvarint(chunk[r.off:])
	start := int(r.off) + k
	return chunk[start : start+int(n)]
}

// sortHeld sorts the records in memory. It does so once only: sorting moves the keys in refs to
// deeper bytes, so sorting again would be wrong.
func (s *Sorter) sortHeld() {
	if !s.sorted {
		s.sorter.record = s.record
		s.sorter.sort(s.refs, 0)
		s.sorted = true
	}
}

// forget drops the records in memory. It keeps the memory of the index for reuse.
func (s *Sorter) forget() { s.chunks, s.refs, s.held, s.sorted = nil, s.refs[:0], 0, false }

// Spilled reports whether temporary files are in use.
func (s *Sorter) Spilled() bool { return len(s.runs) > 0 }

// spill writes the records in memory as a sorted run.
func (s *Sorter) spill() error {
	s.sortHeld()
	f, err := tempFile(s.Dir, "minsep-sort-*")
	if err != nil {
		return err
	}
	s.runs = append(s.runs, &run{file: f})
	w := bufio.NewWriterSize(f, 1<<20)
	var length [binary.MaxVarintLen64]byte
	err = s.eachHeld(func(record []byte) error {
		w.Write(length[:binary.PutUvarint(length[:], uint64(len(record)))])
		_, err := w.Write(record)
		return err
	})
	s.forget()
	return fault("spilling a bucket", cmp.Or(err, w.Flush()))
}

// Each calls f for every record, in order, until f fails. A record is valid during the call only.
// Each may be called repeatedly.
func (s *Sorter) Each(f func(record []byte) error) error {
	if len(s.runs) == 0 {
		s.sortHeld()
		return s.eachHeld(f)
	}
	if len(s.refs) > 0 {
		if err := s.spill(); err != nil {
			return err
		}
	}
	return merge(s.runs, f)
}

// eachHeld calls f for the records in memory. It copies a block of records together before the
// calls: sorted records are scattered over their chunks, and the processor overlaps the cache
// misses only if no call comes between them.
func (s *Sorter) eachHeld(f func(record []byte) error) error {
	const block, enough = 128, 1 << 20 // of a block: records, bytes
	var ends [block]int
	buf := make([]byte, 0, block*32)
	for refs := s.refs; len(refs) > 0; {
		n := 0
		buf = buf[:0]
		for ; n < min(block, len(refs)) && len(buf) < enough; n++ {
			buf = append(buf, s.record(refs[n])...)
			ends[n] = len(buf)
		}
		start := 0
		for _, end := range ends[:n] {
			if err := f(buf[start:end:end]); err != nil {
				return err
			}
			start = end
		}
		refs = refs[n:]
	}
	return nil
}

// merge calls f for the records of sorted runs in their common order. The first run of the heap has
// the smallest record.
func merge(runs []*run, f func(record []byte) error) error {
	heap := make([]*run, 0, len(runs))
	for _, r := range runs {
		if _, err := r.file.Seek(0, io.SeekStart); err != nil {
			return fault("reading a spilled bucket", err)
		}
		r.r = bufio.NewReaderSize(r.file, 1<<18)
		ok, err := r.next()
		if err != nil {
			return err
		}
		if ok {
			heap = append(heap, r)
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		sink(heap, i)
	}
	for len(heap) > 0 {
		if err := f(heap[0].record); err != nil {
			return err
		}
		ok, err := heap[0].next()
		if err != nil {
			return err
		}
		if !ok {
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		}
		sink(heap, 0)
	}
	return nil
}

// Close frees the memory and the temporary files.
func (s *Sorter) Close() error {
	var errs []error
	for _, r := range s.runs {
		errs = append(errs, r.file.Close())
	}
	s.runs = nil
	s.forget()
	return errors.Join(errs...)
}

// run is a sorted temporary file, read from the start.
type run struct {
	file   *os.File
	r      *bufio.Reader
	record []byte
}

// next reads the next record. It returns false at the end.
func (r *run) next() (bool, error) {
	n, err := binary.ReadUvarint(r.r)
	if err == io.EOF {
		return false, nil
	}
	if err == nil {
		if uint64(cap(r.record)) < n {
			r.record = make([]byte, n)
		}
		r.record = r.record[:n]
		_, err = io.ReadFull(r.r, r.record)
	}
	return err == nil, fault("reading spilled records", err)
}

// sink restores the heap's order below i.
func sink(heap []*run, i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heap); child++ {
			if bytes.Compare(heap[child].record, heap[least].record) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		heap[i], heap[least] = heap[least], heap[i]
		i = least
	}
}
