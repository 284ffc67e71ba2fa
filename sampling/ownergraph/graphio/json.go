package graphio

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"minsep/sampling/ownergraph"
	"minsep/sampling/stream"
)

// jsonFault is the fault of a line of NDJSON.
type jsonFault struct{ column, found, rule string }

func (f *jsonFault) Error() string { return f.found + ": " + f.rule }

// maxJSONDepth limits the recursion of skip: a hostile file must not exhaust the stack.
const maxJSONDepth = 100

// jsonColumn is a column to be filled from JSON; its type may still be open.
type jsonColumn struct {
	names []string // that the key may have
	ids   *ownergraph.IDs
	known bool // the type of ids is decided
	asIs  bool // strings, and integers by their digits

	inFolder bool // the column is not of the file but of its folder: names are those that the file must not have

	spelled *spelled // the ids that were read; nil while the file is only looked at
	odd     []*Fault // of numbers in this line
}

// ask decides for strings as they are written.
func (c *jsonColumn) ask(asIs bool) {
	if asIs {
		c.known, c.asIs = true, true
		c.ids.Reset(ownergraph.String)
	}
}

// jsonLine parses one line: an object with an example and its owners. It fills owners, and leaves
// the example in its own column, so that the order of keys does not matter.
//
// The parser is our own, since encoding/json accepts a repeated key, hides the difference between 7
// and 7.0, and allocates for each value. Ours checks the whole line too: a damaged line may have
// lost owners.
type jsonLine struct {
	example, owner jsonColumn
	hasExample     bool
	hasOwners      bool
	owners         int // how many the line has

	in      []byte
	pos     int
	scratch []byte // an unescaped string
	key     []byte
}

// bad returns a fault that belongs to no key yet; see atKey.
func bad(found, rule string) *jsonFault { return &jsonFault{found: found, rule: rule} }

// parse reads a line. The ids go to the columns; on a fault they may hold a part of the line.
func (j *jsonLine) parse(line []byte) *jsonFault {
	j.in, j.pos, j.hasExample, j.hasOwners, j.owners = line, 0, false, false, 0
	if j.peek() != '{' {
		if j.peek() == '[' { // a usual mistake: a .json file with all records in one array
			return bad("an array", "NDJSON has one object a line, not one array")
		}
		return bad("no JSON object", "each line must be one")
	}
	j.pos++
	if j.peek() == '}' {
		j.pos++
	} else if f := j.members(); f != nil {
		return f
	}
	if j.peek() != 0 || j.pos < len(j.in) { // peek returns 0 for a NUL byte as well as at the end
		return bad("more text after the object", "each line must be one object")
	}
	if !j.hasExample && !j.example.inFolder {
		return &jsonFault{j.example.names[0], "no such key", "each object needs it"}
	}
	if !j.hasOwners && len(j.owner.names) > 0 && !j.owner.inFolder {
		return &jsonFault{j.owner.names[0], "no such key", "each object needs it"}
	}
	return nil
}

func (j *jsonLine) members() *jsonFault {
	for {
		if j.peek() != '"' {
			return bad("no key", "not valid JSON")
		}
		key, f := j.string()
		if f != nil {
			return f
		}
		j.key = append(j.key[:0], key...)
		if j.peek() != ':' {
			return bad("a key without colon", "not valid JSON")
		}
		j.pos++
		if f := j.member(); f != nil {
			return f
		}
		switch j.peek() {
		case ',':
			j.pos++
		case '}':
			j.pos++
			return nil
		default:
			return bad("an object that does not end", "not valid JSON")
		}
	}
}

// member reads the value of j.key.
func (j *jsonLine) member() *jsonFault {
	switch {
	case named(j.example.names, j.key) && j.example.inFolder, named(j.owner.names, j.key) && j.owner.inFolder:
		f := inBoth(string(j.key))
		return &jsonFault{f.Column, f.Found, f.Rule}
	case named(j.example.names, j.key):
		// Which of two values holds is undefined in JSON: readers differ, and the bound must hold
		// for the owner that the trainer's reader sees.
		if j.hasExample {
			return &jsonFault{string(j.key), "the key occurs twice", "each object has it once"}
		}
		j.hasExample = true
		return j.atKey(j.id(&j.example))
	case named(j.owner.names, j.key):
		if j.hasOwners {
			return &jsonFault{string(j.key), "the key occurs twice, or owner_id beside owners", "each object has one"}
		}
		j.hasOwners = true
		return j.atKey(j.list())
	}
	return j.skip(0)
}

func named(names []string, key []byte) bool {
	for _, n := range names {
		if string(key) == n {
			return true
		}
	}
	return false
}

