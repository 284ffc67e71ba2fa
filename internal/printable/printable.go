// Package printable makes untrusted text, such as names of files and messages of servers, safe to
// show on a terminal or a page. Characters that would do something else than appear (control
// characters, marks that change the direction of writing, bytes that are not UTF-8) become escapes
// as in Go: \x1b, \u202e.
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

// Line escapes text for a single line: line ends and tabs are escaped too.
func Line(text string) string { return escaped(text, "") }

// Text escapes text of any number of lines: line ends and tabs stay.
func Text(text string) string { return escaped(text, "\n\t") }

// Writer returns a writer that escapes as [Text] does. A call of Write must not split a character.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ io.Writer }

func (w writer) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, Text(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// escaped escapes the runes of text that do not show as themselves, except the bytes in kept.
func escaped(text, kept string) string {
	var to []byte // nil until something is escaped
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

// appendEscape appends the escape of a rune, or of the byte b if it begins no valid rune. Where
// JSON allows the rune in a string, the escape is also one of JSON.
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
