package pipelines

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"minsep/internal/param"
)

// ParsePlan reads a plan: JSON, in which // comments and commas behind the last element are allowed. It returns an error for what is
// not JSON. Unknown fields, fields that are given twice and values of a wrong type are faults that [Plan.Validate] reports, together with
// what is wrong with the values.
func ParsePlan(name string, b []byte) (Plan, error) {
	b = withoutComments(b)
	if !json.Valid(b) {
		return Plan{}, &ParamError{Package: "pipelines", Param: "plan", Value: name, Rule: invalid(b).Error()}
	}
	var p Plan
	p.unread = decodeStrict(b, &p)
	if p.Strategy.Steps == 0 {
		p.Strategy.Steps = p.Scheme.Steps
	}
	if p.Noise.ClipNorm == 0 {
		p.Noise.ClipNorm = 1
	}
	return p, nil
}

// Validate reports every fault that can be seen without the files, each once.
func (p Plan) Validate() error { return p.faults(p.valueFaults()) }

// valueFaults are the faults of the values.
func (p Plan) valueFaults() error {
	c := param.Checker{Package: "pipelines"}
	c.Require((p.Graph != nil) != (p.Examples != 0), "graph and examples", fmt.Sprintf("%v, %d", p.Graph != nil, p.Examples), "exactly one of them must be given")
	c.Require((p.Graph != nil) == (p.Bound != nil), "bound", p.Bound != nil, "must be given with a graph, and only then")
	if p.Graph != nil {
		c.Add(p.bound().Validate())
	}
	strategy := p.Strategy
	if strategy.Steps == p.Scheme.Steps && strategy.Steps < 1 {
		strategy.Steps = 1 << 14 // the scheme's fault; what else is wrong can be seen at any number of steps
	}
	c.Require(strategy.Steps == p.Scheme.Steps || p.Scheme.Steps < 1, "steps of the strategy", p.Strategy.Steps, fmt.Sprintf("must be %d, as the scheme has, or left out", p.Scheme.Steps))
	c.Add(strategy.Validate())
	c.Add(p.account().Validate())
	c.Add(p.form().Validate())
	c.Add(p.noise(1).Validate())
	c.Require(p.Out != "", "out", `""`, "must name the run directory")
	return c.Err()
}

// faults joins the faults of the plan's text and others, each once: stages share parameters, and a field that could not be read
// is as if it were not given.
func (p Plan) faults(others error) error {
	var list []error
	var fields []string
	group := false
	for _, f := range p.unread {
		list = append(list, &ParamError{Package: "pipelines", Param: "plan field", Value: or(f.field, "(all)"), Rule: f.rule})
		fields = append(fields, plain(f.field[strings.LastIndexByte(f.field, '.')+1:]))
		group = group || f.rule == "must be an object"
	}
	if group { // of which nothing is known: what follows from that says nothing
		return errors.Join(list...)
	}
	follows := func(err error) bool {
		bad, ok := err.(*ParamError)
		return ok && slices.ContainsFunc(fields, func(field string) bool {
			return strings.Contains(" "+plain(bad.Param)+" ", " "+field+" ")
		})
	}
	var seen []string
	each(others, func(err error) {
		if !slices.Contains(seen, err.Error()) && !follows(err) {
			seen, list = append(seen, err.Error()), append(list, err)
		}
	})
	return errors.Join(list...)
}

// plain is the name of a field or parameter in words.
func plain(name string) string {
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
