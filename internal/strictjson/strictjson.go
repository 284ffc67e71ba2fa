// Package strictjson decodes JSON without guessing. [Unmarshal] and [Read] are for files that
// programs write. [Decode] is for files that people write, after [Plain]: it allows comments, but
// no mistakes.
//
// Decode refuses unknown and repeated fields, values of a wrong type, missing required fields, and
// zeros in fields that should be left out instead. It reports all faults at once, each with the
// path of its field.
//
// Fields of an embedded struct without a JSON name count as the struct's own. The tags of a field
// decide which values are faults:
//
//   - its JSON name: a field without one cannot be given;
//   - ,omitempty on a number means that 0 stands for "not given": a written 0 is a fault, unless
//     the field has the tag strict:"zero";
//   - the tag strict:"required": the field must be given.
package strictjson

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// Unmarshal decodes one JSON value into v. It refuses fields that v does not have, anything after
// the value, and values that [Unambiguous] refuses.
func Unmarshal(b []byte, v any) error {
	if err := Foreign(b); err != nil {
		return err
	}
	if err := decode(bytes.NewReader(b), v); err != nil {
		return err
	}
	return Unambiguous(b)
}

// ErrForeign means that text does not begin like JSON. The error shows none of it: it may be a key.
var ErrForeign = errors.New("not JSON: it begins with neither { nor [")

// Foreign returns [ErrForeign] for text that is not JSON from its first byte, such as a key file.
func Foreign(b []byte) error {
	start := bytes.TrimSpace(b)
	if len(start) == 0 || start[0] == '{' || start[0] == '[' || json.Valid(b) {
		return nil
	}
	return ErrForeign
}

// Read decodes the object or list that r consists of, as [Unmarshal] does, but without
// [Unambiguous]: that would hold the text in memory, and it may be a large matrix.
func Read(r io.Reader, v any) error {
	b := bufio.NewReader(r)
	for {
		start, err := b.ReadByte()
		switch {
		case err == nil && strings.IndexByte(" \t\r\n", start) >= 0:
			continue
		case err == nil && start != '{' && start != '[':
			return ErrForeign
		case err == nil:
			b.UnreadByte()
		}
		return decode(b, v) // which returns the error
	}
}

func decode(r io.Reader, v any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return worded(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows the JSON value")
	}
	return nil
}

// Loose is [json.Unmarshal] with an error that names no Go types.
func Loose(b []byte, v any) error { return worded(json.Unmarshal(b, v)) }

// worded rewrites a type error in words: the field, the type that it must have, and what it is.
func worded(err error) error {
	bad, is := err.(*json.UnmarshalTypeError)
	if !is {
		return err
	}
	given := strings.TrimPrefix(bad.Value, "number ")
	return errors.New(strings.TrimSpace(bad.Field + " must be " + described(bad.Type) + ", not " + given))
}

// mostNames is the largest number of fields in an object, far above any that minsep writes. It
// bounds the memory of [Unambiguous].
const mostNames = 1 << 18

// Unambiguous refuses JSON in which an object has two names that differ at most in case: readers
// disagree on which of the values counts. It also refuses null among the elements of a list, which
// package json reads as 0 or as an empty text.
func Unambiguous(b []byte) error {
	type level struct {
		names  map[string]bool // nil for an array
		inName bool
	}
	var stack []level
	var compact bytes.Buffer // token by token, much white space takes forever, and depth has no limit
	if err := json.Compact(&compact, b); err != nil {
		return err
	}
	d := json.NewDecoder(&compact)
	d.UseNumber()
	for {
		token, err := d.Token()
		switch {
		case err == io.EOF && len(stack) > 0:
			return io.ErrUnexpectedEOF
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		top := len(stack) - 1
		name, isString := token.(string)
		switch {
		case token == json.Delim('}') || token == json.Delim(']'):
			stack = stack[:top]
			continue
		case top >= 0 && stack[top].inName && isString:
			folded := strings.ToLower(strings.ToUpper(name))
			if stack[top].names[folded] {
				return fmt.Errorf("field %q is given twice", name)
			}
			stack[top].names[folded], stack[top].inName = true, false
			if len(stack[top].names) > mostNames {
				return fmt.Errorf("an object of more than %d fields", mostNames)
			}
			continue
		case top >= 0 && stack[top].names != nil:
			stack[top].inName = true // after this value
		case top >= 0 && token == nil:
			return errors.New("a list has null among its elements: write the element, or leave it out")
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, level{map[string]bool{}, true})
		case json.Delim('['):
			stack = append(stack, level{})
		}
	}
}

// mostFaults is the number of faults after which [Decode] looks for no more.
const mostFaults = 50

// Fault is a fault of a field, or of the whole text.
type Fault struct {
	Field string // path of the field, with dots; "" for the whole text
	Rule  string
	Value string // as written, if it is short; else ""
}

// Rules that callers distinguish.
const (
	MustBeObject = "must be an object"
	Missing      = "is missing"
	UnknownField = "unknown field"
)

