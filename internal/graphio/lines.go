package graphio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the greatest length of a line without its end, or of the fields of a record in quotes,
// in bytes. A file without line ends must not fill the memory.
const MaxLine = 64 << 20

var errLongLine = fmt.Errorf("a line of more than %d MiB", MaxLine>>20)

var errUTF16 = errors.New("NUL bytes or a UTF-16 mark: text must be UTF-8, which iconv -f UTF-16 -t UTF-8 writes of such a file")

// isUTF16 reports whether the first line of a text looks like UTF-16, which has a NUL byte beside each
// letter of ASCII. Read as bytes it would give ids that equal no id of another file.
func isUTF16(line []byte) bool {
	return bytes.IndexByte(line, 0) >= 0 || bytes.HasPrefix(line, []byte("\xff\xfe")) || bytes.HasPrefix(line, []byte("\xfe\xff"))
}

// lines gives the lines of a text, one at a time.
type lines struct {
	r      *bufio.Reader
	long   []byte // a line that is longer than the memory of r
	number int64  // lines given so far
	crLF   bool   // the line ended with "\r\n" in place of "\n"
}

const lineBuffer = 1 << 17

// next returns the next line without its end, "\n" or "\r\n". The last line need not have one; a
// "\r" there is dropped, as encoding/csv does, and so is a UTF-8 mark at the very beginning. The
// bytes are good until the next call. io.EOF says that there is none left.
func (l *lines) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		l.long = l.long[:0]
		for ; err == bufio.ErrBufferFull; line, err = l.r.ReadSlice('\n') {
			if l.long = append(l.long, line...); len(l.long) > MaxLine+1 { // the last byte may be of the line's end
				return nil, errLongLine
			}
		}
		l.long = append(l.long, line...)
		line = l.long
	}
	// A truncated file or a lost connection must not pass for the end of the text.
	if err != nil && (err != io.EOF || len(line) == 0) {
		return nil, err
	}
	return l.take(line)
}

// take moves past a line, and removes its end.
func (l *lines) take(line []byte) ([]byte, error) {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	if line, l.crLF = bytes.CutSuffix(line, []byte{'\r'}); len(line) > MaxLine {
		return nil, errLongLine
	}
	if l.number == 0 {
		if isUTF16(line) {
			return nil, errUTF16
		}
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	l.number++
	return line, nil
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// table gives the records of CSV or TSV.
type table struct {
	lines   *lines
	delim   byte
	fields  [][]byte // of the record
	scratch []byte   // text of a record with quotes
	ends    []int    // of its fields in scratch
}

const quotesRule = ": quotes are read as RFC 4180 says: a field with a quote in it stands in quotes, and has the quote twice"

var (
	errBareQuote = errors.New("a quote in a field that does not begin with one" + quotesRule)
	errQuote     = errors.New("a closing quote with text after it in its field" + quotesRule)
	errReturn    = errors.New("a carriage return in a field without quotes: if it ends lines, as on old Macs, write the file anew by tr '\\r' '\\n'; " +
		"if it is of a text, set the text in quotes")
	errUnclosed = errors.New("a quoted field without a closing quote" + quotesRule)
)

// next returns the fields of the next record and the number of its first line. Blank lines are
// passed over. The fields are good until the next call. After an error in the quotes, it goes on
// with the next line.
func (t *table) next() ([][]byte, int64, error) {
	for {
		line, err := t.lines.next()
		if err != nil {
			return nil, t.lines.number + 1, err
		}
		number := t.lines.number
		if len(line) == 0 {
			continue
		}
		t.fields = t.fields[:0]
		if bytes.IndexByte(line, '"') >= 0 {
			err := t.quoted(line)
			return t.fields, number, err
		}
		if bytes.IndexByte(line, '\r') >= 0 {
			return nil, number, errReturn
		}
		for {
			i := bytes.IndexByte(line, t.delim)
			if i < 0 {
				break
			}
			t.fields = append(t.fields, line[:i])
			line = line[i+1:]
		}
		t.fields = append(t.fields, line)
		return t.fields, number, nil
	}
}

// quoted reads a record that begins with line and has quotes in it, as encoding/csv reads it, but
// keeps line ends in a field as they are.
func (t *table) quoted(line []byte) error {
	t.scratch, t.ends = t.scratch[:0], t.ends[:0]
	for more := true; more; {
		var err error
		if len(line) > 0 && line[0] == '"' {
			line, more, err = t.quotedField(line[1:])
		} else {
			var field []byte
			field, line, more = bytes.Cut(line, []byte{t.delim})
			if bytes.IndexByte(field, '"') >= 0 {
				err = errBareQuote
			} else if bytes.IndexByte(field, '\r') >= 0 {
				err = errReturn
			}
			t.scratch = append(t.scratch, field...)
		}
		if err != nil {
			return err
		}
		t.ends = append(t.ends, len(t.scratch))
	}
	if len(t.scratch) > MaxLine {
		return errLongLine
	}
	start := 0
	for _, end := range t.ends {
		t.fields = append(t.fields, t.scratch[start:end])
		start = end
	}
	return nil
}

// quotedField reads the rest of a field after its opening quote, and returns the rest of the
// line and whether another field follows.
func (t *table) quotedField(line []byte) (rest []byte, more bool, err error) {
	for {
		i := bytes.IndexByte(line, '"')
		if i < 0 { // the field goes on in the next line
			t.scratch = append(t.scratch, line...)
			if t.lines.crLF {
				t.scratch = append(t.scratch, '\r')
			}
			t.scratch = append(t.scratch, '\n')
			if len(t.scratch) > MaxLine {
				return nil, false, errLongLine
			}
			if line, err = t.lines.next(); err == io.EOF {
				return nil, false, errUnclosed
			} else if err != nil {
				return nil, false, err
			}
			continue
		}
		t.scratch = append(t.scratch, line[:i]...)
		line = line[i+1:]
		switch {
		case len(line) == 0:
			return nil, false, nil
		case line[0] == t.delim:
			return line[1:], true, nil
		case line[0] != '"':
			return nil, false, errQuote
		}
		// Two quotes are one quote of the field.
		t.scratch = append(t.scratch, '"')
		line = line[1:]
	}
}
