// Package printable keeps text that somebody else wrote, such as names of files and messages of
// servers, from doing anything on a terminal or a page but to be read. Characters that are not
// shown as themselves (control characters, marks that change the direction of writing, bytes that
// are no UTF-8) become escapes as in Go: \x1b, \u202e.
package printable

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns a text of one line: escapes stand for ends of lines and tabs too.
func Line(text string) string { return escaped(text, "") }

// Text returns a text of any number of lines.
func Text(text string) string { return escaped(text, "\n\t") }

// Writer writes text to w as [Text] returns it. Each call of Write has whole characters.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ io.Writer }

func (w writer) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, Text(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// escaped returns text with escapes for runes that are not shown as themselves, but for the bytes
// in kept.
func escaped(text, kept string) string {
	var to []byte // nil as long as nothing has been escaped
	for i, size := 0, 0; i < len(text); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(text[i:])
		shown := unicode.IsGraphic(r) && (r != utf8.RuneError || size > 1) || strings.IndexByte(kept, text[i]) >= 0
		switch {
		case shown && to == nil:
			continue
		case shown:
			to = append(to, text[i:i+size]...)
			continue
		case to == nil:
			to = append(to, text[:i]...)
		}
		to = appendEscape(to, r, text[i])
	}
	if to == nil {
		return text
	}
	return string(to)
}

// appendEscape adds the escape of a character, or of a byte that begins none. The escape of a
// character that JSON allows in a string is one of JSON.
func appendEscape(to []byte, r rune, b byte) []byte {
	switch {
	case r < ' ' || r == utf8.RuneError:
		quoted := strconv.Quote(string([]byte{b}))
		return append(to, quoted[1:len(quoted)-1]...)
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(to, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(to, `\u%04x`, r)
}