// Decode decodes what [Plain] returns into v, a pointer to a struct, and returns every fault, up to some
// fifty. Fields without a fault are set even if others have one.
func Decode(b []byte, v any) (faults []Fault) {
	sound := check("", b, reflect.TypeOf(v).Elem(), &faults)
	if err := json.Unmarshal(sound, v); err != nil {
		faults = append(faults, Fault{Rule: err.Error()})
	}
	return faults
}

// field describes a field of a struct.
type field struct {
	name           string
	typ            reflect.Type
	zero, required bool // zero: 0 may be written; required: it must be given
}

// fieldsOf returns the fields of a struct that JSON can set.
func fieldsOf(t reflect.Type) (list []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct {
			list = append(list, fieldsOf(f.Type)...)
			continue
		}
		if !f.IsExported() || name == "" || name == "-" {
			continue
		}
		strict := strings.Split(f.Tag.Get("strict"), ",")
		omitted := slices.Contains(strings.Split(options, ","), "omitempty")
		list = append(
			list,
			field{name, f.Type, !omitted || slices.Contains(strict, "zero"), slices.Contains(strict, "required")},
		)
	}
	return list
}

// Paths returns the paths of all fields of a struct of structs, the groups' own included.
func Paths[T any]() []string { return paths("", fieldsOf(reflect.TypeFor[T]())) }

func paths(group string, fields []field) (list []string) {
	for _, f := range fields {
		path, t := join(group, f.name), f.typ
		list = append(list, path)
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() == reflect.Struct {
			list = append(list, paths(path, fieldsOf(t))...)
		}
	}
	return list
}

// check checks valid JSON against a type. It returns the JSON without the faulty parts; null if
// nothing is left.
func check(path string, b []byte, t reflect.Type, faults *[]Fault) (sound json.RawMessage) {
	none := json.RawMessage("null")
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		if err := json.Unmarshal(b, reflect.New(t).Interface()); err != nil || string(b) == "null" || hasNull(b) {
			*faults = append(*faults, Fault{path, "must be " + described(t), short(b)})
			return none
		}
		return b
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		*faults = append(*faults, Fault{path, MustBeObject, short(b)})
		return none
	}
	fields := fieldsOf(t)
	values := map[string]json.RawMessage{}
	seen := map[string]bool{}
	for d.More() {
		if len(*faults) >= mostFaults {
			*faults = append(*faults, Fault{Field: path, Rule: "the fields after these were not looked at"})
			return none
		}
		token, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return none // cannot happen: the JSON is valid
		}
		name := token.(string)
		inner := join(path, name)
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		switch {
		case i < 0:
			*faults = append(*faults, Fault{Field: inner, Rule: UnknownField})
		case seen[name]:
			*faults = append(*faults, Fault{Field: inner, Rule: "given twice"})
		case !fields[i].zero && isZero(value, fields[i].typ):
			*faults = append(*faults, Fault{Field: inner, Rule: "must not be 0: leave it out for the default"})
		default:
			values[name] = check(inner, value, fields[i].typ, faults)
		}
		seen[name] = true
	}
	missing(path, fields, seen, faults)
	sound, err := json.Marshal(values)
	if err != nil {
		return none // cannot happen: the JSON is valid
	}
	return sound
}

// hasNull reports whether b is a list, or a list of lists, that has null among its elements.
func hasNull(b []byte) bool {
	var list []json.RawMessage
	if json.Unmarshal(b, &list) != nil {
		return false
	}
	return slices.ContainsFunc(list, func(e json.RawMessage) bool { return string(e) == "null" || hasNull(e) })
}

// missing reports required fields that were not given, also in groups that were not given.
func missing(path string, fields []field, seen map[string]bool, faults *[]Fault) {
	for _, f := range fields {
		switch {
		case seen[f.name]:
		case f.required:
			*faults = append(*faults, Fault{Field: join(path, f.name), Rule: Missing})
		case f.typ.Kind() == reflect.Struct:
			missing(join(path, f.name), fieldsOf(f.typ), nil, faults)
		}
	}
}

// join returns the path of a field in a group. A name that is empty, or has dots or white space, is
// quoted.
func join(path, name string) string {
	if name == "" || strings.ContainsAny(name, ". \t\n") {
		name = fmt.Sprintf("%q", name)
	}
	return strings.TrimPrefix(path+"."+name, ".")
}

// isZero reports whether b, JSON for a field of type t, is the number 0.
func isZero(b []byte, t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		var x float64
		return string(b) != "null" && json.Unmarshal(b, &x) == nil && x == 0
	}
	return false
}

// short returns JSON that is short enough for a message; "" if it is not.
func short(b []byte) string {
	if len(b) > 40 || bytes.ContainsAny(b, "\n\r\t") {
		return ""
	}
	return string(b)
}

// described names a type in JSON's terms. A type with a method Describe names itself.
func described(t reflect.Type) string {
	if d, ok := reflect.Zero(t).Interface().(interface{ Describe() string }); ok {
		return d.Describe()
	}
	switch t.Kind() {
	case reflect.Pointer:
		return described(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number in digits"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number in digits, at least 0"
	case reflect.String:
		return "a string"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list, each of which is " + described(t.Elem())
	}
	return "another value"
}
