package graphio

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"unicode/utf8"

	"minsep/internal/ownergraph"
	"minsep/internal/stream"
)

// ndjsonFormat is of objects of JSON, one a line.
var ndjsonFormat = format{
	name:       NDJSON,
	title:      "NDJSON",
	extensions: []string{".ndjson", ".jsonl", ".json"},
	look:       lookJSON,
	part:       func() part { return new(jsonPart) },
}

// jsonPart is a file of NDJSON.
type jsonPart struct {
	textPart
	ExampleColumn string   `json:"example_column"`          // its name
	OwnerColumns  []string `json:"owner_columns,omitempty"` // names; one of them is there
}

// lookJSON looks at the first lines of NDJSON until the types are known.
func lookJSON(in *inspected, f File, o *Options) *Fault {
	s := &in.split
	p := &jsonPart{
		textPart{in.compression},
		o.exampleNames()[0],
		o.ownerNames(),
	}
	// Both spellings are common. A file that has the two at once is refused, line by line.
	if o.OwnerColumn == "" && !o.SingleOwner {
		p.OwnerColumns = []string{"owners", "owner_id"}
	}
	in.part = p
	l, end, fault := p.begin(f)
	if fault != nil {
		return fault
	}
	defer end()
	// The first line may have no owners, and so no type for them: the look goes on until both types
	// are known, which in most files takes one line.
	var line jsonLine
	for !in.records || !in.example.known && !s.RowIDs || !in.owner.known && !s.SingleOwner {
		text, err := l.nextObject()
		if err == io.EOF {
			break
		}
		if err != nil {
			return &Fault{Line: l.number + 1, Err: err}
		}
		if f := line.parse(s, p, text); f != nil {
			f.Line = l.number
			return f
		}
		in.records = true
		if !s.RowIDs {
			in.example = line.example.declares()
		}
		if len(line.owners) > 0 {
			in.owner = line.owners[0].declares()
		}
	}
	return nil
}

// declares returns the type of a column with this value of JSON.
func (v value) declares() idType {
	t := ownergraph.String
	if v.kind == jsonNumber {
		t = ownergraph.Int64
	}
	return idType{known: true, fixed: true, t: t}
}

func (p *jsonPart) read(s *Split, f File, b *batcher) error {
	return p.eachOf(f, b, func(l *lines) error { return p.readLines(s, l, b) })
}

func (p *jsonPart) readLines(s *Split, l *lines, b *batcher) error {
	var line jsonLine
	place := func(column int) *Fault {
		return &Fault{Line: l.number, Column: [2]string{line.example.column, line.ownerKey}[column]}
	}
	for {
		text, err := l.nextObject()
		if err != nil {
			return b.end(err, l.number+1)
		}
		fault := line.parse(s, p, text)
		if fault == nil {
			fault = b.appendRow(line.example.value, line.owners, place)
		}
		if fault != nil {
			fault.Line = l.number
			if err := b.fault(fault); err != nil {
				return err
			}
		}
		if err := b.full(); err != nil {
			return err
		}
	}
}

// nextObject returns the next line that is not blank.
func (l *lines) nextObject() (text []byte, err error) {
	for err == nil && len(bytes.TrimSpace(text)) == 0 {
		text, err = l.next()
	}
	return text, err
}

func (p *jsonPart) rows(f File) (int64, error) {
	return p.count(f, func(l *lines) func() error {
		return func() error { _, err := l.nextObject(); return err }
	})
}

// jsonLine reads one line: an object with an example and its owners. Package json says whether the
// line is valid, and decodes strings; its maps and structs would keep the last of two equal keys.
type jsonLine struct {
	example  jsonValue
	ownerKey string  // the key of the owners that the line has
	owners   []value // empty for null and an empty array

	parts, ids [][]byte // of the object, of a list
}

// jsonValue is a value and its key.
type jsonValue struct {
	value
	column string
}

