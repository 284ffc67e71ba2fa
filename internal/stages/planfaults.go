package stages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"minsep/internal/param"
	"minsep/internal/printable"
	"minsep/internal/strictjson"
	"minsep/internal/words"
)

// AutoBandsRule is the rule for somebody who gives "auto" as a number of bands. The best number
// depends on the noise multiplier, and bounds the min-sep of the scheme, so no stage alone can
// choose it.
const AutoBandsRule = "must be a whole number: minsep plan chooses it, together with the scheme and its min-sep"

// ParsePlan reads a plan: JSON, in which // comments and a comma after the last element are
// allowed. It returns an error for text that is not JSON. Unknown fields, fields that are given
// twice, values of a wrong type, and zeros in place of a default are faults that [Plan.Validate]
// reports, together with the faults of the values.
func ParsePlan(name string, b []byte) (Plan, error) {
	b = strictjson.Plain(bytes.TrimPrefix(b, []byte("\ufeff"))) // some editors begin UTF-8 with a byte order mark
	if len(bytes.TrimSpace(b)) == 0 {
		return Plan{}, param.Fault("plan", name, "is empty; minsep run --example prints a plan to start from")
	}
	if err := strictjson.Invalid(b); err != nil {
		return Plan{}, &ParamError{Param: "plan", Value: name, Rule: err.Error()}
	}
	if isComparison(b) {
		return Plan{}, &ParamError{Param: "plan", Value: name, Rule: comparisonRule}
	}
	var p Plan
	p.unread = strictjson.Decode(b, &p)
	given := map[string]string{}
	flattenJSON("", ".", b, given)
	for i, f := range p.unread {
		if f.Field == "strategy.bands" && f.Value == `"auto"` {
			p.unread[i].Rule = AutoBandsRule
		}
		// A misspelt field would otherwise leave its default in place without a word.
		if f.Rule == strictjson.UnknownField {
			var meant []string
			p.unread[i].Rule, meant = unknownRule(f.Field)
			if len(meant) == 1 && given[meant[0]] == "" { // a field that is given too has faults of its own
				p.misspelt = append(p.misspelt, meant[0])
			}
		}
	}
	if p.Strategy.Steps == 0 {
		p.Strategy.Steps = p.Scheme.Steps
	}
	if p.Noise.ClipNorm == 0 {
		p.Noise.ClipNorm = 1
	}
	return p, nil
}

// ownField is the field that names the group's own choice. Its name differs between the groups, so
// that a user who knows one of them writes it in the other.
var ownField = map[string]string{"scheme": "scheme.scheme", "strategy": "strategy.kind"}

// otherNames are the names under which users look for a field of [ownField].
var otherNames = []string{"name", "kind", "type", "scheme", "strategy"}

// unknownRule says which field was meant by one that no plan has: a field of another group with
// this name, a field that a flag of this name sets, or a field of the group with a name like it.
// meant are the fields that may stand for it, none if nothing is like it.
func unknownRule(field string) (rule string, meant []string) {
	name := field[strings.LastIndexByte(field, '.')+1:]
	group := field[:len(field)-len(name)]
	if own := ownField[strings.TrimSuffix(group, ".")]; own != "" && slices.Contains(otherNames, name) {
		return strictjson.UnknownField + " (did you mean " + own + "?)", []string{own}
	}
	places := slices.DeleteFunc(strictjson.Paths[Plan](), func(path string) bool {
		return path != name && !strings.HasSuffix(path, "."+name)
	})
	if of := FieldOf(name); len(places) == 0 && of != "" {
		places = []string{of}
	}
	if len(places) > 0 {
		shown := slices.Clone(places)
		for i, path := range shown {
			if path == name { // the same word again: its place is the difference
				shown[i] += " outside of all groups"
			}
		}
		return strictjson.UnknownField + ": it is " + strings.Join(shown, " or "), places
	}
	var siblings []string
	for _, path := range strictjson.Paths[Plan]() {
		if rest, ok := strings.CutPrefix(path, group); ok {
			rest, _, _ = strings.Cut(rest, ".")
			siblings = append(siblings, rest)
		}
	}
	if near := words.Nearest(name, slices.Compact(siblings)); near != "" {
		return strictjson.UnknownField + " (did you mean " + group + near + "?)", []string{group + near}
	}
	return strictjson.UnknownField + ": docs/schemas/plan.schema.json has all of them", nil
}

