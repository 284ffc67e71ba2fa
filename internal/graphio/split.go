package graphio

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"

	"minsep/internal/ownergraph"
)

// Split is a unit of work: a file and all that is needed to read it. It travels as JSON, and needs
// only that the file can be opened under the same path where it is read. If the file is another one
// by then, or changes while it is read, that is a fault: a copy on another machine must have the same
// time of last change.
type Split struct {
	Path        string            `json:"path"`                   // of the file, for workers in any folder
	Name        string            `json:"name"`                   // of the file as it was given, for faults
	Stamp       string            `json:"stamp,omitempty"`        // of the file as Open saw it: see [File]
	Format      string            `json:"format"`                 // one of [Formats]
	ExampleType ownergraph.IDType `json:"example_type"`           // to which example ids are read
	OwnerType   ownergraph.IDType `json:"owner_type"`             // to which owner ids are read
	SingleOwner bool              `json:"single_owner,omitempty"` // each example is its own owner
	// SkipOwnerless as in [Options].
	SkipOwnerless bool `json:"skip_ownerless,omitempty"`

	// RowIDs as in [Options], and the number of the file's first row.
	RowIDs   bool  `json:"row_ids,omitempty"`
	FirstRow int64 `json:"first_row,omitempty"`

	// OwnerSeparator as in [Options].
	OwnerSeparator string `json:"owner_separator,omitempty"`
	// AsIs says that strings were asked for: they are kept as they are written, and integers are read
	// as their digits.
	AsIs bool `json:"as_is,omitempty"`
	// Number is the file's number in the graph, from 1.
	Number int `json:"number,omitempty"`

	// One of these says what the format needs to know, such as the columns.
	Table   *tablePart   `json:"table,omitempty"`
	Parquet *parquetPart `json:"parquet,omitempty"`
}

var errTooMany = errors.New("too many faults")

// Read gives the edges of the split in the order of the file, in batches of about [BatchEdges].
// The batch is reused: emit must not keep it. On a fault, Read goes on to look for more, up to
// [MaxFaults], and returns them joined; edges that follow the first fault are not emitted, and
// the edges emitted before must not be used. An error of emit is returned as it is. A nil fs is
// [Files].
func (s *Split) Read(ctx context.Context, fs FS, emit func(*Batch) error) error {
	if fs == nil {
		fs = Files{}
	}
	f, err := fs.Open(ctx, s.Path)
	if err != nil {
		return &Fault{File: s.Name, Number: s.Number, Err: err}
	}
	if fault := s.unchanged(f); fault != nil {
		return errors.Join(fault, f.Close())
	}
	b := newBatcher(ctx, s, emit)
	err = s.part().read(s, f, b)
	if joined := b.joined.end(); joined != nil && err == nil {
		err = b.fault(joined)
	}
	if err == nil {
		err = b.flush()
	}
	if err == errTooMany {
		err = nil
	}
	if fault := s.unchanged(f); fault != nil { // and everything read is worth nothing, faults included
		return errors.Join(fault, f.Close())
	}
	return errors.Join(errors.Join(b.faults...), err, f.Close())
}

// part returns what says how to read the file.
func (s *Split) part() part {
	if s.Parquet != nil {
		return s.Parquet
	}
	return s.Table
}

// unchanged returns a fault if the file was changed since the graph was opened.
func (s *Split) unchanged(f File) error {
	switch stamp, err := f.Stamp(); {
	case err != nil:
		return &Fault{File: s.Name, Number: s.Number, Err: err}
	case stamp != s.Stamp:
		return &Fault{
			File:   s.Name,
			Number: s.Number,
			Found:  "the file was changed while it was read",
			Rule:   "wait until nothing writes to it, and repeat the command",
		}
	}
	return nil
}

const ownerlessRule = "every example needs an owner, or set --skip-ownerless"

// rows counts the rows of the file.
func (s *Split) rows(ctx context.Context, fs FS) (int64, error) {
	f, err := fs.Open(ctx, s.Path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return s.part().rows(f)
}

// fileDigest is the SHA-256 of the whole file.
func (s *Split) fileDigest(ctx context.Context, fs FS) ([]byte, error) {
	f, err := fs.Open(ctx, s.Path)
	if err != nil {
		return nil, &Fault{File: s.Name, Number: s.Number, Err: err}
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, f.Size())); err != nil {
		return nil, &Fault{File: s.Name, Number: s.Number, Err: cause(err)}
	}
	return sum.Sum(nil), s.unchanged(f)
}
