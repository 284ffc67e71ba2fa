package graphio

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"minsep/internal/ownergraph"
	"minsep/internal/stream"
)

// jsonFault is the fault of a line of NDJSON.
type jsonFault struct{ column, found, rule string }

func (f *jsonFault) Error() string { return f.found + ": " + f.rule }

// jsonColumn is a column to be filled from JSON; its type may still be open.
type jsonColumn struct {
	names []string // that the key may have
	key   string   // the one that the line has
	value []byte   // and its value; nil for none
	ids   *ownergraph.IDs
	known bool // the type of ids is decided
	asIs  bool // strings, and integers by their digits

	inFolder bool // the column is not of the file but of its folder: names are those that the file must not have

	spelled *spelled    // the ids that were read; nil while the file is only looked at
	joined  *joinedScan // of the owners that were read; nil for examples
	split   *Split      // which says how owners are divided; nil for examples
	odd     []*Fault    // of numbers in this line
}

// ask decides for strings as they are written.
func (c *jsonColumn) ask(asIs bool) {
	if asIs {
		c.known, c.asIs = true, true
		c.ids.Reset(ownergraph.String)
	}
}

// jsonLine reads one line: an object with an example and its owners. Package json says whether the
// line is valid, and decodes strings; its maps and structs would keep the last of two equal keys.
type jsonLine struct {
	example, owner jsonColumn
	owners         int      // how many the line has
	parts          [][]byte // of an object or list
}

// parse reads a line. The ids go to the columns; on a fault they may hold a part of the line.
func (j *jsonLine) parse(line []byte) *jsonFault {
	j.owners = 0
	switch first := bytes.TrimLeft(line, " \t\r"); {
	case !utf8.Valid(line): // the decoder would put one character in the place of every other byte
		return &jsonFault{found: "text that is not UTF-8", rule: "JSON is UTF-8"}
	case first[0] == '[': // a usual mistake: a .json file with all records in one array
		return &jsonFault{found: "an array", rule: "NDJSON has one object a line, not one array"}
	case first[0] != '{':
		return &jsonFault{found: "no JSON object", rule: "each line must be one"}
	}
	if !json.Valid(line) {
		return &jsonFault{found: "no valid JSON", rule: "each line must be one object"}
	}
	j.example.value, j.owner.value = nil, nil
	j.parts = parts(j.parts[:0], line)
	for i := 0; i < len(j.parts); i += 2 {
		key := decoded(j.parts[i])
		for _, c := range []*jsonColumn{&j.example, &j.owner} {
			if f := c.take(key, j.parts[i+1]); f != nil {
				return f
			}
		}
	}
	for _, c := range []*jsonColumn{&j.example, &j.owner} {
		if c.value == nil && !c.inFolder && len(c.names) > 0 {
			return &jsonFault{c.names[0], "no such key", "each object needs it"}
		}
	}
	if !j.example.inFolder {
		if f := j.example.id(j.example.value); f != nil {
			return f
		}
	}
	if j.owner.value == nil {
		return nil
	}
	return j.list()
}

// parts appends to dst the parts of a list, or the names and values of an object in turn. The text
// must be valid JSON.
func parts(dst [][]byte, text []byte) [][]byte {
	depth, inString, start := 0, false, 0
	for i := 0; i < len(text); i++ {
		end := false
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth == 1 {
				start = i + 1
			}
		case c == '}' || c == ']':
			depth--
			end = depth == 0
		case c == ':' || c == ',':
			end = depth == 1
		}
		if !end {
			continue
		}
		if part := bytes.TrimSpace(text[start:i]); len(part) > 0 { // an empty list has no part
			dst = append(dst, part)
		}
		start = i + 1
	}
	return dst
}

// decoded returns the text of a string, which is valid JSON.
func decoded(literal []byte) []byte {
	if bytes.IndexByte(literal, '\\') < 0 {
		return literal[1 : len(literal)-1]
	}
	var text string
	json.Unmarshal(literal, &text)
	return []byte(text)
}

