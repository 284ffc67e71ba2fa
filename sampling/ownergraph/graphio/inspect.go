package graphio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"minsep/internal/store"
	"minsep/internal/words"
	"minsep/sampling/ownergraph"
)

// idType is the type of a column as far as the file tells it.
type idType struct {
	known bool // there was a record, or a schema
	fixed bool // the format decides, not the option or the first record
	t     ownergraph.IDType
}

// inspected is a file that Open has looked at.
type inspected struct {
	split          Split // of the whole file
	size           int64
	example, owner idType
	groups         []int64 // bytes of each row group of a Parquet file
	records        bool
}

// inspect finds out how to read a file.
func inspect(ctx context.Context, name string, number int, o *Options) (*inspected, *Fault) {
	fail := func(found, rule string) (*inspected, *Fault) {
		return nil, &Fault{File: name, Found: found, Rule: rule}
	}
	f, err := o.fs().Open(ctx, name)
	if errors.Is(err, store.ErrNotRegular) {
		return fail("not a regular file", "copy it into one, or give - and have it on standard input")
	}
	if err != nil {
		return nil, &Fault{File: name, Err: err}
	}
	defer f.Close()
	stamp, err := f.Stamp() // before anything is read
	if err != nil {
		return nil, &Fault{File: name, Err: err}
	}
	magic, err := sniff(f)
	if err != nil {
		return nil, &Fault{File: name, Err: err}
	}
	format, compression := byName(name)
	if o.Format != "" && o.Format != Auto {
		format = o.Format
	} else if format == "" && magic == Parquet {
		format = Parquet
	}
	switch {
	case format == "":
		return fail("the name does not tell the format", "use .csv, .tsv, .ndjson or .parquet, or set --format; a table of another program is written as CSV first")
	case format == Parquet && magic != Parquet:
		return fail("not a Parquet file", "it must begin with PAR1 and not be compressed as a whole; of a text, set --format csv, tsv or ndjson")
	case format != Parquet && magic == Parquet:
		return fail("a Parquet file", "its name or --format says "+format+": set --format parquet")
	case format != Parquet && compression != "" && compression != magic:
		return fail("not a "+compression+" file", "its name says that it is one")
	}
	in := &inspected{size: f.Size(), split: Split{Path: name, Number: number, Stamp: stamp, Format: format, SingleOwner: o.SingleOwner, SkipOwnerless: o.SkipOwnerless}}
	fault := in.folders(o)
	if fault != nil {
		fault.File = name
		return nil, fault
	}
	if format == Parquet {
		fault = in.parquet(f, o)
	} else {
		in.split.Compression = magic
		fault = in.text(f, o)
	}
	if fault != nil {
		fault.File = name
		return nil, fault
	}
	return in, nil
}

