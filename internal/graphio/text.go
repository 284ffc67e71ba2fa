package graphio

import (
	"io"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
)

// textPart has the lines of a text that begin in the bytes From to To; To is 0 for all.
type textPart struct {
	Compression string `json:"compression,omitempty"` // "gzip", "zstd" or none
	Encoding    string `json:"encoding,omitempty"`    // a key of encodings, or none for UTF-8
	From        int64  `json:"from,omitempty"`
	To          int64  `json:"to,omitempty"` // in bytes
}

// readBytes returns the size: a text is read whole.
func (t *textPart) readBytes(size int64) int64 { return size }

// begin begins to read the lines.
func (t *textPart) begin(f File) (l *lines, end func(), fault *Fault) {
	r, err := decompress(f, t.Compression)
	if err != nil {
		return nil, nil, &Fault{Err: err}
	}
	if t.From == 0 {
		l = newLines(r, 0, t.length(f))
	} else {
		// The line that goes on at From began before it. One that begins at From does not: hence
		// the byte before.
		l = newLines(io.NewSectionReader(f, t.From-1, f.Size()-t.From+1), t.From-1, t.length(f))
		if _, err := l.next(); err != nil && err != io.EOF {
			return nil, nil, &Fault{Line: 1, Err: err}
		}
		l.number = 0
	}
	l.to, l.charset = t.To, decoderOf(t.Encoding)
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

// ranges divides a text: one range, which is everything, if it is small or compressed, or if its rows
// are numbered.
func (t *textPart) ranges(in *inspected, o *Options) (list []textPart) {
	size, most := in.size, o.splitBytes()
	if t.Compression != "" || size <= most || o.RowIDs {
		return []textPart{*t}
	}
	for from := int64(0); from < size; from += most {
		list = append(list, textPart{Encoding: t.Encoding, From: from, To: min(from+most, size)})
	}
	return list
}

// eachOf reads the lines.
func (t *textPart) eachOf(f File, b *batcher, read func(l *lines) error) error {
	l, end, fault := t.begin(f)
	if fault != nil {
		return b.fault(fault)
	}
	defer end()
	if t.From > 0 {
		b.before = l.offset
	}
	return read(l)
}

// length returns about the number of bytes that are read.
func (t *textPart) length(f File) int64 {
	switch {
	case t.Compression != "":
		return lineBuffer
	case t.To > 0:
		return t.To - t.From
	}
	return f.Size()
}

// end handles an error of reading lines: nil at the end of the text, else a fault.
func (b *batcher) end(err error, line int64) error {
	if err == io.EOF {
		return nil
	}
	return b.fault(&Fault{Line: line, Err: err})
}