// atKey puts the key's name into a fault.
func (j *jsonLine) atKey(f *jsonFault) *jsonFault {
	if f != nil && f.column == "" {
		f.column = string(j.key)
	}
	return f
}

// list reads the owners: an array of ids, one id, or null, which is as good as an empty array.
func (j *jsonLine) list() *jsonFault {
	switch j.peek() {
	case 'n':
		return j.literal("null")
	case '[':
	default: // a single id, without brackets
		j.owners = 1
		return j.id(&j.owner)
	}
	j.pos++
	if j.peek() == ']' {
		j.pos++
		return nil
	}
	for {
		if f := j.id(&j.owner); f != nil {
			return f
		}
		j.owners++
		switch j.peek() {
		case ',':
			j.pos++
		case ']':
			j.pos++
			return nil
		default:
			return bad("a list that does not end", "not valid JSON")
		}
	}
}

// id reads an integer or a string and adds it to a column.
func (j *jsonLine) id(c *jsonColumn) *jsonFault {
	switch b := j.peek(); {
	case b == '"':
		s, f := j.string()
		switch {
		case f != nil:
			return f
		case !c.is(ownergraph.String): // "7" and 7 may be one owner or two: nothing decides it silently
			return bad("a string", "must be an integer, as in the first record, or set --id-type string")
		case len(s) == 0:
			return bad(empty.String(), empty.rule(ownergraph.String))
		case len(s) > stream.MaxStringID:
			return bad(long.String(), long.rule(ownergraph.String))
		}
		if k := spelling(s); !c.asIs && !c.take(s, k) {
			return bad(k.String(), k.rule(ownergraph.String))
		}
		c.ids.AppendBytes(s)
	case b == '-' || '0' <= b && b <= '9':
		number := j.number()
		v, k := parseInt(number)
		switch {
		case k == bigInteger && !c.asIs:
			return bad(k.String(), k.rule(ownergraph.Int64))
		case k != fits && k != bigInteger, len(number) > stream.MaxStringID: // 7 and 7.0 would be two ids
			return bad("a number that is not a plain integer", "must be an integer such as 7, and not 7.0 or 7e0, or a string")
		case c.asIs:
			c.ids.AppendBytes(number)
			return nil
		case !c.is(ownergraph.Int64):
			return bad("an integer", "must be a string, as in the first record, or set --id-type string")
		}
		c.ids.AppendInt(v)
	case b == 'n':
		return bad("null", "must be an integer or a string")
	default:
		return bad("neither integer nor string", "must be one of them")
	}
	return nil
}