// text looks at the first records of a text file.
func (in *inspected) text(f File, o *Options) *Fault {
	s := &in.split
	r, err := decompress(f, s.Compression)
	if err != nil {
		return &Fault{Err: err}
	}
	defer r.Close()
	l := newLines(r, 0, min(f.Size(), 1<<14))
	if s.Format == NDJSON {
		return in.json(l, o)
	}
	s.Delimiter = o.Delimiter
	if s.Delimiter == "" {
		s.Delimiter = map[string]string{CSV: ",", TSV: "\t"}[s.Format]
	}
	t := &table{lines: l, delim: s.Delimiter[0], quotes: s.Format == CSV}
	fields, line, err := in.record(t)
	if err == io.EOF {
		return nil // an empty file
	}
	if err != nil {
		return &Fault{Line: line, Err: err}
	}
	if bytes.IndexByte(slices.Concat(fields...), 0) >= 0 || bytes.HasPrefix(fields[0], []byte("\xff\xfe")) || bytes.HasPrefix(fields[0], []byte("\xfe\xff")) {
		return &Fault{Line: line, Found: "NUL bytes or a UTF-16 mark", Rule: "text must be UTF-8 or another code without NUL"}
	}
	s.Fields = len(fields)
	if f := in.columns(fields, o); f != nil {
		f.Line = line
		in.explain(f, fields, t, o)
		return f
	}
	if s.Header {
		if fields, line, err = in.record(t); err == io.EOF {
			return nil
		} else if err != nil {
			return &Fault{Line: line, Err: err}
		}
	}
	if len(fields) != s.Fields {
		return &Fault{Line: line, Found: words.Count(len(fields), "field"), Rule: fmt.Sprintf("must be %d, as in the header", s.Fields)}
	}
	in.records = true
	if s.FolderExample == "" {
		if f := firstType(&in.example, fields[s.Example], o.ExampleType, fmt.Sprintf("column %d", s.Example+1)); f != nil {
			f.Line = line
			return f
		}
	}
	if !s.SingleOwner && s.FolderOwner == "" {
		if f := firstType(&in.owner, fields[s.Owner], o.OwnerType, fmt.Sprintf("column %d", s.Owner+1)); f != nil {
			f.Line = line
			return f
		}
	}
	return nil
}

// record reads a record and puts errors into words.
func (in *inspected) record(t *table) ([][]byte, int64, error) {
	fields, line, err := t.next()
	if err != nil && err != io.EOF && in.split.Compression != "" && t.lines.err == err {
		err = corrupt(err)
	}
	return fields, line, err
}

// firstType takes the type of a column from the first record.
func firstType(c *idType, field []byte, option, column string) *Fault {
	if option != "" && option != Auto {
		return nil // decided, and checked with all other records
	}
	t, k := textType(field)
	if k != fits {
		return &Fault{Column: column, Found: k.String(), Rule: k.rule(ownergraph.String)}
	}
	*c = idType{known: true, t: t}
	return nil
}

