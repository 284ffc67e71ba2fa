package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"minsep/internal/param"
	"minsep/internal/printable"
	"minsep/internal/stages"
)

// message returns the text of an error for the user: parameters are named by their flags, or by the
// plan's fields, and control characters are escaped.
func message(cmd *cobra.Command, err error) string {
	text := printable.Text(err.Error())
	var described []string // inserted last, since a description may hold the text of another fault
	param.Each(err, func(bad *param.Error) {
		// NUL stands in no text of printable, so that a mark is found once.
		mark := fmt.Sprintf("\x00%d\x00", len(described)/2)
		text = strings.Replace(text, printable.Text(bad.Error()), mark, 1)
		described = append(described, mark, describe(cmd, bad))
	})
	text = strings.NewReplacer(described...).Replace(text)
	// A stage and its command may refuse the same; cobra leaves lines empty.
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
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
	// Other values of a flag that was not given are defaults, which can be at fault too.
	empty := []string{"0", "NaN", "", `""`, "[]", "(none)"}
	if !given && len(names) == 1 && slices.Contains(empty, fmt.Sprint(bad.Value)) {
		return names[0] + " is missing: " + bad.Rule
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
	if fault, is := errors.AsType[*param.Error](err); is { // the value's own
		rule = fault.Rule
	}
	if rule == "" || bad.GetFlag().Name == "law" { // the file itself says what is wrong
		return err
	}
	if errors.Is(err, strconv.ErrRange) {
		rule = "is beyond the numbers that can be held"
	}
	value := bad.GetValue()
	if bad.GetFlag().Name == "bands" && value == "auto" {
		rule = stages.AutoBandsRule
	}
	return fmt.Errorf("--%s %s: %s", bad.GetFlag().Name, param.Printable(value), rule)
}

// typeRules are the rules for the values of flags, by pflag's name of the type.
var typeRules = map[string]string{
	"bool":         "must be true or false",
	"boolfunc":     "must be true or false",
	"duration":     "must be a time with a unit, such as 90s or 2h",
	"float64":      "must be a number, such as 0.5 or 1e-5",
	"float64Slice": "must be numbers with commas between them",
	"func":         "must be a number, such as 0.5 or 1e-5",
	"int":          "must be a whole number, such as 5000 or 5e3",
	"int64":        "must be a whole number, such as 5000 or 5e3",
	"intSlice":     "must be whole numbers with commas between them",
	"uint64":       "must be a whole number, and not below 0",
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

// takeZero are the flags with 0 as a value. Of others stages take 0 for "not given", and use the
// default; a user who types 0 means something else.
var takeZero = []string{"epsilon", "from-step", "momentum", "own-samples", "recheck", "seed", "weight-decay"}

// refuseEmpty returns the faults of flags that were given as 0 or as an empty text.
func refuseEmpty(cmd *cobra.Command) error {
	c := param.Checker{}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if flag.Hidden {
			return
		}
		optional := strings.Contains(flag.Usage, "default")
		value, rule := flag.Value.String(), ""
		switch value {
		case "0", "-0", "0s":
			if strings.Contains(flag.Value.Type(), "int") {
				rule = "must be at least 1"
			} else {
				rule = "must be above 0"
			}
			if slices.Contains(takeZero, flag.Name) {
				return
			}
		case "":
			// An empty value mostly comes from a variable of the shell that is not set.
			value, rule = `""`, "must not be empty"
			plans := strings.HasSuffix(flag.Usage, "instead of the plan's")
			if plans {
				rule += ": leave it out for the plan's"
			} else if flag.Value.Type() != "string" || (flag.Name == "key" || flag.Name == "out") && !optional {
				return // where they are required, the stage's own message is better
			}
		}
		if rule != "" && optional {
			rule += "; leave it out for the default"
		}
		c.Require(rule == "", flag.Name, value, rule)
	})
	return c.Err()
}