// take counts a string of kind k, and says whether it may be kept.
func (c *jsonColumn) take(id []byte, k kind) bool {
	if c.spelled == nil {
		return k == fits
	}
	return c.spelled.count(id, k, func() *Fault {
		f := &Fault{Column: c.names[0], Found: k.String(), Rule: k.rule(ownergraph.String)}
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

// peek returns the next byte that is not blank, or 0 at the end.
func (j *jsonLine) peek() byte {
	for ; j.pos < len(j.in); j.pos++ {
		switch b := j.in[j.pos]; b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

// number takes the bytes that a number may consist of.
func (j *jsonLine) number() []byte {
	start := j.pos
	for j.pos < len(j.in) {
		switch b := j.in[j.pos]; {
		case '0' <= b && b <= '9', b == '-', b == '+', b == '.', b == 'e', b == 'E':
			j.pos++
			continue
		}
		break
	}
	return j.in[start:j.pos]
}

func (j *jsonLine) literal(word string) *jsonFault {
	if !bytes.HasPrefix(j.in[j.pos:], []byte(word)) {
		return bad("an unknown word", "not valid JSON")
	}
	j.pos += len(word)
	return nil
}

// string reads a string. The result is good until the next string.
func (j *jsonLine) string() ([]byte, *jsonFault) {
	j.pos++
	start := j.pos
	ascii := byte(0) // all bytes joined by or: below 0x80 there is no need to check UTF-8
	for ; j.pos < len(j.in); j.pos++ {
		switch b := j.in[j.pos]; {
		case b == '"':
			s := j.in[start:j.pos]
			j.pos++
			if ascii >= 0x80 && !utf8.Valid(s) {
				return nil, bad("a string that is not UTF-8", "JSON is UTF-8")
			}
			return s, nil
		case b == '\\':
			return j.escaped(start)
		case b < ' ':
			return nil, bad("a control character in a string", "not valid JSON")
		default:
			ascii |= b
		}
	}
	return nil, bad("a string that does not end", "not valid JSON")
}

// escaped reads a string with escapes that began at start.
func (j *jsonLine) escaped(start int) ([]byte, *jsonFault) {
	j.scratch = append(j.scratch[:0], j.in[start:j.pos]...)
	for j.pos < len(j.in) {
		b := j.in[j.pos]
		j.pos++
		switch {
		case b == '"':
			if !utf8.Valid(j.scratch) {
				return nil, bad("a string that is not UTF-8", "JSON is UTF-8")
			}
			return j.scratch, nil
		case b < ' ':
			return nil, bad("a control character in a string", "not valid JSON")
		case b != '\\':
			j.scratch = append(j.scratch, b)
		case j.pos == len(j.in): // a backslash ends the line: the string does not end
		case j.in[j.pos] == 'u':
			if f := j.unicode(); f != nil {
				return nil, f
			}
		default:
			i := bytes.IndexByte([]byte(`"\/bfnrt`), j.in[j.pos])
			if i < 0 {
				return nil, bad("an unknown escape", "not valid JSON")
			}
			j.scratch = append(j.scratch, "\"\\/\b\f\n\r\t"[i])
			j.pos++
		}
	}
	return nil, bad("a string that does not end", "not valid JSON")
}

// unicode reads uXXXX, and the second half of a surrogate pair.
func (j *jsonLine) unicode() *jsonFault {
	hex := func() rune {
		if j.pos+5 > len(j.in) || j.in[j.pos] != 'u' {
			return -1
		}
		v, err := strconv.ParseUint(string(j.in[j.pos+1:j.pos+5]), 16, 16)
		if err != nil {
			return -1
		}
		j.pos += 5
		return rune(v)
	}
	r := hex()
	// Characters beyond 16 bits are written as two escapes. Half of such a pair is no character,
	// and ids that differ in it only would become one.
	if utf16.IsSurrogate(r) {
		second := rune(-1)
		if j.pos < len(j.in) && j.in[j.pos] == '\\' {
			j.pos++
			second = hex()
		}
		r = utf16.DecodeRune(r, second)
		if r == utf8.RuneError {
			return bad("half a surrogate pair", "not valid text")
		}
	}
	if r < 0 {
		return bad("an unknown escape", "not valid JSON")
	}
	j.scratch = utf8.AppendRune(j.scratch, r)
	return nil
}

// skip passes over a value of no interest.
func (j *jsonLine) skip(depth int) *jsonFault {
	if depth > maxJSONDepth {
		return bad("a value nested too deeply", "at most 100 levels are read")
	}
	switch b := j.peek(); b {
	case '"':
		_, f := j.string()
		return f
	case 't':
		return j.literal("true")
	case 'f':
		return j.literal("false")
	case 'n':
		return j.literal("null")
	case '{', '[':
		return j.skipAll(b+2, depth) // '}' and ']' are two further on in ASCII
	default:
		if n := j.number(); len(n) == 0 || !validNumber(n) {
			return bad("neither value nor number", "not valid JSON")
		}
	}
	return nil
}

// skipAll passes over the rest of an object or array that ends with end.
func (j *jsonLine) skipAll(end byte, depth int) *jsonFault {
	j.pos++
	if j.peek() == end {
		j.pos++
		return nil
	}
	for {
		if end == '}' {
			if j.peek() != '"' {
				return bad("no key", "not valid JSON")
			}
			if _, f := j.string(); f != nil {
				return f
			}
			if j.peek() != ':' {
				return bad("a key without colon", "not valid JSON")
			}
			j.pos++
		}
		if f := j.skip(depth + 1); f != nil {
			return f
		}
		switch j.peek() {
		case ',':
			j.pos++
		case end:
			j.pos++
			return nil
		default:
			return bad("a value that does not end", "not valid JSON")
		}
	}
}

// validNumber says whether b is a number in JSON's grammar.
func validNumber(b []byte) bool {
	digits := func() bool {
		n := 0
		for n < len(b) && '0' <= b[n] && b[n] <= '9' {
			n++
		}
		b = b[n:]
		return n > 0
	}
	if b[0] == '-' {
		b = b[1:]
	}
	if len(b) > 1 && b[0] == '0' && '0' <= b[1] && b[1] <= '9' || !digits() {
		return false
	}
	if len(b) > 0 && b[0] == '.' {
		if b = b[1:]; !digits() {
			return false
		}
	}
	if len(b) > 0 && (b[0] == 'e' || b[0] == 'E') {
		if b = b[1:]; len(b) > 0 && (b[0] == '+' || b[0] == '-') {
			b = b[1:]
		}
		return digits() && len(b) == 0
	}
	return len(b) == 0
}
