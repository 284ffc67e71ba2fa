package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// didYouMean adds to the fault of an unknown command or flag the known one whose name is nearest.
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
	}
	if name := nearest(word, names); name != "" {
		return fmt.Errorf("%w (did you mean %s%s?)", err, dashes, name)
	}
	return err
}

// nearest is the name that takes the fewest changes of a letter, at most a third of the word's; ""
// if none does. Hyphens, underscores and capitals do not count.
func nearest(word string, names []string) string {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s)) }
	best, least := "", len(plain(word))/3+1
	for _, name := range names {
		if d := changes(plain(word), plain(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// changes is the Levenshtein distance of two words: letters put in, left out or replaced.
func changes(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := before
			if a[i] != b[j] {
				replaced++
			}
			before = row[j+1]
			row[j+1] = min(replaced, row[j]+1, before+1)
		}
	}
	return row[len(b)]
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
