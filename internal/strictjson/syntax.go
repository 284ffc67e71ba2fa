package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Plain turns JSON with // comments and trailing commas into plain JSON. Both become spaces, so
// that every other byte keeps its offset and line. Only one comma after an element is forgiven.
func Plain(b []byte) []byte {
	b = bytes.Clone(b)
	comma := -1       // position of the last byte that is not a space, if it is a comma
	last := byte('[') // the last byte that is not a space, apart from that comma
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			comma, last = -1, c
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case c == '/' && i+1 < len(b) && b[i+1] == '/':
			for ; i < len(b) && b[i] != '\n'; i++ {
				b[i] = ' '
			}
		case c == ',':
			if comma >= 0 {
				last = c
			}
			comma = i
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		default:
			if (c == ']' || c == '}') && comma >= 0 && last != '[' && last != '{' && last != ',' && last != ':' {
				b[comma] = ' '
			}
			comma, last = -1, c
		}
	}
	return b
}

// Invalid returns the fault, with its line, of text that is not JSON; nil for valid JSON.
func Invalid(b []byte) error {
	if err := Foreign(b); err != nil {
		return err
	}
	var v any
	err := json.Unmarshal(b, &v)
	if s, ok := err.(*json.SyntaxError); ok && int(s.Offset) >= len(b) {
		if bracket, line := unclosed(b); line > 0 {
			return fmt.Errorf(
				"line %d: %w: the %c of line %d is not closed",
				1+bytes.Count(bytes.TrimSpace(b), []byte("\n")),
				err,
				bracket,
				line,
			)
		}
	}
	if s, ok := err.(*json.SyntaxError); ok {
		at := min(int(s.Offset), len(b))
		if comma := commaFault(b, at-1); comma != "" {
			return fmt.Errorf("line %d: %s", lineAt(b, at), comma)
		}
		return fmt.Errorf("line %d: %w", lineAt(b, at), err)
	}
	if !json.Valid(b) {
		return err
	}
	return nil
}

// lineAt returns the line of byte at, counted from 1.
func lineAt(b []byte, at int) int { return 1 + bytes.Count(b[:at], []byte("\n")) }

// commaFault names a missing or superfluous comma, or a similar slip, near the byte at which the
// JSON becomes invalid; "" if the text does not show one.
func commaFault(b []byte, at int) string {
	before := bytes.TrimSpace(b[:at])
	switch c := b[at]; {
	case len(before) == 0:
	case c == ',' && before[len(before)-1] == ',':
		return "one of the two commas must go"
	case c == ',' && json.Valid(before):
		return "the comma after the last bracket must go"
	case c == '\'':
		return "texts take double quotes"
	case c == '#':
		return "comments begin with //"
	case (c == '}' || c == ']') && before[len(before)-1] == ',':
		return fmt.Sprintf(
			"the comma at the end of line %d must go",
			lineAt(b, len(bytes.TrimRight(b[:at], " \t\r\n"))),
		)
	case (c == '"' || c == '{' || c == '[') && bytes.IndexByte([]byte(",:{["), before[len(before)-1]) < 0:
		return fmt.Sprintf("a comma is missing after line %d", lineAt(b, len(bytes.TrimRight(b[:at], " \t\r\n"))))
	}
	return ""
}

// unclosed returns the last bracket that is not closed in text that ends too early, and its line; 0
// if all are closed.
func unclosed(b []byte) (bracket byte, line int) {
	type open struct {
		bracket byte
		line    int
	}
	var stack []open
	at := 1
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\n':
			at++
		case '{', '[':
			stack = append(stack, open{b[i], at})
		case '}', ']':
			if len(stack) > 0 {
				stack = stack[:len(stack)-1]
			}
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		}
	}
	if len(stack) == 0 {
		return 0, 0
	}
	last := stack[len(stack)-1]
	return last.bracket, last.line
}
