package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"minsep/internal/must"
)

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		`{"a": 1}`:                             `{"a": 1}`,
		"{\"a\": 1 // one,\n}":                 "{\"a\": 1        \n}",
		`{"a": [1, 2, ], }`:                    `{"a": [1, 2  ]  }`,
		"// a\n[1, // \"two\"\n ]":             "    \n[1          \n ]",
		`{"http://a,]": "\"//,}", "b": "\\",}`: `{"http://a,]": "\"//,}", "b": "\\" }`,
	} {
		if got, err := Plain([]byte(in)); string(got) != want || err != nil {
			t.Errorf("%q became %q, %v, want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		`["open`:         "line 1, column 7: ",
		"{\"a\":\n True": "line 2, column 2: invalid literal: True",
		"// a":           "line 1, column 1: ",
		"[1,\n,]":        "line 2, column 1: ",
	} {
		if got, err := Plain([]byte(in)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q became %q, %v, want an error that begins with %q", in, got, err, want)
		}
	}
}

// TestCommas: a comma after an element is allowed, one after nothing is not.
func TestCommas(t *testing.T) {
	for _, in := range []string{`{,}`, `[,]`, `[1,,]`, `{"a":,}`, `{"a",}`, `,`, `[,1]`, `{"a": 1,,}`, `[1,, ]`, "[ // x\n, ]"} {
		if got, err := Plain([]byte(in)); err == nil {
			t.Errorf("%q was taken as %q", in, got)
		}
	}
	for _, in := range []string{`[1,]`, `{"a": [],}`, `[{},]`, `["x", ]`, "[1, // x\n]", `[null,]`} {
		if got, err := Plain([]byte(in)); err != nil || !json.Valid(got) {
			t.Errorf("%q was refused: %q, %v", in, got, err)
		}
	}
}

// TestRules: a value of a wrong type is shown, and a number that cannot be held is told from one
// that is of a wrong type.
func TestRules(t *testing.T) {
	type numbers struct {
		Whole    int64     `json:"whole"`
		Size     int       `json:"size"`
		Positive uint64    `json:"positive"`
		Real     float64   `json:"real"`
		List     []float64 `json:"list"`
		Group    inner     `json:"group"`
	}
	for in, want := range map[string]string{
		`{"whole": 1e30}`:                "whole 1e30: must be a whole number in digits",
		`{"whole": 9223372036854775808}`: "whole 9223372036854775808: must be a whole number in digits",
		`{"size": 1e999}`:                "size 1e999: must be a whole number in digits",
		`{"size": 1e3}`:                  "size 1e3: must be a whole number in digits",
		`{"size": 8.5}`:                  "size 8.5: must be a whole number in digits",
		`{"size": "8"}`:                  `size "8": must be a whole number in digits`,
		`{"size": null}`:                 "size null: must be a whole number in digits",
		`{"positive": -1}`:               "positive -1: must be a whole number in digits, at least 0",
		`{"positive": 1e20}`:             "positive 1e20: must be a whole number in digits, at least 0",
		`{"real": 1e400}`:                "real 1e400: must be a number",
		`{"real": true}`:                 "real true: must be a number",
		`{"list": [1, null]}`:            `list [1, null]: must be a list, each of which is a number`,
		`{"list": [1, "a"]}`:             `list [1, "a"]: must be a list, each of which is a number`,
		`{"whole": "` + strings.Repeat("x", 99) + `"}`: "whole: must be a whole number in digits",
	} {
		var got []string
		for _, f := range Decode([]byte(strings.Replace(in, "}", `, "group": {"needed": 1}}`, 1)), new(numbers)) {
			got = append(got, f.String())
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func (f Fault) String() string {
	return strings.TrimPrefix(strings.TrimSpace(f.Field+" "+f.Value)+": "+f.Rule, ": ")
}

type inner struct {
	Size   int     `json:"size,omitempty"`
	Rate   float64 `json:"rate,omitempty" strict:"zero"`
	Needed float64 `json:"needed" strict:"required"`
	Free   int     `json:"free"`
}

type outer struct {
	Group    inner    `json:"group"`
	Optional *inner   `json:"optional,omitempty"`
	List     []string `json:"list,omitempty"`
	hidden   []string
	Named    string // no JSON name: cannot be given
}

func TestDecode(t *testing.T) {
	for in, want := range map[string][]string{
		`{"group": {"needed": 0, "free": 0, "rate": 0}}`: nil,
		`{}`: {"group.needed: is missing"},
		`{"group": {"needed": 1}, "optional": {}}`:                               {"optional.needed: is missing"},
		`{"group": {"needed": 1, "size": 0}}`:                                    {"group.size: must not be 0: leave it out for the default"},
		`{"group": {"needed": 1, "size": -0.0e5}}`:                               {"group.size: must not be 0: leave it out for the default"},
		`{"group": {"needed": 1, "size": 1.5}}`:                                  {"group.size 1.5: must be a whole number in digits"},
		`{"group": {"needed": null}}`:                                            {"group.needed null: must be a number"},
		`{"group": {"needed": 1}, "": [], "hidden": [], "Named": "x", "a.b": 1}`: {`"": unknown field`, "hidden: unknown field", "Named: unknown field", `"a.b": unknown field`},
		`{"group": {"needed": 1, "Needed": 2}, "group": {}}`:                     {"group.Needed: unknown field", "group: given twice"},
		`[]`:                        {"[]: must be an object"},
		`{"group": 1, "list": [1]}`: {"group 1: must be an object", "list [1]: must be a list, each of which is a string"},
	} {
		var v outer
		var got []string
		for _, f := range Decode([]byte(in), &v) {
			got = append(got, f.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
		if v.hidden != nil || v.Named != "" {
			t.Errorf("%s: set what has no name", in)
		}
	}
	var v outer
	if f := Decode([]byte(`{"group": {"needed": 2, "size": "x"}, "list": ["a"], "other": 1}`), &v); len(f) != 2 || v.Group.Needed != 2 || len(v.List) != 1 {
		t.Errorf("what is sound was not decoded: %v, %+v", f, v)
	}
}

func FuzzPlain(f *testing.F) {
	f.Add([]byte(`{"a": [1, 2,], // x` + "\n}"))
	f.Add([]byte(`{,}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Plain(b)
		if err != nil {
			return
		}
		if len(got) != len(b) || json.Valid(b) && string(got) != string(b) {
			t.Fatalf("%q became %q", b, got)
		}
		Decode(got, new(outer))
	})
}

func TestUnmarshal(t *testing.T) {
	type value struct {
		A int        `json:"a"`
		L [][]string `json:"l"`
	}
	for text, rule := range map[string]string{
		`{"a": 1} `:                          "",
		`{"a": 1, "l": [["x"],[]]}`:          "",
		`{"a": 1, "l": null}`:                "",
		`{"l": [["x"],["y", null]], "a": 1}`: "a list has null",
		`{"l": [null]}`:                      "a list has null",
		`{"a": 1, "b": 2}`:                   "unknown field",
		`{"a": 1} {"a": 2}`:                  "something follows",
		`{"a": 1}]`:                          "something follows",
		`{"a": 1} x`:                         "something follows",
		`{"a": 1`:                            "unexpected EOF",
		``:                                   "EOF",
	} {
		var v value
		err := Unmarshal([]byte(text), &v)
		if (err == nil) != (rule == "") || err != nil && !strings.Contains(err.Error(), rule) {
			t.Errorf("%s: %v, want %q", text, err, rule)
		}
		if err == nil && v.A != 1 {
			t.Errorf("%s: %+v", text, v)
		}
	}
}

// TestManyNames: an object of a few megabytes can have millions of fields, which take much memory
// and time to tell apart.
func TestManyNames(t *testing.T) {
	var text bytes.Buffer
	for i := range mostNames + 1 {
		fmt.Fprintf(&text, `,"a%d":1`, i)
	}
	text.WriteByte('}')
	text.Bytes()[0] = '{'
	must.Fail(t, "", "fields")(Unambiguous(text.Bytes()))
}

// TestUnambiguous: names of one object, whatever their case; not of different objects, and not
// strings that are values.
func TestUnambiguous(t *testing.T) {
	for text, sound := range map[string]bool{
		`{"a": 1, "b": {"a": 2, "c": ["a", "a", {"a": "a"}, {"a": "b"}]}, "c": "a"}`: true,
		`{"a": 1, "a": 1}`:                                           false,
		`{"a": 1, "b": 2, "A": 1}`:                                   false,
		`[1, [2], {"x": {"k": [1], "\u212a": 2}}]`:                   false, // the Kelvin sign, which encoding/json takes for k
		`{"a": [{"b": []}, "b"], "b": {}, "ſ": {"b": 1}, "t": null}`: true,
		`{"a": {}, "b": [], "a": 1}`:                                 false,
		`"a"`:                                                        true,
		`{"a"`:                                                       false,
		strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20): false, // too deep
		strings.Repeat(" ", 1<<20) + `{"a": 1}`:                 true,
	} {
		var v any
		for _, err := range []error{Unambiguous([]byte(text)), Unmarshal([]byte(text), &v)} {
			if (err == nil) != sound {
				t.Errorf("%.100s: %v", text, err)
			}
		}
	}
}

// TestForeign: of a file that is not JSON, which may be a key, no byte is in the message.
func TestForeign(t *testing.T) {
	for _, text := range []string{"\x8f\x01key", " key", "Z"} {
		var v struct{}
		_, plain := Plain([]byte(text))
		for _, err := range []error{plain, Unmarshal([]byte(text), &v), Read(strings.NewReader(text), &v)} {
			if err == nil || err.Error() != "not JSON: it begins with neither { nor [" {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
	var v any
	for _, text := range []string{"7", ` "text"`, "[1]", "null", "{}"} {
		_, plain := Plain([]byte(text))
		if err := errors.Join(plain, Unmarshal([]byte(text), &v)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestWorded: the error for a value of a wrong type names the place, and no type of Go.
func TestWorded(t *testing.T) {
	type inner struct {
		Many []int `json:"many"`
	}
	type outer struct {
		Steps int32    `json:"steps"`
		Share *float64 `json:"share"`
		Name  string   `json:"name"`
		In    inner    `json:"in"`
	}
	for text, want := range map[string]string{
		`"x"`:                    "must be an object",
		`[]`:                     "must be an object, not array",
		`{"steps": "x"}`:         "steps must be a whole number in digits, not string",
		`{"steps": 1.5}`:         "steps must be a whole number in digits, not 1.5",
		`{"share": true}`:        "share must be a number, not bool",
		`{"name": {}}`:           "name must be a string, not object",
		`{"in": {"many": 3}}`:    "in.many must be a list, each of which is a whole number in digits, not number",
		`{"in": {"many": [""]}}`: "in.many must be a whole number in digits, not string",
	} {
		for name, f := range map[string]func([]byte, any) error{"Loose": Loose, "Unmarshal": Unmarshal} {
			if err := f([]byte(text), new(outer)); text != `"x"` && fmt.Sprint(err) != want || err == nil {
				t.Errorf("%s of %s: %v, want %s", name, text, err, want)
			}
		}
	}
}

// TestManyFaults: a text of very many unknown fields has a short answer.
func TestManyFaults(t *testing.T) {
	var text strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&text, "{\"f%d\": 1, "[min(i, 1):], i)
	}
	var v struct {
		A int `json:"a"`
	}
	faults := Decode([]byte(text.String()+`"a": 2}`), &v)
	if n := len(faults); n < 20 || n > 60 || !strings.Contains(faults[n-1].String(), "not looked at") {
		t.Errorf("%d faults", n)
	}
}
