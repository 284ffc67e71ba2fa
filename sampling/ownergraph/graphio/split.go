package graphio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"minsep/internal/words"
	"minsep/sampling/ownergraph"
)

// Split is a unit of work: a part of one file and all that is needed to read it. It travels as
// JSON, and needs only that the file can be opened under the same path where it is read. If the
// file is another one by then, or changes while it is read, that is a fault: a copy on another
// machine must have the same time of last change.
type Split struct {
	Path        string            `json:"path"`                   // of the file
	Stamp       string            `json:"stamp,omitempty"`        // of the file as Open saw it: see [File]
	Format      string            `json:"format"`                 // "csv", "tsv", "ndjson" or "parquet"
	Compression string            `json:"compression,omitempty"`  // "gzip", "zstd" or none
	ExampleType ownergraph.IDType `json:"example_type"`           // to which example ids are read
	OwnerType   ownergraph.IDType `json:"owner_type"`             // to which owner ids are read
	SingleOwner bool              `json:"single_owner,omitempty"` // each example is its own owner
	// SkipOwnerless as in [Options].
	SkipOwnerless bool `json:"skip_ownerless,omitempty"`

	// Text: the lines that begin in the bytes From to To; To is 0 for all.
	From int64 `json:"from,omitempty"`
	To   int64 `json:"to,omitempty"` // in bytes

	// CSV and TSV: the shape of a record.
	Delimiter string `json:"delimiter,omitempty"` // one byte
	Fields    int    `json:"fields,omitempty"`    // fields of a record, at least 1
	Header    bool   `json:"header,omitempty"`    // the file's first record is one
	NoQuotes  bool   `json:"no_quotes,omitempty"` // there is no quote in the file, so that parts of it can be read
	Example   int    `json:"example,omitempty"`   // 0-based positions
	Owner     int    `json:"owner,omitempty"`     // 0-based position

	// The example or the owner of all records, from the name of a folder; "" if no folder names
	// it.
	FolderExample string `json:"folder_example,omitempty"`
	FolderOwner   string `json:"folder_owner,omitempty"`
	// Strings that were asked for by name are kept as they are written, and integers are read as
	// their digits.
	ExampleAsIs bool `json:"example_as_is,omitempty"`
	OwnerAsIs   bool `json:"owner_as_is,omitempty"`
	// Number is the file's number in the graph, from 1.
	Number int `json:"number,omitempty"`

	// NDJSON and Parquet: the columns by name. NDJSON may have one of several names for the owners.
	ExampleColumn string   `json:"example_column,omitempty"` // its name
	OwnerColumns  []string `json:"owner_columns,omitempty"`  // names; one of them is there

	// Parquet: row groups FirstRowGroup (0-based) and on.
	FirstRowGroup int `json:"first_row_group,omitempty"`
	RowGroups     int `json:"row_groups,omitempty"` // how many; 0 for none
}

var errTooMany = errors.New("graphio: too many faults")

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
		return &Fault{File: s.Path, Number: s.Number, Err: err}
	}
	if fault := s.unchanged(f); fault != nil {
		return errors.Join(fault, f.Close())
	}
	b := newBatcher(ctx, s, f.Size(), emit)
	if fault := b.takeFolder(); fault != nil {
		err = b.fault(fault)
	} else if s.Format == Parquet {
		err = s.readParquet(f, b)
	} else {
		err = s.readText(f, b)
	}
	b.settle()
	b.countFrom(f)
	if err == nil {
		err = b.finish()
	}
	if err == errTooMany {
		err = nil
	}
	if fault := s.unchanged(f); fault != nil { // and everything read is worth nothing, faults included
		return errors.Join(fault, f.Close())
	}
	return errors.Join(b.err(), err, f.Close())
}

// unchanged says whether the file is as it was when the graph was opened.
func (s *Split) unchanged(f File) error {
	switch stamp, err := f.Stamp(); {
	case err != nil:
		return &Fault{File: s.Path, Number: s.Number, Err: err}
	case stamp != s.Stamp:
		return &Fault{File: s.Path, Number: s.Number, Found: "the file was changed while it was read", Rule: "wait until nothing writes to it, and repeat the command"}
	}
	return nil
}

// countFrom turns line numbers within the split into line numbers of the file.
func (b *batcher) countFrom(f File) {
	if len(b.list)+len(b.noted) == 0 || b.before == 0 {
		return
	}
	lines := int64(0)
	buf := make([]byte, lineBuffer)
	for at := int64(0); at < b.before; {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), b.before-at)], at)
		lines += int64(bytes.Count(buf[:n], []byte{'\n'}))
		at += int64(n)
		if err != nil {
			break
		}
	}
	for _, err := range b.list {
		if fault := err.(*Fault); fault.Line > 0 {
			fault.Line += lines
		}
	}
	for _, warning := range b.noted {
		warning.Line += lines
	}
}

// readText reads the lines of a split.
func (s *Split) readText(f File, b *batcher) error {
	in, err := decompress(f, s.Compression)
	if err != nil {
		return b.fault(&Fault{Err: err})
	}
	defer in.Close()
	var l *lines
	if s.From == 0 {
		l = newLines(in, 0, s.length(f))
	} else {
		// The line that goes on at From began before it. One that begins at From does not: hence
		// the byte before.
		l = newLines(io.NewSectionReader(f, s.From-1, f.Size()-s.From+1), s.From-1, s.length(f))
		if _, err := l.next(); err != nil && err != io.EOF {
			return b.fault(&Fault{Line: 1, Err: err})
		}
		b.before, l.number = l.offset, 0
	}
	l.to = s.To
	if s.Format == NDJSON {
		return s.readJSON(l, b)
	}
	return s.readTable(l, b)
}

