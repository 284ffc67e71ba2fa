package graphio

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"minsep/internal/words"
)

// csvFormat is of text with commas, and quotes as RFC 4180 has them.
var csvFormat = format{
	name:       CSV,
	title:      "CSV",
	extensions: []string{".csv"},
	look: func(in *inspected, f File, o *Options) *Fault {
		return in.table(&tablePart{Delimiter: ","}, "commas", f, o)
	},
}

// tsvFormat is of text with tabs, and the same quotes.
var tsvFormat = format{
	name:       TSV,
	title:      "TSV",
	extensions: []string{".tsv", ".tab", ".txt"},
	look: func(in *inspected, f File, o *Options) *Fault {
		return in.table(&tablePart{Delimiter: "\t"}, "tabs", f, o)
	},
}

// tablePart is a table in text, and the shape of its records.
type tablePart struct {
	Compression string `json:"compression,omitempty"` // "gzip", "zstd" or none
	Delimiter   string `json:"delimiter"`             // one byte
	Fields      int    `json:"fields,omitempty"`      // of a record, at least 1; 0 of a file without any
	Header      bool   `json:"header,omitempty"`      // the file's first record is one
	Example     int    `json:"example,omitempty"`     // 0-based positions
	Owner       int    `json:"owner,omitempty"`       // 0-based position
	// Names are names that the two columns have, or would have, in a header.
	Names [2][]string `json:"names"`
}

// table looks at the first records of a table; between is the name of its delimiters.
func (in *inspected) table(t *tablePart, between string, f File, o *Options) *Fault {
	s := &in.split
	s.Table, t.Compression = t, in.compression
	if o.Delimiter != "" {
		t.Delimiter = o.Delimiter
	}
	records, end, fault := t.begin(f)
	if fault != nil {
		return fault
	}
	defer end()
	fields, line, err := records.next()
	if err == io.EOF {
		return nil // an empty file
	}
	if err != nil {
		return &Fault{Line: line, Err: err}
	}
	t.Fields = len(fields)
	if f := in.columns(t, fields, o); f != nil {
		f.Line = line
		in.explain(f, between, fields, records, o)
		return f
	}
	t.Names = [2][]string{o.exampleNames(), o.ownerNames()}
	in.header = t.Header
	if t.Header {
		t.Names = [2][]string{
			{strings.TrimSpace(string(fields[t.Example]))},
			{strings.TrimSpace(string(fields[t.Owner]))},
		}
	}
	if !t.Header && t.isHeader(s, fields) {
		return &Fault{
			Line:  line,
			Found: "a header, and --header no",
			Rule:  "leave --header out, or set it to yes",
		}
	}
	for first := !t.Header; !first || t.isOwnerless(s, fields); first = true {
		if fields, line, err = records.next(); err == io.EOF {
			return nil
		} else if err != nil {
			return &Fault{Line: line, Err: err}
		}
		if len(fields) != t.Fields {
			return &Fault{
				Line:  line,
				Found: words.Count(len(fields), "field"),
				Rule:  fmt.Sprintf("must be %d, as in the first record", t.Fields),
			}
		}
	}
	in.records = true
	if !s.RowIDs {
		if f := firstType(&in.example, fields[t.Example], o.IDType, fmt.Sprintf("column %d", t.Example+1)); f != nil {
			f.Line = line
			return f
		}
	}
	if !s.SingleOwner {
		var first []byte // none if the record has no owners, which is a fault when it is read
		if owners := s.owners(nil, fields[t.Owner]); len(owners) > 0 {
			first = owners[0]
		}
		if f := firstType(&in.owner, first, o.IDType, fmt.Sprintf("column %d", t.Owner+1)); f != nil {
			f.Line = line
			return f
		}
	}
	return nil
}

