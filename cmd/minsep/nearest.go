package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"minsep/internal/words"
)

// didYouMean adds to the error of an unknown command or flag the known one with the nearest name,
// or the way to do the same thing in minsep.
func didYouMean(cmd *cobra.Command, args []string, err error) error {
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &unknown):
		return flagMeant(cmd, unknown, err)
	case !cmd.HasParent() && len(args) > 0:
		return commandMeant(cmd, args[0], err)
	}
	return err
}

// commandMeant is didYouMean for an unknown command.
func commandMeant(root *cobra.Command, word string, err error) error {
	if text := otherCommands[strings.ToLower(word)]; text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	var names []string
	for _, c := range root.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	if name := words.Nearest(word, names); name != "" {
		return fmt.Errorf("%w (did you mean %s?)", err, name)
	}
	return err
}

// flagMeant is didYouMean for an unknown flag: it may also be a flag of other commands.
func flagMeant(cmd *cobra.Command, unknown *pflag.NotExistError, err error) error {
	word := unknown.GetSpecifiedName()
	// minsep has no flags of one letter but -h: a word after one hyphen lacks the other hyphen.
	if letters := unknown.GetSpecifiedShortnames(); letters != "" {
		word, _, _ = strings.Cut(letters, "=")
		err = fmt.Errorf("unknown flag: -%s", word)
	}
	if len(word) < 2 {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	// A flag of another program comes before a flag of a similar name.
	if text := cmp.Or(otherFlags[cmd.Name()+" --"+word], otherFlags["--"+word]); text != "" && !slices.Contains(names, word) {
		return fmt.Errorf("%w: %s", err, text)
	}
	name := words.Nearest(word, names)
	if other := otherNames[word]; slices.Contains(names, other) {
		name = other
	}
	if name != "" {
		return fmt.Errorf("%w (did you mean --%s?)", err, name)
	}
	var have []string
	for _, c := range cmd.Root().Commands() {
		if f := c.Flags().Lookup(word); f != nil && !f.Hidden && !c.Hidden {
			have = append(have, c.Name())
		}
	}
	if len(have) > 0 {
		return fmt.Errorf("%w: it is one of minsep %s", err, inWords(have))
	}
	return err
}

// otherCommands maps commands that people expect to the ones that do it.
var otherCommands = map[string]string{
	"certify":  "minsep account certifies, and minsep run does as one of its stages",
	"check":    "minsep inspect DIR checks a run directory",
	"validate": "minsep inspect DIR checks a run directory, and minsep run PLAN.json --dry-run a plan",
	"verify":   "minsep inspect DIR checks a run directory and its certificate; minsep account certifies",
	"train":    "minsep trains no model: minsep run PLAN.json makes batches and noise for a trainer (docs/python.md)",
	"init":     "minsep keygen FILE makes a key, and minsep run --example prints a plan to start from",
	"example":  "minsep run --example prints a plan to start from",
	"version":  "minsep --version prints it (did you mean --version?)",
}

// otherFlags says, for flags that people expect of a command, how it does the same thing.
var otherFlags = map[string]string{
	"--epochs":        "--steps says how many there are, and --epoch-steps how many steps an epoch has",
	"plan --bands":    "plan tries several: --max-bands N is the most of them",
	"plan --cpu-time": "plan has no limit of time: Ctrl-C prints the rows that it has by then, and --scheme and --kind leave it fewer",
	"plan --key":      "plan needs none: minsep run does",
	"plan --min-sep":  "plan tries several, and --scheme b-min-sep those of one scheme; a plan that it wrote may be changed at scheme.min_sep",
	"plan --strategy": "plan makes the strategies itself: --kind K is for only one kind of them",
	"plan --timeout":  "plan has no limit of time: Ctrl-C prints the rows that it has by then, and --scheme and --kind leave it fewer",
	"run --plan":      "the plan is an argument, as in minsep run plan.json",
}

// meant adds to a rule that lists words the listed word that is nearest to the value.
func meant(value any, rule string) string {
	text := fmt.Sprint(value)
	list, ok := strings.CutPrefix(rule, "must be ")
	list, _, _ = strings.Cut(list, ";")
	switch {
	case slices.Contains([]string{"dpsgd", "dp-sgd", "DP-SGD", "DPSGD"}, text) && strings.Contains(list, "poisson"):
		return rule + " (DP-SGD is scheme poisson with kind identity)"
	case strings.EqualFold(text, "adamw") && strings.Contains(list, "adam"):
		return rule + " (AdamW is adam with --weight-decay, or strategy.weight_decay of a plan)"
	case !ok || len(text) > 40 || !lettered.MatchString(text):
		return rule
	}
	var names []string
	for _, found := range listed.FindAllStringSubmatch(" "+list, -1) {
		names = append(names, found[1])
	}
	if name := words.Nearest(text, names); name != "" && name != text && len(text) > 2 {
		return rule + " (did you mean " + name + "?)"
	}
	return rule
}

// listed matches the words of a list in a rule, each alone between commas, "or" or "and".
var listed = regexp.MustCompile(`(?:^ one of|,? or one of|, or|, and|^|,| or| and) ([a-z][a-z0-9]*(?:-[a-z0-9]+)*)\b`)

// lettered matches values that may be a misspelled word: those with a letter.
var lettered = regexp.MustCompile(`[A-Za-z]`)

// otherNames maps flags of other programs to minsep's.
var otherNames = map[string]string{"lr": "learning-rate", "bs": "batch-size", "data": "graph", "input": "graph", "params": "coordinates", "parameters": "coordinates", "iterations": "steps", "max-grad-norm": "clip-norm", "output": "out"}

// acceptPowers lets the command's integer flags take 1e6 as well as 1000000.
func acceptPowers(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "int", "int64", "uint64":
			f.Value = wholeNumber{f.Value}
		}
	})
}

// wholeNumber is the value of an integer flag that may be given as 1e6, exact up to 2^53.
type wholeNumber struct{ pflag.Value }

func (w wholeNumber) Set(text string) error {
	err := w.Value.Set(text)
	if x, bad := strconv.ParseFloat(text, 64); err != nil && bad == nil && x == math.Trunc(x) && math.Abs(x) <= 1<<53 {
		return w.Value.Set(strconv.FormatFloat(x, 'f', -1, 64))
	}
	return err
}
