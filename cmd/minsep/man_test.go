package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestManPages: each command has a page with all its flags, and no line of its text is taken for a
// request of roff.
func TestManPages(t *testing.T) {
	root := (&app{stdout: io.Discard, stderr: io.Discard}).command()
	requests := []string{".TH", ".SH", ".TP", ".B ", ".BR", ".PP", ".nf", ".fi"}
	for _, c := range append(root.Commands(), root) {
		page := manPage(c)
		for line := range strings.Lines(page) {
			known := false
			for _, r := range requests {
				known = known || strings.HasPrefix(line, r)
			}
			if !known && (strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'")) {
				t.Errorf("minsep %s: a line that roff takes for a request: %q", c.Name(), line)
			}
		}
		if !strings.Contains(page, ".SH NAME\n"+roff(manName(c))) || strings.Contains(page, "\x00") {
			t.Errorf("minsep %s: no name, or a NUL:\n%s", c.Name(), page)
		}
		if c.IsAdditionalHelpTopicCommand() {
			continue
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if has := strings.Contains(page, ".B "+roff("--"+f.Name)); has == f.Hidden {
				t.Errorf("minsep %s --%s: on the page: %v", c.Name(), f.Name, has)
			}
		})
	}
	if got := roff(".a-b\\c"); got != `\&.a\-b\ec` {
		t.Errorf("escaped as %s", got)
	}
}
