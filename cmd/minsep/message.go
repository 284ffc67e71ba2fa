package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"minsep/internal/graphio"
	"minsep/internal/ownergraph"
	"minsep/internal/param"
	"minsep/internal/printable"
	"minsep/internal/stages"
	"minsep/sampling"
)

// message returns the text of an error for the user: parameters are named by their flags, or by the
// plan's fields, and control characters are escaped.
func message(cmd *cobra.Command, err error) string {
	text := printable.Text(err.Error())
	// Paths first: the user's file names may hold any text, and must not be taken for a parameter.
	eachPath(
		err,
		func(path string) { text = strings.ReplaceAll(text, printable.Text(path), printable.Line(path)) },
	)
	var described []string // inserted last, since a description may hold the text of another fault
	param.Each(err, func(bad *param.Error) {
		// NUL stands in no text of printable, so that a mark is found once.
		mark := fmt.Sprintf("\x00%d\x00", len(described)/2)
		text = strings.Replace(text, printable.Text(bad.Error()), mark, 1)
		described = append(described, mark, describe(cmd, bad))
	})
	return once(strings.NewReplacer(described...).Replace(text))
}

// eachPath calls f for every path that the errors of the operating system in err name.
func eachPath(err error, f func(path string)) {
	switch e := err.(type) {
	case *fs.PathError:
		f(e.Path)
	case *os.LinkError:
		f(e.Old)
		f(e.New)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			eachPath(one, f)
		}
	case interface{ Unwrap() error }:
		eachPath(e.Unwrap(), f)
	}
}