// parse reads a line. What it gives is good until the next call.
func (j *jsonLine) parse(s *Split, p *jsonPart, line []byte) *Fault {
	switch first := bytes.TrimLeft(line, " \t\r"); {
	case !utf8.Valid(line): // the decoder would put one character in the place of every other byte
		return &Fault{Found: "text that is not UTF-8", Rule: "JSON is UTF-8: iconv -t UTF-8 writes it so"}
	case first[0] == '[': // a usual mistake: a .json file with all records in one array
		return &Fault{Found: "an array", Rule: "NDJSON has one object a line, not one array"}
	case first[0] != '{':
		return &Fault{Found: "no JSON object", Rule: "each line must be one"}
	}
	if !json.Valid(line) {
		return &Fault{Found: "no valid JSON", Rule: "each line must be one object"}
	}
	var example, owners []byte
	j.example.column, j.ownerKey = "", ""
	j.parts = parts(j.parts[:0], line)
	for i := 0; i < len(j.parts); i += 2 {
		var fault *Fault
		switch key := decoded(j.parts[i]); {
		case !s.RowIDs && string(key) == p.ExampleColumn:
			fault = takeKey(&j.example.column, p.ExampleColumn)
			example = j.parts[i+1]
		case slices.ContainsFunc(p.OwnerColumns, func(name string) bool { return string(key) == name }):
			fault = takeKey(&j.ownerKey, string(key))
			owners = j.parts[i+1]
		}
		if fault != nil {
			return fault
		}
	}
	j.owners = j.owners[:0]
	var fault *Fault
	if !s.RowIDs {
		if example == nil {
			return &Fault{Column: p.ExampleColumn, Found: "no such key", Rule: "each object needs it"}
		}
		if j.example.value, fault = jsonID(example, p.ExampleColumn); fault != nil {
			return fault
		}
	}
	if s.SingleOwner {
		return nil
	}
	if owners == nil {
		return &Fault{Column: p.OwnerColumns[0], Found: "no such key", Rule: "each object needs it"}
	}
	return j.list(s, owners)
}

// takeKey sets the key of a column, which the line must have once.
func takeKey(column *string, key string) *Fault {
	switch {
	// Which of two values holds is undefined in JSON: readers differ, and the bound must hold for the
	// owner that the trainer's reader sees.
	case *column == key:
		return &Fault{Column: key, Found: "the key occurs twice", Rule: "each object has it once"}
	case *column != "":
		return &Fault{Column: key, Found: "the key beside " + *column, Rule: "each object has one of them"}
	}
	*column = key
	return nil
}

// list reads the owners: an array of ids, one id, or null, which is as good as an empty array.
func (j *jsonLine) list(s *Split, owners []byte) *Fault {
	j.ids = append(j.ids[:0], owners)
	if string(owners) == "null" || owners[0] == '[' {
		j.ids = parts(j.ids[:0], owners)
	}
	for _, id := range j.ids {
		owner, fault := jsonID(id, j.ownerKey)
		if fault != nil {
			return fault
		}
		if owner.kind == jsonNumber || len(owner.text) == 0 { // an empty id is a fault, and not no owner
			j.owners = append(j.owners, owner)
			continue
		}
		j.owners = s.owners(j.owners, owner)
	}
	return nil
}

// jsonID returns the value of an id, which is valid JSON: the digits of an integer, or a string.
func jsonID(literal []byte, column string) (value, *Fault) {
	bad := func(found, rule string) (value, *Fault) {
		return value{}, &Fault{Column: column, Found: found, Rule: rule}
	}
	switch b := literal[0]; {
	case b == '"':
		id := decoded(literal)
		// In the place of half a pair the decoder puts U+FFFD, and ids that differ in it only would
		// become one.
		if bytes.Count(id, replacement) != bytes.Count(literal, replacement) {
			return bad("half a surrogate pair, or an escaped U+FFFD", "no character is written so")
		}
		return value{id, jsonString}, nil
	case b == '-' || '0' <= b && b <= '9':
		if _, k := parseInt(literal); k != fits && k != bigInteger || len(literal) > stream.MaxStringID { // 7 and 7.0 would be two ids
			return bad(
				"a number that is not a plain integer",
				"must be an integer such as 7, and not 7.0 or 7e0, or a string",
			)
		}
		return value{literal, jsonNumber}, nil
	case b == 'n':
		return bad("null", "must be an integer or a string")
	}
	return bad("neither integer nor string", "must be one of them")
}

// replacement stands for what is no character.
var replacement = []byte("\ufffd")

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
