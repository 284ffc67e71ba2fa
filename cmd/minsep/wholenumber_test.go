package main

import (
	"testing"

	"github.com/spf13/pflag"
)

func TestWholeNumbers(t *testing.T) {
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	n := f.Int("n", 0, "")
	w := wholeNumber{f.Lookup("n").Value}
	for text, want := range map[string]int{"7": 7, "1e6": 1_000_000, "2.5e1": 25, "-1e2": -100, "0x10": 16, "9007199254740993": 9007199254740993} {
		if err := w.Set(text); err != nil || *n != want {
			t.Errorf("%s: %d, %v, want %d", text, *n, err, want)
		}
	}
	for _, text := range []string{"1.5", "1e-1", "NaN", "Inf", "1e17", "", "six"} {
		if w.Set(text) == nil {
			t.Errorf("%q is taken as %d", text, *n)
		}
	}
}
