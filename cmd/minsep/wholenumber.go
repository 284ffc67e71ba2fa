package main

import (
	"math"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
