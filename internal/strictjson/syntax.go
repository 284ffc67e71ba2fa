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
	if s, ok := err.(*json.SyntaxError); ok {
		at := min(int(s.Offset), len(b))
		line := 1 + bytes.Count(b[:at], []byte("\n"))
		if at > 0 && bytes.IndexByte([]byte("TFN'"), b[at-1]) >= 0 {
			return fmt.Errorf("line %d: %q is no JSON, which has true, false, null, numbers, and text in double quotes", line, b[at-1:at])
		}
		return fmt.Errorf("line %d: %w", line, err)
	}
	if !json.Valid(b) {
		return err
	}
	return nil
}