// comparisonRule is the rule for somebody who gives the output of minsep plan --json in place of
// the plan that it wrote.
const comparisonRule = "is the output of minsep plan --json, a comparison of mechanisms, and not a plan for minsep run: " +
	"minsep plan --out FILE writes the best row as a plan"

// isComparison reports whether JSON is the output of minsep plan --json.
func isComparison(b []byte) bool {
	var c struct {
		Request json.RawMessage `json:"request"`
		Rows    json.RawMessage `json:"rows"`
	}
	return json.Unmarshal(b, &c) == nil && c.Request != nil && c.Rows != nil
}

// Validate reports every fault that can be seen without the files, each once.
func (p Plan) Validate() error { return p.Faults(p.ValueFaults()) }

// ValueFaults returns the faults of the values, each with its field of the plan.
func (p Plan) ValueFaults() error {
	c := param.Checker{}
	c.Require(
		(p.Graph != nil) != (p.Examples != 0),
		"graph and examples",
		nil,
		"exactly one of them must be given",
	)
	c.Require((p.Graph != nil) == (p.Bound != nil), "bound", nil, "must be given with a graph, and only then")
	for _, s := range All {
		if s.has(p) {
			c.Add(InPlan(s.Group, s.faults(p)))
		}
	}
	c.Require(
		len(p.Name) <= MaxName && printable.Line(p.Name) == p.Name,
		"name",
		strconv.Quote(p.Name),
		fmt.Sprintf("must be one line of at most %d bytes", MaxName),
	)
	c.Add(p.NounFaults())
	c.Require(p.Out != "", "out", `""`, "must name the run directory")
	return InPlan("", c.Err())
}

// planFields has the paths of a plan's fields by their names in words, for each group. Under "" it
// has all fields; the first group with a name counts.
var planFields = func() map[string]map[string]string {
	all := map[string]string{
		"steps of the strategy": "strategy.steps",
		"max per owner":         "bound.max_examples_per_owner",
		"graph":                 "graph",
		"key file":              "key",
		"bounded":               "graph",
		"batch size or prob":    "scheme.batch_size, scheme.prob",
	}
	fields := map[string]map[string]string{"": all}
	t := reflect.TypeFor[Plan]()
	tag := func(f reflect.StructField) string { name, _, _ := strings.Cut(f.Tag.Get("json"), ","); return name }
	for i := range t.NumField() {
		f, of := t.Field(i), map[string]string{}
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() != reflect.Struct || t.Field(i).Anonymous {
			continue
		}
		for _, field := range reflect.VisibleFields(inner) { // with the fields of embedded structs, such as a training's
			if !field.IsExported() || field.Anonymous || tag(field) == "-" {
				continue
			}
			path := tag(f) + "." + tag(field)
			words := inWords(tag(field))
			of[words] = path
			if all[words] == "" {
				all[words] = path
			}
		}
		fields[tag(f)] = of
	}
	fields["bound"]["graph"] = "graph.paths"
	for _, field := range reflect.VisibleFields(t) {
		if name := tag(field); name != "" && all[inWords(name)] == "" {
			all[inWords(name)] = name
		}
	}
	all["scheme"], all["strategy"], all["examples"] = "scheme.scheme", "strategy.kind", "examples"
	return fields
}()

// FieldOf returns the path of a plan's field by its own name or a flag's, such as max-per-owner, or
// "".
func FieldOf(name string) string {
	return planFields[""][inWords(name)]
}

