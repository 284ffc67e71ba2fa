package main

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestHelpNamesValues: every flag with a value has a name for it in help, which says no Go type, no
// default of an empty list, and keeps the text of the flag; no line of help is too wide.
func TestHelpNamesValues(t *testing.T) {
	goType := regexp.MustCompile(`(?m)^ +(?:-\w, )?--[a-z-]+ (?:string|strings|stringArray|int|uint|ints|float|float64Slice|duration|type)\b`)
	root := (&app{stdout: io.Discard, stderr: io.Discard}).command()
	for _, c := range append(root.Commands(), root) {
		check := func(f *pflag.Flag) {
			if f.NoOptDefVal == "" && !f.Hidden && valueName(f) == "" {
				t.Errorf("minsep %s --%s: no name for its value", c.Name(), f.Name)
			}
		}
		if !c.IsAdditionalHelpTopicCommand() {
			c.LocalFlags().VisitAll(check)
		}
		for _, width := range []int{60, 80, helpWidth} {
			if wide := tooWide(help(c, width), width); wide != "" {
				t.Errorf("minsep %s --help: wider than %d columns: %s", c.Name(), width, wide)
			}
		}
		help := c.UsageString()
		if strings.Contains(help, "(default [])") || strings.Contains(help, "(default )") {
			t.Errorf("minsep %s --help shows the default of an empty list", c.Name())
		}
		if twice := regexp.MustCompile(`(?m)^.*\(default.*\(default.*$`).FindString(help); twice != "" {
			t.Errorf("minsep %s --help shows two defaults:%s", c.Name(), twice)
		}
		if shown := goType.FindAllString(help, -1); len(shown) > 0 || strings.Contains(help, "\x00") {
			t.Errorf("minsep %s --help shows %q", c.Name(), shown)
		}
	}
	account, _, _ := root.Find([]string{"account"})
	if help := account.UsageString(); !regexp.MustCompile(`(?m)^ +--epsilon E +epsilon of the claim$`).MatchString(help) {
		t.Errorf("no line for --epsilon:\n%s", help)
	}
}