// columns finds the columns of CSV or TSV from the first record, and whether it is a header.
func (in *inspected) columns(t *tablePart, first [][]byte, o *Options) *Fault {
	s := &in.split
	names := make([]string, len(first))
	for i, f := range first {
		names[i] = strings.TrimSpace(string(f))
	}
	find := func(wanted []string) int {
		return slices.IndexFunc(names, func(n string) bool { return slices.Contains(wanted, n) })
	}
	single := o.SingleOwner || len(first) == 1 && o.OwnerColumn == "" && !s.RowIDs
	s.SingleOwner = single
	t.Example, t.Owner = position(o.ExampleColumn), position(o.OwnerColumn)
	named := func(option string, at int) bool { return option != "" && at < 0 }
	// A first record with a name that is looked for is a header. Whether another one is a header is
	// asked below, where it matters: an id of integers cannot be one.
	header := o.Header
	if header == "" || header == Auto {
		switch {
		case t.Example < 0 && find(o.exampleNames()) >= 0, t.Owner < 0 && !single && find(o.ownerNames()) >= 0,
			named(o.ExampleColumn, t.Example) && !s.RowIDs, named(o.OwnerColumn, t.Owner):
			header = "yes"
		default:
			header = "no"
		}
	}
	t.Header = header == "yes"
	if !t.Header {
		if s.RowIDs && len(first) != 1 {
			return &Fault{
				Found: words.Count(len(first), "field") + " without a header",
				Rule:  "with --row-ids a file with several columns needs a header",
			}
		}
		if named(o.ExampleColumn, t.Example) && !s.RowIDs || named(o.OwnerColumn, t.Owner) {
			return &Fault{
				Found: "columns given by name in a file without a header",
				Rule:  "give their positions, counted from 1",
			}
		}
		t.byPosition(s.RowIDs)
	}
	for _, c := range []struct {
		at     *int
		wanted []string
		unused bool
	}{{&t.Example, o.exampleNames(), s.RowIDs}, {&t.Owner, o.ownerNames(), single}} {
		switch {
		case c.unused:
			*c.at = 0
			continue
		case *c.at < 0:
			*c.at = find(c.wanted)
			if *c.at >= 0 &&
				slices.ContainsFunc(names[*c.at+1:], func(n string) bool { return slices.Contains(c.wanted, n) }) {
				return &Fault{
					Column: strings.Join(c.wanted, " or "),
					Found:  "more than one such column in the header",
					Rule:   "set --example-column and --owner-column",
				}
			}
		}
		if *c.at < 0 {
			return &Fault{
				Column: strings.Join(c.wanted, " or "),
				Found:  "no such column in the header",
				Rule:   "set --example-column and --owner-column",
			}
		}
		if *c.at >= len(first) {
			return &Fault{
				Column: fmt.Sprintf("column %d", *c.at+1),
				Found:  "the first record has " + words.Count(len(first), "field"),
				Rule:   "set --delimiter, --example-column or --owner-column",
			}
		}
	}
	if !single && !s.RowIDs && t.Example == t.Owner {
		return &Fault{
			Column: fmt.Sprintf("column %d", t.Example+1),
			Found:  "examples and owners in one column",
			Rule:   "set --example-column and --owner-column",
		}
	}
	if t.Header || o.SingleOwner && o.Header == "no" || !single && o.Header == "no" {
		return nil
	}
	return t.noHeader(first, single && !o.SingleOwner)
}

// byPosition sets the columns of a file without a header that no option names: examples come first,
// and owners take the other one, if only one is given.
func (t *tablePart) byPosition(noExample bool) {
	t.Example = max(t.Example, 0)
	if noExample || t.Owner < 0 && t.Example == 1 {
		t.Owner = max(t.Owner, 0)
	} else if t.Owner < 0 {
		t.Owner = 1
	}
}

// noHeader refuses a first record that may be a header. alone says that a file of one column is
// taken for a list of examples, each with an owner of its own.
func (t *tablePart) noHeader(first [][]byte, alone bool) *Fault {
	// A file of one column may be a list of examples, or edges with another delimiter. Edges that
	// are taken for a list would each have an owner of its own, and nobody would be bounded.
	if alone {
		if _, k := parseInt(first[0]); k != fits {
			return &Fault{
				Found: "a first record of one field that is no integer",
				Rule:  "for a list of examples, begin the file with the header example_id; for columns, set --delimiter",
			}
		}
	}
	for _, at := range []int{t.Example, t.Owner} { // 0 if it is none of the file's
		_, k := parseInt(first[at])
		// 1e6 or 007 is not taken for a header: the first edge would be lost.
		if _, err := strconv.ParseFloat(string(first[at]), 64); err == nil && k != fits {
			return &Fault{
				Column: fmt.Sprintf("column %d", at+1),
				Found:  "a number that is no plain integer in the first record",
				Rule:   "ids are integers or texts: write them as integers, or set --header no and --id-type string, which keeps them as they are",
			}
		}
		if k != fits {
			return &Fault{
				Found: "a first record that may be a header or not",
				Rule:  "name the columns example_id and owner_id, or set --header yes or no, or --example-column and --owner-column",
			}
		}
	}
	return nil
}

