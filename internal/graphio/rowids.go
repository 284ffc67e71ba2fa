package graphio

import (
	"bytes"
	"context"
	"errors"

	"minsep/internal/idcolumn"
)

// errEnough ends the reading of a file of which enough was seen.
var errEnough = errors.New("enough was seen of the file")

// mostBegun is the number of files whose beginnings are looked at.
const mostBegun = 16

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
