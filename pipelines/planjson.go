package pipelines

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// withoutComments returns JSON in the place of JSON with // comments and commas behind the last element: both become
// spaces, so that every other byte stays where it is.
func withoutComments(b []byte) []byte {
	b = bytes.Clone(b)
	comma := -1 // the last byte that is no space, if it is a comma
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			comma = -1
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
			comma = i
		case c == ']' || c == '}':
			if comma >= 0 {
				b[comma] = ' '
			}
			comma = -1
		case c != ' ' && c != '\t' && c != '\n' && c != '\r':
			comma = -1
		}
	}
	return b
}

// fieldFault is something wrong with a field of JSON.
type fieldFault struct {
	field string // with those around it, by dots; "" for all of it
	rule  string
}

func (f fieldFault) String() string { return strings.TrimPrefix(f.field+": "+f.rule, ": ") }

// decodeStrict decodes JSON into v, which points to a struct of structs, and returns every fault: unknown and repeated fields, and
// values of a wrong type. What is not at fault is decoded all the same.
func decodeStrict(b []byte, v any) (faults []fieldFault) {
	if !json.Valid(b) {
		return []fieldFault{{"", invalid(b).Error()}}
	}
	sound := checkFields("", b, reflect.TypeOf(v).Elem(), &faults)
	if err := json.Unmarshal(sound, v); err != nil {
		faults = append(faults, fieldFault{"", err.Error()})
	}
	return faults
}

// invalid is what is wrong with something that is not JSON, with the line.
func invalid(b []byte) error {
	var v any
	err := json.Unmarshal(b, &v)
	if s, ok := err.(*json.SyntaxError); ok {
		return fmt.Errorf("line %d: %w", 1+bytes.Count(b[:min(int(s.Offset), len(b))], []byte("\n")), err)
	}
	return err
}

// checkFields checks valid JSON against a type, and returns what of it is without a fault; null where nothing is.
func checkFields(path string, b []byte, t reflect.Type, faults *[]fieldFault) (sound json.RawMessage) {
	none := json.RawMessage("null")
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		if err := json.Unmarshal(b, reflect.New(t).Interface()); err != nil || string(b) == "null" {
			*faults = append(*faults, fieldFault{path, "must be " + described(t)})
			return none
		}
		return b
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		*faults = append(*faults, fieldFault{path, "must be an object"})
		return none
	}
	fields := map[string]json.RawMessage{}
	types := map[string]reflect.Type{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		types[name] = t.Field(i).Type
	}
	var seen []string
	for d.More() {
		token, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return none // cannot be: the JSON is valid
		}
		name := token.(string)
		inner := strings.TrimPrefix(path+"."+name, ".")
		field, known := types[name]
		switch {
		case !known:
			*faults = append(*faults, fieldFault{inner, "unknown field"})
		case slices.Contains(seen, name):
			*faults = append(*faults, fieldFault{inner, "given twice"})
		default:
			fields[name] = checkFields(inner, value, field, faults)
		}
		seen = append(seen, name)
	}
	sound, err := json.Marshal(fields)
	if err != nil {
		return none // cannot be
	}
	return sound
}

// described names a type of JSON.
func described(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Uint64:
		return "a whole number that is not negative"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list, each of which is " + described(t.Elem())
	}
	return t.String()
}

// jsonDifferences says where two JSON values of objects differ.
func jsonDifferences(was, want []byte) []string {
	a, b := map[string]string{}, map[string]string{}
	flattenJSON("", was, a)
	flattenJSON("", want, b)
	return mapDifferences(a, b, "there", "in the plan")
}

// mapDifferences says where two maps differ, and which is which.
func mapDifferences(a, b map[string]string, inA, inB string) (list []string) {
	for name, value := range a {
		if b[name] != value {
			list = append(list, fmt.Sprintf("%s is %s %s, %s %s", name, value, inA, or(b[name], "absent"), inB))
		}
	}
	for name, value := range b {
		if a[name] == "" {
			list = append(list, fmt.Sprintf("%s is absent %s, %s %s", name, inA, value, inB))
		}
	}
	slices.Sort(list)
	return list
}

func flattenJSON(path string, b []byte, flat map[string]string) {
	var object map[string]json.RawMessage
	if json.Unmarshal(b, &object) != nil || object == nil {
		flat[path] = string(b)
		return
	}
	for name, value := range object {
		flattenJSON(strings.TrimPrefix(path+"."+name, "."), value, flat)
	}
}