// begin begins to read the records.
func (t *tablePart) begin(f File) (records *table, end func(), fault *Fault) {
	r, err := decompress(f, t.Compression)
	if err != nil {
		return nil, nil, &Fault{Err: err}
	}
	l := &lines{r: bufio.NewReaderSize(r, lineBuffer)}
	return &table{lines: l, delim: t.Delimiter[0]}, func() { r.Close() }, nil
}

func (t *tablePart) read(s *Split, f File, b *batcher) error {
	records, end, fault := t.begin(f)
	if fault != nil {
		return b.fault(fault)
	}
	defer end()
	header := t.Header
	for {
		fields, line, err := records.next()
		switch {
		case err == errBareQuote || err == errQuote || err == errReturn:
			if err := b.fault(&Fault{Line: line, Err: err}); err != nil {
				return err
			}
			continue
		case err == errUnclosed: // where the next record begins cannot be known
			return b.fault(&Fault{Line: line, Err: err})
		case err == io.EOF:
			return nil
		case err != nil:
			return b.fault(&Fault{Line: line, Err: err})
		case header:
			header = false
			continue
		}
		if f := t.appendRecord(s, fields, line, b); f != nil {
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

// isOwnerless reports whether a record has no owner, and is to be left out.
func (t *tablePart) isOwnerless(s *Split, fields [][]byte) bool {
	if !s.SkipOwnerless || s.SingleOwner || len(fields) != t.Fields {
		return false
	}
	return len(s.owners(nil, fields[t.Owner])) == 0
}

// isHeader reports whether a record has names of the columns. In another file of those put together
// they may stand the other way round.
func (t *tablePart) isHeader(s *Split, fields [][]byte) bool {
	isName := func(at int) bool {
		field := bytes.TrimSpace(fields[at])
		if len(field) == 0 || field[0] <= '9' { // as no usual name, and most ids
			return false
		}
		is := func(name string) bool { return len(name) == len(field) && strings.EqualFold(name, string(field)) }
		return slices.ContainsFunc(t.Names[0], is) || slices.ContainsFunc(t.Names[1], is)
	}
	// A column that the file lacks has no name in it.
	return (s.RowIDs || isName(t.Example)) && (s.SingleOwner || isName(t.Owner))
}

// appendRecord adds the edge of a record to the batch.
func (t *tablePart) appendRecord(s *Split, fields [][]byte, line int64, b *batcher) *Fault {
	// A record with other fields is often an id with the delimiter in it: its columns are
	// displaced.
	if len(fields) != t.Fields {
		return &Fault{
			Found: words.Count(len(fields), "field"),
			Rule:  fmt.Sprintf("must be %d, as in the first record", t.Fields),
		}
	}
	const rule = "files were put one after another: give each to --graph, or remove it"
	if bytes.HasPrefix(fields[0], byteOrderMark) || bytes.HasPrefix(fields[t.Example], byteOrderMark) ||
		bytes.HasPrefix(fields[t.Owner], byteOrderMark) {
		return &Fault{Found: "a byte order mark in the middle of the file", Rule: rule}
	}
	if t.isHeader(s, fields) {
		return &Fault{Found: "a header in the middle of the file", Rule: rule}
	}
	b.owners = b.owners[:0]
	if !s.SingleOwner {
		b.owners = s.owners(b.owners, fields[t.Owner])
	}
	return b.appendRow(fields[t.Example], b.owners, func(column int) *Fault {
		return &Fault{Line: line, Column: fmt.Sprintf("column %d", [2]int{t.Example, t.Owner}[column]+1)}
	})
}

// rows counts the records. A fault ends the count: it shows when the graph is read.
func (t *tablePart) rows(f File) (int64, error) {
	records, end, fault := t.begin(f)
	if fault != nil {
		return 0, fault
	}
	defer end()
	n := int64(0)
	if t.Header {
		n--
	}
	for {
		if _, _, err := records.next(); err != nil {
			return max(n, 0), nil
		}
		n++
	}
}
