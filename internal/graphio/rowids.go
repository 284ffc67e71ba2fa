package graphio

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"minsep/internal/idcolumn"
	"minsep/internal/ownergraph"
)

// errEnough ends the reading of a file of which enough was seen.
var errEnough = errors.New("enough was seen of the file")

// mostBegun is the number of files whose beginnings are looked at.
const mostBegun = 16

// restarts reports whether the example ids of several files begin with all integers from 0 or 1 on,
// as numbers of rows do that begin again in each file.
func (s *Source) restarts(ctx context.Context) bool {
	files := s.firsts()
	if len(files) < 2 || s.ExampleType != ownergraph.Int64 || files[0].lacksExamples() {
		return false
	}
	number := map[int64]int{}
	for _, first := range files[:min(mostBegun, len(files))] {
		var ids []int64
		err := first.Read(ctx, s.fs, func(b *Batch) error {
			for i := range b.Examples.Len() {
				ids = append(ids, b.Examples.Int(i))
			}
			return errEnough
		})
		if len(ids) == 0 || err != nil && !errors.Is(err, errEnough) { // a fault shows when the graph is read
			continue
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
		if n := len(ids); n > 1 && (ids[0] == 0 || ids[0] == 1) && ids[n-1]-ids[0] == int64(n-1) {
			number[ids[0]]++
		}
	}
	return number[0] > 1 || number[1] > 1
}

// numberRows sets the number of the first row of each split: of its file. Texts are one split each.
func numberRows(ctx context.Context, fs FS, splits []Split) error {
	next := int64(0)
	for i := range splits {
		s := &splits[i]
		if i > 0 && s.Path == splits[i-1].Path { // readers of Parquet count from the file's first row
			s.FirstRow = splits[i-1].FirstRow
			continue
		}
		s.FirstRow = next
		rows, err := s.rows(ctx, fs)
		if err != nil {
			return &Fault{File: s.Path, Number: s.Number, Err: err}
		}
		next += rows
	}
	return nil
}

// rows counts the rows of the split's file.
func (s *Split) rows(ctx context.Context, fs FS) (int64, error) {
	of, err := s.part()
	if err != nil {
		return 0, err
	}
	f, err := fs.Open(ctx, s.Path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return of.rows(f)
}

// rows counts the records. A fault ends the count: it shows when the graph is read.
func (t *tablePart) rows(f File) (n int64, err error) {
	l, end, fault := t.begin(f)
	if fault != nil {
		return 0, fault
	}
	defer end()
	records := &table{lines: l, delim: t.Delimiter[0]}
	if t.Header {
		n = -1
	}
	for {
		if _, _, err := records.next(); err != nil {
			return max(n, 0), nil
		}
		n++
	}
}

// rows counts the objects. A fault ends the count: it shows when the graph is read.
func (p *jsonPart) rows(f File) (n int64, err error) {
	l, end, fault := p.begin(f)
	if fault != nil {
		return 0, fault
	}
	defer end()
	for {
		text, err := l.next()
		if err != nil {
			return n, nil
		}
		if len(bytes.TrimSpace(text)) > 0 {
			n++
		}
	}
}

// rows returns the number of rows, as the footer has it.
func (p *parquetPart) rows(f File) (int64, error) {
	file, err := idcolumn.Open(f, f.Size())
	if err != nil {
		return 0, err
	}
	return file.NumRows(), nil
}