// length is about how many bytes the split reads.
func (s *Split) length(f File) int64 {
	switch {
	case s.Compression != "":
		return lineBuffer
	case s.To > 0:
		return s.To - s.From
	}
	return f.Size()
}

// textEnd handles an error of reading lines: nil at the end of the text, else a fault.
func (s *Split) textEnd(b *batcher, err error, line int64) error {
	switch {
	case err == io.EOF:
		return nil
	case err == errDense:
		if f := denseText(b.size); b.fault(f) != nil {
			return errTooMany
		}
		return nil
	case err != errLongLine && s.Compression != "":
		err = corrupt(err)
	}
	if b.fault(&Fault{Line: line, Err: err}) != nil {
		return errTooMany
	}
	return nil
}

// readTable reads CSV or TSV.
func (s *Split) readTable(l *lines, b *batcher) error {
	t := &table{lines: l, delim: s.Delimiter[0], quotes: s.Format == CSV, part: s.NoQuotes}
	header := s.Header && s.From == 0
	for {
		fields, line, err := t.next()
		switch {
		case err == errBareQuote || err == errQuote:
			if err := b.fault(&Fault{Line: line, Found: err.Error(), Rule: "CSV is read as RFC 4180 says"}); err != nil {
				return err
			}
			continue
		case err == errUnclosed:
			return b.fault(&Fault{Line: line, Found: err.Error(), Rule: "CSV is read as RFC 4180 says"})
		case err != nil:
			return s.textEnd(b, err, line)
		case header:
			header = false
			continue
		}
		if f := s.appendRecord(fields, line, b); f != nil {
			f.Line = line
			if err := b.fault(f); err != nil {
				return err
			}
		}
		if err := b.full(); err != nil {
			return err
		}
	}
}

// appendRecord adds the edge of a record to the batch.
func (s *Split) appendRecord(fields [][]byte, line int64, b *batcher) *Fault {
	if len(fields) != s.Fields {
		return &Fault{Found: words.Count(len(fields), "field"), Rule: fmt.Sprintf("must be %d, as in the first record", s.Fields)}
	}
	if s.FolderExample != "" {
		b.Examples.AppendFrom(&b.folder, 0)
	} else if f := b.appendField(&b.Examples, 0, fields, s.Example, s.ExampleAsIs, line); f != nil {
		return f
	}
	switch {
	case s.SingleOwner:
	case s.FolderOwner != "":
		b.Owners.AppendFrom(&b.folder, 0)
	default:
		return b.appendField(&b.Owners, 1, fields, s.Owner, s.OwnerAsIs, line)
	}
	return nil
}

// appendField adds a field of a record to a column (0 for examples).
func (b *batcher) appendField(dst *ownergraph.IDs, column int, fields [][]byte, at int, asIs bool, line int64) *Fault {
	name := func() string { return fmt.Sprintf("column %d", at+1) }
	k := appendText(dst, fields[at], asIs)
	if k != fits && (dst.Type != ownergraph.String || !k.isNumber()) {
		return &Fault{Column: name(), Found: k.String(), Rule: k.rule(dst.Type)}
	}
	if dst.Type == ownergraph.String && !asIs {
		b.spelled[column].count(fields[at], k, func() *Fault {
			return &Fault{Line: line, Column: name(), Found: k.String(), Rule: k.rule(dst.Type)}
		})
	}
	if k != fits {
		dst.AppendBytes(fields[at])
	}
	return nil
}

const ownerlessRule = "every example needs an owner, or set --skip-ownerless"

// readJSON reads NDJSON.
func (s *Split) readJSON(l *lines, b *batcher) error {
	var example ownergraph.IDs
	j := s.newJSONLine(&example, &b.Owners)
	j.example.known, j.example.asIs = true, s.ExampleAsIs
	j.owner.known, j.owner.asIs = true, s.OwnerAsIs
	j.example.spelled, j.owner.spelled = &b.spelled[0], &b.spelled[1]
	for {
		text, err := l.next()
		if err != nil {
			return s.textEnd(b, err, l.number+1)
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		example.Reset(s.ExampleType)
		fault := j.parse(text)
		for _, c := range []*jsonColumn{&j.example, &j.owner} {
			for _, odd := range c.odd {
				odd.Line = l.number
			}
			c.odd = c.odd[:0]
		}
		switch {
		case fault == nil && s.SingleOwner:
			j.owners = 1
		case fault == nil && s.FolderOwner != "":
			j.owners = 1
			b.Owners.AppendFrom(&b.folder, 0)
		case fault == nil && j.owners == 0 && s.SkipOwnerless:
			b.Ownerless++
		case fault == nil && j.owners == 0:
			fault = &jsonFault{s.OwnerColumns[0], "an example without owners", ownerlessRule}
		}
		if fault != nil {
			if err := b.fault(&Fault{Line: l.number, Column: fault.column, Found: fault.found, Rule: fault.rule}); err != nil {
				return err
			}
			continue
		}
		if s.FolderExample != "" {
			example.AppendFrom(&b.folder, 0)
		}
		for range j.owners {
			b.Examples.AppendFrom(&example, 0)
		}
		if err := b.full(); err != nil {
			return err
		}
	}
}
