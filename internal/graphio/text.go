package graphio

import (
	"bufio"
	"io"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
)

// textPart says how to read the lines of a text.
type textPart struct {
	Compression string `json:"compression,omitempty"` // "gzip", "zstd" or none
	Encoding    string `json:"encoding,omitempty"`    // a key of encodings, or none for UTF-8
}

// begin begins to read the lines.
func (t *textPart) begin(f File) (l *lines, end func(), fault *Fault) {
	r, err := decompress(f, t.Compression)
	if err != nil {
		return nil, nil, &Fault{Err: err}
	}
	l = &lines{r: bufio.NewReaderSize(r, lineBuffer), charset: decoderOf(t.Encoding)}
	return l, func() { r.Close() }, nil
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

// encodings are the encodings of text besides UTF-8. Each byte is one character in them.
var encodings = map[string]*charmap.Charmap{"latin1": charmap.ISO8859_1, "cp1252": charmap.Windows1252}

// decoderOf returns a decoder into UTF-8; nil for UTF-8 itself.
func decoderOf(name string) *encoding.Decoder {
	if from := encodings[name]; from != nil {
		return from.NewDecoder()
	}
	return nil
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