// take keeps the value of a key, if it is the column's.
func (c *jsonColumn) take(key, value []byte) *jsonFault {
	name := slices.IndexFunc(c.names, func(name string) bool { return string(key) == name })
	switch {
	case name < 0:
		return nil
	case c.inFolder:
		f := inBoth(string(key))
		return &jsonFault{f.Column, f.Found, f.Rule}
	// Which of two values holds is undefined in JSON: readers differ, and the bound must hold for the
	// owner that the trainer's reader sees.
	case c.value != nil && c.key == c.names[name]:
		return &jsonFault{c.key, "the key occurs twice", "each object has it once"}
	case c.value != nil:
		return &jsonFault{c.names[name], "the key beside " + c.key, "each object has one of them"}
	}
	c.key, c.value = c.names[name], value
	return nil
}

// list reads the owners: an array of ids, one id, or null, which is as good as an empty array.
func (j *jsonLine) list() *jsonFault {
	ids := append(j.parts[:0], j.owner.value)
	if string(j.owner.value) == "null" || j.owner.value[0] == '[' {
		ids = parts(j.parts[:0], j.owner.value)
	}
	j.parts = ids
	before := j.owner.ids.Len()
	for _, id := range ids {
		if f := j.owner.id(id); f != nil {
			return f
		}
	}
	j.owners = j.owner.ids.Len() - before
	return nil
}

// id adds an integer or a string to the column.
func (c *jsonColumn) id(value []byte) *jsonFault {
	bad := func(found, rule string) *jsonFault { return &jsonFault{c.key, found, rule} }
	switch b := value[0]; {
	case b == '"':
		id := decoded(value)
		// In the place of half a pair the decoder puts U+FFFD, and ids that differ in it only would
		// become one.
		if bytes.Count(id, replacement) != bytes.Count(value, replacement) {
			return bad("half a surrogate pair, or an escaped U+FFFD", "no character is written so")
		}
		if c.split == nil || !c.split.divides() {
			return c.text(id)
		}
		for _, part := range c.split.owners(nil, id) {
			if f := c.text(part); f != nil {
				return f
			}
		}
		return nil
	case b == '-' || '0' <= b && b <= '9':
		v, k := parseInt(value)
		switch {
		case k == bigInteger && !c.asIs:
			return bad(k.String(), k.rule(ownergraph.Int64))
		case k != fits && k != bigInteger, len(value) > stream.MaxStringID: // 7 and 7.0 would be two ids
			return bad(
				"a number that is not a plain integer",
				"must be an integer such as 7, and not 7.0 or 7e0, or a string",
			)
		case c.asIs:
			c.ids.AppendBytes(value)
		case !c.is(ownergraph.Int64):
			return bad("an integer", "must be a string, as in the first record, or set --id-type string")
		default:
			c.ids.AppendInt(v)
		}
		return nil
	case b == 'n':
		return bad("null", "must be an integer or a string")
	}
	return bad("neither integer nor string", "must be one of them")
}

// replacement stands for what is no character.
var replacement = []byte("\ufffd")

// text adds a string to the column.
func (c *jsonColumn) text(id []byte) *jsonFault {
	bad := func(k kind) *jsonFault { return &jsonFault{c.key, k.String(), k.rule(ownergraph.String)} }
	switch {
	case !c.is(ownergraph.String): // "7" and 7 may be one owner or two: nothing decides it silently
		return &jsonFault{c.key, "a string", "must be an integer, as in the first record, or set --id-type string"}
	case len(id) == 0:
		return bad(empty)
	case len(id) > stream.MaxStringID:
		return bad(long)
	}
	if c.joined != nil {
		if f := c.joined.look(id); f != nil {
			return &jsonFault{c.key, f.Found, f.Rule}
		}
	}
	if k := spelling(id); !c.asIs && !c.count(id, k) {
		return bad(k)
	}
	c.ids.AppendBytes(id)
	return nil
}

// count counts a string of kind k, and says whether it may be kept.
func (c *jsonColumn) count(id []byte, k kind) bool {
	if c.spelled == nil {
		return k == fits
	}
	return c.spelled.count(id, k, func() *Fault {
		f := &Fault{Column: c.key, Found: k.String(), Rule: k.rule(ownergraph.String)}
		c.odd = append(c.odd, f)
		return f
	})
}

// is says whether an id of type t may go into the column, and decides its type if it was open.
func (c *jsonColumn) is(t ownergraph.IDType) bool {
	if !c.known {
		c.known = true
		c.ids.Reset(t)
	}
	return c.ids.Type == t
}
