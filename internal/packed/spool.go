package packed

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// DefaultSpool is the number of bytes that a Spool holds in memory.
const DefaultSpool = 64 << 20

// Spool holds records in the order in which they were added, and returns them any number of times:
// the records of one hot owner, or of one example with many owners. Records beyond Limit are in a
// temporary file, so memory is bounded. The zero value is ready to use; the caller
// must Close it. It is not safe for concurrent use.
type Spool struct {
	Limit int    // bytes held in memory; 0 means DefaultSpool
	Dir   string // folder for the temporary file; "" means os.TempDir

	held []byte   // the last records, as a chunk
	file *os.File // the records before them, as one chunk; nil while there are none
	size int64    // bytes of the file
}

// Add adds a copy of the record.
func (s *Spool) Add(record []byte) error {
	s.held = append(binary.AppendUvarint(s.held, uint64(len(record))), record...)
	limit := s.Limit
	if limit == 0 {
		limit = DefaultSpool
	}
	if len(s.held) >= limit {
		return s.spill()
	}
	return nil
}

func (s *Spool) spill() (err error) {
	if s.file == nil {
		if s.file, err = tempFile(s.Dir, "minsep-spool-*"); err != nil {
			return err
		}
	}
	n, err := s.file.WriteAt(s.held, s.size)
	s.size += int64(n)
	s.held = s.held[:0]
	return fault("spilling records", err)
}

// Each calls f for every record, in order, until f fails. A record is valid during the call only.
// Each may be called repeatedly, but not from within f.
func (s *Spool) Each(f func(record []byte) error) error {
	if s.size > 0 {
		r := &run{r: bufio.NewReaderSize(io.NewSectionReader(s.file, 0, s.size), 1<<18)}
		for {
			ok, err := r.next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if err := f(r.record); err != nil {
				return err
			}
		}
	}
	return Records(s.held, f)
}

// Reset empties the spool. It keeps the memory and the file for reuse.
func (s *Spool) Reset() { s.held, s.size = s.held[:0], 0 }

// Close frees the memory and the temporary file. The spool is then empty and can be used again.
func (s *Spool) Close() (err error) {
	if s.file != nil {
		err = fault("closing a temporary file", s.file.Close())
	}
	s.held, s.size, s.file = nil, 0, nil
	return err
}

// tempFile makes a temporary file and removes its name, so that a killed process leaves nothing
// behind.
func tempFile(dir, pattern string) (*os.File, error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, fault("making a temporary file", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, fault("making a temporary file", errors.Join(err, f.Close()))
	}
	return f, nil
}

// fault adds the failed operation to err; nil stays nil.
func fault(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