// flagInText matches a flag in a sentence.
var flagInText = regexp.MustCompile(`\B--[a-z]+(-[a-z]+)*`)

// WithFields returns a text for the user of a plan: the fields in place of the flags that set the
// same. Flags that a plan's own command has stay, such as --out.
func WithFields(text string) string {
	return flagInText.ReplaceAllStringFunc(text, func(flag string) string {
		switch field := FieldOf(flag[2:]); {
		case flag == "--graph":
			return "graph.paths"
		case flag == "--id-type":
			return "graph.example_type and graph.owner_type"
		case strings.Contains(field, "."):
			return field
		}
		return flag
	})
}

// InPlan replaces the names of parameters in an error by the paths of their fields in a plan, of
// the group if it has them.
func InPlan(group string, err error) error {
	param.Each(err, func(bad *param.Error) {
		if bad.Field != "" {
			return
		}
		var paths []string
		for _, name := range strings.Split(strings.ReplaceAll(bad.Param, ", ", " and "), " and ") {
			name = inWords(name)
			path := planFields[group][name]
			if path == "" {
				path = planFields[""][name]
			}
			if path != "" && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
		bad.Field = strings.Join(paths, ", ")
	})
	return err
}

// Faults joins the faults of the plan's text with others, each once. Stages share parameters, and a
// field that could not be read counts as not given, so its absence is no further fault.
func (p Plan) Faults(others error) error {
	var list []error
	var fields []string
	group := false
	for _, f := range p.unread {
		if f.Rule == strictjson.Missing && p.wasMeant(f.Field) {
			continue
		}
		bad := &ParamError{Param: cmp.Or(f.Field, "the plan"), Rule: f.Rule, Field: cmp.Or(f.Field, "the plan")}
		if f.Field == "" && f.Rule == strictjson.MustBeObject {
			bad.Rule += ", { and } with fields between them; minsep run --example prints a plan to start from"
		}
		if f.Rule == strictjson.Missing {
			bad.Rule += "; minsep run --example prints a plan that has it"
		}
		if f.Value != "" {
			bad.Value = f.Value
		}
		list = append(list, bad)
		fields = append(fields, f.Field)
		group = group || f.Rule == strictjson.MustBeObject
	}
	if group { // nothing is known of it, so that consequences say nothing
		return errors.Join(list...)
	}
	// A field that could not be read is missing for the checks of values too: their fault follows. So
	// does the fault of a missing field that was meant by an unknown one.
	follows := func(bad *ParamError) bool {
		missing := bad.Value == nil || slices.Contains([]string{"", "0", `""`, "(none)"}, fmt.Sprint(bad.Value))
		return slices.ContainsFunc(strings.Split(bad.Field, ", "), func(field string) bool {
			return slices.Contains(fields, field) || missing && p.wasMeant(field)
		})
	}
	var seen []string
	each(others, func(err error) {
		text := err.Error()
		if bad, ok := err.(*ParamError); ok {
			if follows(bad) {
				return
			}
			text = cmp.Or(bad.Field, fmt.Sprint(bad.Param, bad.Value)) + bad.Rule
		}
		if !slices.Contains(seen, text) {
			seen, list = append(seen, text), append(list, err)
		}
	})
	return errors.Join(list...)
}

// wasMeant reports whether a field, or a group that holds it, was given under another name.
func (p Plan) wasMeant(field string) bool {
	return slices.ContainsFunc(p.misspelt, func(meant string) bool {
		return field == meant || strings.HasPrefix(field, meant+".")
	})
}

// inWords returns the name of a field or parameter in words.
func inWords(name string) string {
	return strings.NewReplacer("_", " ", "-", " ").Replace(name)
}

// each calls f for every error that is joined in err.
func each(err error, f func(error)) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			each(one, f)
		}
	} else if err != nil {
		f(err)
	}
}
