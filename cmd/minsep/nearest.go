package main

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// didYouMean adds to the fault of an unknown command or flag the known one with the nearest
// name.
func didYouMean(cmd *cobra.Command, args []string, err error) error {
	var names []string
	word, dashes := "", ""
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1:
		word, dashes = unknown.GetSpecifiedName(), "--"
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
	case unknown == nil && !cmd.HasParent() && len(args) > 0:
		word = args[0]
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
		}
		if word == "version" {
			names = []string{"--version"}
		}
	}
	name := nearest(word, names)
	if other := otherNames[word]; dashes != "" && slices.Contains(names, other) {
		name = other
	}
	if name != "" {
		return fmt.Errorf("%w (did you mean %s%s?)", err, dashes, name)
	}
	return err
}

// meant adds to a rule of which words a value may be the one that is nearest to it.
func meant(value any, rule string) string {
	text := fmt.Sprint(value)
	list, ok := strings.CutPrefix(rule, "must be ")
	list, _, _ = strings.Cut(list, ";")
	switch {
	case slices.Contains([]string{"dpsgd", "dp-sgd", "DP-SGD", "DPSGD"}, text) && strings.Contains(list, "poisson"):
		return rule + " (DP-SGD is scheme poisson with kind identity)"
	case strings.EqualFold(text, "adamw") && strings.Contains(list, "adam"):
		return rule + " (AdamW is adam with --weight-decay, or strategy.weight_decay of a plan)"
	case !ok || len(text) > 40 || !listed.MatchString(strings.ToLower(text)):
		return rule
	}
	names := listed.FindAllString(list, -1)
	if name := nearest(text, names); name != "" && name != text && len(text) > 2 {
		return rule + " (did you mean " + name + "?)"
	}
	return rule
}

// listed finds the words of a list that a rule has.
var listed = regexp.MustCompile(`\b[a-z][a-z0-9]*(?:-[a-z0-9]+)*`)

// otherNames are the names of flags in other programs.
var otherNames = map[string]string{"lr": "learning-rate", "bs": "batch-size", "data": "graph", "input": "graph", "params": "coordinates", "parameters": "coordinates", "iterations": "steps", "max-grad-norm": "clip-norm", "output": "out"}

// nearest is the only name that begins with the word, or the one that takes the fewest changes of a
// letter, at most a third of the word's; "" if there is none. Hyphens, underscores and capitals do
// not count.
func nearest(word string, names []string) string {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s)) }
	begins := func(name string) bool { return len(word) > 1 && strings.HasPrefix(plain(name), plain(word)) }
	if i := slices.IndexFunc(names, begins); i >= 0 && !slices.ContainsFunc(names[i+1:], begins) {
		return names[i]
	}
	best, least := "", len(plain(word))/3+1
	for _, name := range names {
		if d := changes(plain(word), plain(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// changes is the distance of two words: letters put in, left out or replaced, and neighbours that
// changed places.
func changes(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := range len(a) {
		for j := range len(b) {
			replaced := rows[i][j]
			if a[i] != b[j] {
				replaced++
			}
			least := min(replaced, rows[i][j+1]+1, rows[i+1][j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				least = min(least, rows[i-1][j-1]+1)
			}
			rows[i+1][j+1] = least
		}
	}
	return rows[len(a)][len(b)]
}

// acceptPowers lets the flags of a command that are whole numbers be given as 1e6, too.
func acceptPowers(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "int", "int64", "uint64":
			f.Value = wholeNumber{f.Value}
		}
	})
}

// wholeNumber is the value of a flag that takes a whole number in any notation.
type wholeNumber struct{ pflag.Value }

func (w wholeNumber) Set(text string) error {
	err := w.Value.Set(text)
	if x, bad := strconv.ParseFloat(text, 64); err != nil && bad == nil && x == math.Trunc(x) && math.Abs(x) <= 1<<53 {
		return w.Value.Set(strconv.FormatFloat(x, 'f', -1, 64))
	}
	return err
}
