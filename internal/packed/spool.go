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

// Spool holds records in the order in which they are added and gives them back as often as
// asked: the records of one hot owner, or of one example of many owners. The part that does not
// fit under Limit is in a temporary file, so memory is bounded. The zero value with Width set
// is ready to use; Close it. It is not safe for concurrent use.
type Spool struct {
	Width int    // of a record in bytes, or 0 for records of any length
	Limit int    // bytes held in memory; 0 means DefaultSpool
	Dir   string // of the temporary file; empty means os.TempDir

	held []byte // a chunk: the last records
	len  int64
	file *os.File // a chunk of any size: the records before; nil until there are some
	size int64    // of the file
}

// Len returns the number of records.
func (s *Spool) Len() int64 { return s.len }

// Add adds a record, which it copies.
func (s *Spool) Add(record []byte) error {
	if s.Width == 0 {
		s.held = binary.AppendUvarint(s.held, uint64(len(record)))
	} else if len(record) != s.Width {
		panic(fmt.Sprintf("packed: record of %d bytes in a spool of width %d", len(record), s.Width))
	}
	s.held = append(s.held, record...)
	s.len++
	limit := s.Limit
	if limit == 0 {
		limit = DefaultSpool
	}
	if len(s.held) >= limit {
		return s.spill()
	}
	return nil
}

// Spilled says whether a part of the records is in the temporary file.
func (s *Spool) Spilled() bool { return s.size > 0 }

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

// Each calls f for every record in order until f fails. A record is valid during the call only.
// Each may be called again, but not by f.
func (s *Spool) Each(f func(record []byte) error) error {
	if s.size > 0 {
		r := &run{width: s.Width, r: bufio.NewReaderSize(io.NewSectionReader(s.file, 0, s.size), 1<<18)}
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
	return Records(s.held, s.Width, f)
}

// Reset empties the spool and keeps its memory and its file.
func (s *Spool) Reset() { s.held, s.len, s.size = s.held[:0], 0, 0 }

// Close frees the memory and the temporary file. The spool is empty then, and can be used again.
func (s *Spool) Close() (err error) {
	if s.file != nil {
		err = fault("closing a temporary file", s.file.Close())
	}
	s.held, s.len, s.size, s.file = nil, 0, 0, nil
	return err
}

// tempFile makes a temporary file. It has no name any more when tempFile returns, so that nothing
// is left behind by a process that is killed.
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

// fault names the failed operation, if err is not nil.
func fault(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("packed: %s: %w", doing, err)
}