// once removes repeated lines about the same flag, since a stage and its command may both refuse a
// value. It also removes "one of them must be given" if one of them was given and its value is
// refused.
func once(text string) string {
	var lines []string
	seen := map[string]bool{}
	all := strings.Split(text, "\n")
	for _, line := range all {
		flags, _, found := strings.Cut(line, ": one of them must be given")
		if !found {
			flags, _, found = strings.Cut(line, ": exactly one of them must be given")
		}
		if found {
			// Where one of the flags was given with a faulty value, that fault is told, and the rest of them
			// are not missing.
			given := func(line string) bool {
				return slices.ContainsFunc(
					strings.Split(flags, ", "),
					func(flag string) bool { return strings.HasPrefix(line, flag+" ") },
				)
			}
			if slices.ContainsFunc(all, given) {
				continue
			}
		}
		what, _, _ := strings.Cut(line, ": ")
		if strings.HasPrefix(what, graphio.FaultPrefix+" ") { // one file may have several faults
			what = line
		}
		if strings.HasPrefix(what, "--") && seen[what] {
			continue
		}
		seen[what] = true
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// wayOut says how to find the value of a missing flag.
var wayOut = map[string]string{
	"delta":         "choose it well below one over the number of owners, as docs/choosing.md says",
	"coordinates":   "it is the number of parameters of the model",
	"max-per-owner": "1 keeps one example of each owner, and takes the least noise",
}

// describe formats a fault of a parameter by the name that the user knows: the flag, or the field
// of a plan.
func describe(cmd *cobra.Command, bad *param.Error) string {
	field := bad.Field
	// A plan's field may have been replaced by a flag: --out and --key of run.
	if flag := cmd.Flags().Lookup(field); flag != nil && flag.Changed && isOf(flag, bad.Value) { // the flag overrode the plan's field
		field = "--" + field
	}
	switch {
	case field != "" && (bad.Value == `""` || bad.Value == "(none)"):
		return field + " is missing: " + bad.Rule
	case field != "":
		return bad.Message(field)
	}
	var names []string
	given := false
	for _, name := range strings.Split(strings.ReplaceAll(bad.Param, ", ", " and "), " and ") {
		flag := flagOf(cmd, name)
		if flag == "" {
			return bad.Message(bad.Param)
		}
		given = given || cmd.Flags().Changed(flag)
		names = append(names, "--"+flag)
	}
	if !given && len(names) == 1 && isEmpty(bad.Value) {
		text := names[0] + " is missing: " + bad.Rule
		if help := wayOut[strings.TrimPrefix(names[0], "--")]; help != "" {
			text += "; " + help
		}
		return text
	}
	if fmt.Sprint(bad.Value) == "true" { // a flag that is on needs no value in the message
		without := *bad
		without.Value = nil
		bad = &without
	}
	return bad.Message(strings.Join(names, ", "))
}

// isOf reports whether value may come from the flag. A plan's own value of another type is refused
// even if a flag takes its place, and then the message must name the field.
func isOf(flag *pflag.Flag, value any) bool {
	text := flag.Value.String()
	return value == nil ||
		slices.Contains([]string{text, strconv.Quote(text), param.Printable(text)}, fmt.Sprint(value))
}

// flagFault turns the parser's error about a value of the wrong type into the rule for that flag.
func flagFault(err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	rule := typeRules[bad.GetFlag().Value.Type()]
	if rule == "" {
		return err
	}
	if errors.Is(err, strconv.ErrRange) {
		rule = "is beyond the numbers that can be held"
	}
	value := bad.GetValue()
	if bad.GetFlag().Name == "bands" && value == "auto" {
		rule = stages.AutoBandsRule
	}
	return &param.Error{Param: bad.GetFlag().Name, Value: param.Printable(value), Rule: rule}
}

// typeRules are the rules for the values of flags, by pflag's name of the type.
var typeRules = map[string]string{
	"bool":         "must be true or false",
	"duration":     "must be a time with a unit, such as 90s or 2h",
	"float64":      "must be a number, such as 0.5 or 1e-5",
	"float64Slice": "must be numbers with commas between them",
	"int":          "must be a whole number, such as 5000 or 5e3",
	"int64":        "must be a whole number, such as 5000 or 5e3",
	"intSlice":     "must be whole numbers with commas between them",
	"order":        "must be " + strings.Join(ownergraph.Orders, " or "),
	"type of ids":  "must be auto, int64 or string",
	"uint64":       "must be a whole number, and not below 0",
}

// isEmpty reports whether the value of a flag that was not given is empty. Other values are
// defaults, which can be at fault too.
func isEmpty(value any) bool {
	switch fmt.Sprint(value) {
	case "0", "", `""`, "[]", "(none)":
		return true
	}
	return false
}

// flagNames maps parameters to flags where their names differ.
var flagNames = map[string]string{"out": "run", "max-examples-per-owner": "max-per-owner", "key-file": "key"}

// flagOf returns the flag of a parameter; "" if the command has none.
func flagOf(cmd *cobra.Command, name string) string {
	for _, spelled := range []string{strings.NewReplacer(" ", "-", "_", "-").Replace(name), name} {
		for _, flag := range []string{spelled, flagNames[spelled]} {
			if cmd.Flags().Lookup(flag) != nil {
				return flag
			}
		}
	}
	return ""
}

// zeroRules are the rules that a flag breaks when it is given as 0. Stages take 0 for "not given"
// and use the default; a user who types 0 means something else. Flags of a scheme have their own
// rules.
var zeroRules = func() map[string]string {
	rules := map[string]string{
		"arity":            "must be at least 2",
		"bands":            "must be at least 1",
		"buckets":          "must be at least 1",
		"buffers":          "must be at least 1",
		"cpu-time":         "must be above 0",
		"coordinates":      "must be at least 1",
		"epochs":           "must be above 0",
		"examples":         "must be at least 1",
		"learning-rate":    "must be above 0",
		"max-bands":        "must be at least 1",
		"max-neighborhood": "must be at least 1",
		"max-per-owner":    "must be at least 1",
		"noise-multiplier": "must be above 0",
		"pad":              "must be at least 1",
		"pools":            "must be at least 1; leave it out for one table without pools",
		"rounds":           "must be at least 1",
		"samples":          "must be at least 1",
		"shards":           "must be at least 1",
		"stamps":           "must be at least 1",
		"steps":            "must be at least 1",
		"steps-per-file":   "must be at least 1",
		"target":           "must be above 0",
		"timeout":          "must be above 0",
		"warmup-steps":     "must be at least 1: the schedule without a warm-up is cosine",
	}
	for _, x := range sampling.Parameters {
		if x.Zero != "" {
			rules[x.Name] = x.Zero
		}
	}
	return rules
}()

// refuseZeros returns the faults of flags that were given as 0 or as an empty text.
func refuseZeros(cmd *cobra.Command) error {
	c := param.Checker{}
	refuse := func(flag *pflag.Flag, value, rule string) {
		if strings.Contains(flag.Usage, "default") {
			rule += "; leave it out for the default"
		}
		c.Require(false, flag.Name, value, rule)
	}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Changed || flag.Hidden {
			return
		}
		rule := zeroRules[flag.Name]
		switch v := flag.Value.String(); {
		case rule != "" && (v == "0" || v == "0s" || v == "-0"):
			refuse(flag, v, rule)
		case v != "" || flag.Value.Type() != "string":
		case strings.HasSuffix(flag.Usage, "instead of the plan's"):
			refuse(flag, `""`, "must not be empty: leave it out for the plan's")
		// An empty value mostly comes from a variable of the shell that is not set.
		case flag.Name != "key" && flag.Name != "out" || strings.Contains(flag.Usage, "default"): // where they are required, the stage's own message is better
			refuse(flag, `""`, "must not be empty")
		}
	})
	return c.Err()
}
