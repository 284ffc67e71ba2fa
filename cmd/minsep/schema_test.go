package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/planner"
	"minsep/internal/stages"
	"minsep/internal/strictjson"
	"minsep/sampling"
)

// schemaFolder holds the JSON schemas of the files that others may read.
var schemaFolder = func() string {
	dir, err := filepath.Abs("../../docs/schemas")
	if err != nil {
		panic(err)
	}
	return dir
}()

func compileSchema(name string) (*jsonschema.Schema, error) {
	return jsonschema.NewCompiler().Compile(filepath.Join(schemaFolder, name+".schema.json"))
}

// schema is the script's command of that name: the files are as a schema says. Of a log, each line
// is, behind its checksum. A file is refused without each of its required fields, with one more,
// and with one of another type.
func schema(ts *testscript.TestScript, neg bool, args []string) {
	compiled, err := compileSchema(args[0])
	ts.Check(err)
	for _, name := range args[1:] {
		for _, text := range strings.Split(strings.TrimSpace(documents(ts.ReadFile(name), strings.HasSuffix(name, ".log"))), "\x00") {
			plain, err := strictjson.Plain([]byte(text))
			ts.Check(err)
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
			ts.Check(err)
			if err := compiled.Validate(value); (err != nil) != neg {
				ts.Fatalf("%s: %v", name, err)
			}
			if neg {
				continue
			}
			object := value.(map[string]any)
			for _, field := range compiled.Required {
				kept := object[field]
				delete(object, field)
				if compiled.Validate(object) == nil {
					ts.Fatalf("%s is accepted without %s", name, field)
				}
				object[field] = []any{nil}
				if compiled.Validate(object) == nil {
					ts.Fatalf("%s is accepted with a list as %s", name, field)
				}
				object[field] = kept
			}
			object["more"] = 1
			if compiled.Validate(object) == nil {
				ts.Fatalf("%s is accepted with an unknown field", name)
			}
		}
	}
}

// documents are the texts of JSON in a file, with zeros between them.
func documents(text string, log bool) string {
	if !log {
		return text
	}
	var list []string
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		_, body, _ := strings.Cut(line, " ")
		list = append(list, body)
	}
	return strings.Join(list, "\x00")
}

// jsonFields are the fields of a struct in JSON, with those of embedded structs.
func jsonFields(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, jsonFields(f.Type)...)
		case f.IsExported() && name != "-" && name != "":
			names = append(names, name)
		}
	}
	return names
}

// TestSchemasHaveEveryField holds the fields of the schemas against those that the programs write:
// a new column comes with its schema.
func TestSchemasHaveEveryField(t *testing.T) {
	type described struct {
		schema string
		path   []string
		of     reflect.Type
		more   []string // that other programs write there
	}
	all := []described{
		{"certificate", nil, reflect.TypeFor[accounting.Certificate](), nil},
		{"certificate", []string{"points", "[]"}, reflect.TypeFor[accounting.Claimed](), nil},
		{"certificate", []string{"points", "[]", "directions", "[]"}, reflect.TypeFor[accounting.Verdict](), nil},
		{"protocol", nil, reflect.TypeFor[accounting.Protocol](), nil},
		{"protocol", []string{"points", "[]"}, reflect.TypeFor[accounting.Point](), nil},
		{"protocol", []string{"candidates", "[]", "trials", "[]"}, reflect.TypeFor[accounting.Trial](), nil},
		{"request", nil, reflect.TypeFor[stages.Request](), nil},
		{"unit", nil, reflect.TypeFor[ledger.Unit](), []string{"result"}},
		{"plan", nil, reflect.TypeFor[stages.Plan](), []string{"inputs"}},
		{"run", nil, reflect.TypeFor[manifest.Run](), nil},
		{"index", nil, reflect.TypeFor[manifest.Index](), nil},
		{"plans", nil, reflect.TypeFor[planner.Result](), nil},
		{"plans", []string{"request"}, reflect.TypeFor[planner.Request](), nil},
		{"plans", []string{"request", "populations", "[]"}, reflect.TypeFor[planner.Population](), nil},
		{"plans", []string{"rows", "[]"}, reflect.TypeFor[planner.Row](), nil},
		{"plans", []string{"rows", "[]", "noise"}, reflect.TypeFor[calibration.Noise](), nil},
		{"composition", nil, reflect.TypeFor[together](), nil},
		{"composition", []string{"runs", "[]"}, reflect.TypeFor[composed](), nil},
		{"common", []string{"$defs", "sampler"}, reflect.TypeFor[sampling.Spec](), nil},
	}
	for _, group := range reflect.VisibleFields(reflect.TypeFor[stages.Plan]()) {
		of := group.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct && !group.Anonymous {
			name, _, _ := strings.Cut(group.Tag.Get("json"), ",")
			all = append(all, described{"plan", []string{name}, of, nil})
		}
	}
	for _, c := range all {
		b := must.Get(os.ReadFile(filepath.Join(schemaFolder, c.schema+".schema.json")))(t)
		var node map[string]any
		must.Do(t, json.Unmarshal(b, &node))
		for _, step := range c.path {
			switch {
			case step == "[]":
				node = node["items"].(map[string]any)
			case node["properties"] != nil:
				node = node["properties"].(map[string]any)[step].(map[string]any)
			default:
				node = node[step].(map[string]any)
			}
		}
		var got []string
		for name := range node["properties"].(map[string]any) {
			got = append(got, name)
		}
		want := append(jsonFields(c.of), c.more...)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s %v has the fields %v, the program writes %v", c.schema, c.path, got, want)
		}
	}
}

// TestSchemasNameSchemes: a plan and a protocol may have every sampling scheme.
func TestSchemasNameSchemes(t *testing.T) {
	read := func(name string, into any) {
		data, err := os.ReadFile(filepath.Join(schemaFolder, name+".schema.json"))
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		must.Do(t, err)
	}
	var plan struct {
		Properties struct {
			Scheme struct {
				Properties struct {
					Scheme struct{ Enum []string }
				}
			}
		}
	}
	read("plan", &plan)
	var common struct {
		Defs struct {
			Sampler struct {
				OneOf []struct{ Required []string }
			}
		} `json:"$defs"`
	}
	read("common", &common)
	var known []string
	for _, one := range common.Defs.Sampler.OneOf {
		known = append(known, one.Required...)
	}
	for _, name := range sampling.KindNames() {
		if !slices.Contains(plan.Properties.Scheme.Properties.Scheme.Enum, name) {
			t.Errorf("plan.schema.json refuses the scheme %s", name)
		}
		if !slices.Contains(known, name) {
			t.Errorf("common.schema.json has no %s among the samplers", name)
		}
	}
}
