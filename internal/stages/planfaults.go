package stages

import (
	"bytes"
	"cmp"
	"errors"
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

// ParsePlan reads a plan: JSON, in which comments and a comma after the last element are allowed. Its error joins every fault of the text: unknown fields, fields that are given twice, values
// of a wrong type, and zeros in place of a default.
func ParsePlan(name string, b []byte) (p Plan, err error) {
	b = bytes.TrimPrefix(b, []byte("\ufeff")) // some editors begin UTF-8 with a byte order mark
	if len(bytes.TrimSpace(b)) == 0 {
		return p, param.Fault("plan", name, "is empty; minsep run --example prints a plan to start from")
	}
	if b, err = strictjson.Plain(b); err != nil {
		return p, &ParamError{Param: "plan", Value: name, Rule: err.Error()}
	}
	c := param.Checker{}
	for _, fault := range strictjson.Decode(b, &p) {
		c.Add(textFault(fault))
	}
	if p.Strategy.Steps == 0 {
		p.Strategy.Steps = p.Scheme.Steps
	}
	if p.Noise.ClipNorm == 0 {
		p.Noise.ClipNorm = 1
	}
	return p, c.Err()
}

// textFault is a fault of a plan's text in words.
func textFault(f strictjson.Fault) *ParamError {
	field := cmp.Or(f.Field, "the plan")
	bad := &ParamError{Param: field, Field: field, Rule: f.Rule}
	if f.Value != "" {
		bad.Value = f.Value
	}
	switch {
	case f.Field == "" && f.Rule == strictjson.MustBeObject:
		bad.Rule += ", { and } with fields between them; minsep run --example prints a plan to start from"
	case f.Rule == strictjson.Missing:
		bad.Rule += "; minsep run --example prints a plan that has it"
	case f.Rule == strictjson.UnknownField:
		bad.Rule += ": " + otherFields(f.Field)
	case f.Field == "strategy.bands" && f.Value == `"auto"`:
		bad.Rule = AutoBandsRule
	}
	return bad
}

// otherFields says which field may be meant by one that no plan has: a field of another group with
// this name, a field that a flag of this name sets, or else any field of the group.
func otherFields(field string) string {
	name := field[strings.LastIndexByte(field, '.')+1:]
	group := field[:len(field)-len(name)]
	var places, siblings []string
	for _, path := range strictjson.Paths[Plan]() {
		if path == name { // the same word again: its place is the difference
			places = append(places, path+" outside of all groups")
		} else if strings.HasSuffix(path, "."+name) {
			places = append(places, path)
		}
		if rest, ok := strings.CutPrefix(path, group); ok && !strings.Contains(rest, ".") {
			siblings = append(siblings, rest)
		}
	}
	if of := FieldOf(name); len(places) == 0 && of != "" {
		places = []string{of}
	}
	if len(places) > 0 {
		return "it is " + strings.Join(places, " or ")
	}
	return "there are " + words.List(siblings)
}

// Validate reports every fault that can be seen without the files, each once and with its field.
func (p Plan) Validate() error {
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
	c.Requiref(
		len(p.Name) <= MaxName && printable.Line(p.Name) == p.Name,
		"name",
		strconv.Quote(p.Name),
		"must be one line of at most %d bytes", MaxName,
	)
	c.Add(p.NounFaults())
	c.Require(p.Out != "", "out", `""`, "must name the run directory")
	return EachOnce(InPlan("", c.Err()))
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
	for _, path := range strictjson.Paths[Plan]() {
		group, name, inGroup := strings.Cut(path, ".")
		if !inGroup {
			name = group
		} else if fields[group] == nil {
			fields[group] = map[string]string{}
		}
		words := inWords(name)
		if inGroup {
			fields[group][words] = path
		}
		if all[words] == "" {
			all[words] = path
		}
	}
	fields["bound"]["graph"] = "graph.paths"
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

// EachOnce leaves out the faults that another one repeats: stages share parameters, and each refuses
// them.
func EachOnce(err error) error {
	var list []error
	var seen []string
	each(err, func(one error) {
		text := one.Error()
		if bad, ok := one.(*ParamError); ok && bad.Field != "" {
			text = bad.Field + ": " + bad.Rule
		}
		if !slices.Contains(seen, text) {
			seen, list = append(seen, text), append(list, one)
		}
	})
	return errors.Join(list...)
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
