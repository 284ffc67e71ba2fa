package graphio

import (
	"bufio"
	"io"
)

// textPart says how to read the lines of a text.
type textPart struct {
	Compression string `json:"compression,omitempty"` // "gzip", "zstd" or none
}

// begin begins to read the lines.
func (t *textPart) begin(f File) (l *lines, end func(), fault *Fault) {
	r, err := decompress(f, t.Compression)
	if err != nil {
		return nil, nil, &Fault{Err: err}
	}
	return &lines{r: bufio.NewReaderSize(r, lineBuffer)}, func() { r.Close() }, nil
}

// count counts the records that next goes through. A fault ends the count: it shows when the graph is
// read.
func (t *textPart) count(f File, next func(*lines) func() error) (n int64, err error) {
	l, end, fault := t.begin(f)
	if fault != nil {
		return 0, fault
	}
	defer end()
	for record := next(l); record() == nil; {
		n++
	}
	return n, nil
}

// eachOf reads the lines.
func (t *textPart) eachOf(f File, b *batcher, read func(l *lines) error) error {
	l, end, fault := t.begin(f)
	if fault != nil {
		return b.fault(fault)
	}
	defer end()
	return read(l)
}

// end handles an error of reading lines: nil at the end of the text, else a fault.
func (b *batcher) end(err error, line int64) error {
	if err == io.EOF {
		return nil
	}
	return b.fault(&Fault{Line: line, Err: err})
}