// columns finds the columns of CSV or TSV from the first record, and whether it is a header.
func (in *inspected) columns(first [][]byte, o *Options) *Fault {
	s := &in.split
	names := make([]string, len(first))
	for i, f := range first {
		names[i] = strings.TrimSpace(string(f))
	}
	find := func(wanted []string) int {
		return slices.IndexFunc(names, func(n string) bool { return slices.Contains(wanted, n) })
	}
	noExample, noOwner := s.FolderExample != "", s.FolderOwner != ""
	single := o.SingleOwner || len(first) == 1 && o.OwnerColumn == "" && !noExample && !noOwner
	s.SingleOwner = single
	s.Example, s.Owner = position(o.ExampleColumn), position(o.OwnerColumn)
	named := func(option string, at int) bool { return option != "" && at < 0 }
	header := o.Header
	if header == "" || header == Auto {
		switch {
		case s.Example < 0 && find(o.exampleNames()) >= 0, s.Owner < 0 && !single && find(o.ownerNames()) >= 0,
			named(o.ExampleColumn, s.Example) && !noExample, named(o.OwnerColumn, s.Owner) && !noOwner:
			header = "yes"
		default:
			header = "no"
		}
	}
	s.Header = header == "yes"
	if !s.Header {
		if (noExample || noOwner) && len(first) != 1 {
			return &Fault{Found: words.Count(len(first), "field") + " without a header", Rule: "where a folder says a column, a file of more than one column needs a header"}
		}
		if named(o.ExampleColumn, s.Example) && !noExample || named(o.OwnerColumn, s.Owner) && !noOwner {
			return &Fault{Found: "columns asked for by name", Rule: "without header they have positions only"}
		}
		s.Example = max(s.Example, 0)
		if noExample || s.Owner < 0 && s.Example == 1 {
			s.Owner = max(s.Owner, 0)
		} else if s.Owner < 0 {
			s.Owner = 1
		}
	}
	for _, c := range []struct {
		at     *int
		wanted []string
		unused bool
	}{{&s.Example, o.exampleNames(), noExample}, {&s.Owner, o.ownerNames(), single || noOwner}} {
		switch {
		case c.unused && !single && s.Header && find(c.wanted) >= 0:
			return inBoth(names[find(c.wanted)])
		case c.unused:
			*c.at = 0
			continue
		case *c.at < 0:
			*c.at = find(c.wanted)
			if *c.at >= 0 && slices.ContainsFunc(names[*c.at+1:], func(n string) bool { return slices.Contains(c.wanted, n) }) {
				return &Fault{Column: strings.Join(c.wanted, " or "), Found: "more than one such column in the header", Rule: "set --example-column and --owner-column"}
			}
		}
		if *c.at < 0 {
			return &Fault{Column: strings.Join(c.wanted, " or "), Found: "no such column in the header", Rule: "set --example-column and --owner-column"}
		}
		if *c.at >= len(first) {
			return &Fault{Column: fmt.Sprintf("column %d", *c.at+1), Found: "the first record has " + words.Count(len(first), "field"), Rule: "set --delimiter, --example-column or --owner-column"}
		}
	}
	if !single && !noExample && !noOwner && s.Example == s.Owner {
		return &Fault{Column: fmt.Sprintf("column %d", s.Example+1), Found: "examples and owners in one column", Rule: "set --example-column and --owner-column"}
	}
	if s.Header || o.SingleOwner && o.Header == "no" || !single && o.Header == "no" {
		return nil
	}
	if single && !o.SingleOwner {
		if _, k := parseInt(first[0]); k != fits {
			return &Fault{Found: "a first record of one field that is no integer", Rule: "head it example_id if this is a list of examples, or set --delimiter"}
		}
	}
	for _, at := range []int{s.Example, s.Owner} { // 0 if it is none of the file's
		_, k := parseInt(first[at])
		if _, err := strconv.ParseFloat(string(first[at]), 64); err == nil && k != fits {
			return &Fault{Column: fmt.Sprintf("column %d", at+1), Found: "a number that is no plain integer in the first record", Rule: "ids are integers or texts: write them as integers, or set --header no and --id-type string, which keeps them as they are"}
		}
		if k != fits {
			return &Fault{Found: "a first record that may be a header or not",
				Rule: "name the columns example_id and owner_id, or set --header yes or no, or --example-column and --owner-column"}
		}
	}
	return nil
}

// position returns the 0-based position that a column option gives, or -1 if it is empty or a name.
func position(option string) int {
	n, err := strconv.Atoi(option)
	if err != nil || n < 1 {
		return -1
	}
	return n - 1
}

// json looks at the first lines of NDJSON until the types are known.
func (in *inspected) json(l *lines, o *Options) *Fault {
	s := &in.split
	s.ExampleColumn, s.OwnerColumns = o.exampleNames()[0], o.ownerNames()
	if o.OwnerColumn == "" && !o.SingleOwner {
		s.OwnerColumns = []string{"owners", "owner_id"}
	}
	var examples, owners ownergraph.IDs
	j := s.newJSONLine(&examples, &owners)
	j.example.ask(asIs(o.ExampleType))
	j.owner.ask(asIs(o.OwnerType))
	for !in.records || !j.example.known && s.FolderExample == "" || !j.owner.known && !s.SingleOwner && s.FolderOwner == "" {
		text, err := l.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			if s.Compression != "" {
				err = corrupt(err)
			}
			return &Fault{Line: l.number + 1, Err: err}
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		examples.Reset(examples.Type)
		if f := j.parse(text); f != nil {
			return &Fault{Line: l.number, Column: f.column, Found: f.found, Rule: f.rule}
		}
		in.records = true
	}
	if s.FolderExample == "" {
		in.example = idType{j.example.known, true, examples.Type}
	}
	if s.FolderOwner == "" {
		in.owner = idType{j.owner.known, true, owners.Type}
	}
	return nil
}
