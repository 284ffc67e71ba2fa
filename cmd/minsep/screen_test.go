package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// tooWide is a line of a text that is wider than it may be, and could be broken; "" if there is
// none.
func tooWide(text string, width int) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line) > width && strings.Contains(strings.TrimSpace(line), " ") {
			return line
		}
	}
	return ""
}

func TestFold(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"short\n", "short\n"},
		{"a sentence that is too long for a line of thirty\n", "a sentence that is too long\n  for a line of thirty\n"},
		{"kept   7,929 of 200,000 examples (4 %)", "kept   7,929 of 200,000\n       examples (4 %)"},
		{"  ok      batches: every example is there", "  ok      batches: every\n          example is there"},
		{"    four columns in, and then some more", "    four columns in, and then\n      some more"},
		{"next  minsep inspect a/path/that/is/long", "next  minsep inspect a/path/that/is/long"},
		{"plan   0123456789012345678901234567890123456789", "plan   0123456789012345678901234567890123456789"},
		{"oneveryveryveryveryverylongpath/that/nothing/breaks", "oneveryveryveryveryverylongpath/that/nothing/breaks"},
	} {
		if got := fold(c.text, 30); got != c.want {
			t.Errorf("%q is folded as\n%s\nwant\n%s", c.text, got, c.want)
		}
		if got := fold(c.text, 0); got != c.text {
			t.Errorf("%q is changed where lines may have any length: %q", c.text, got)
		}
	}
}

func TestReflow(t *testing.T) {
	text := "One sentence that\nwas broken elsewhere.\n\nStart with:  minsep keygen key\n             minsep run"
	want := "One sentence that was\nbroken elsewhere.\n\nStart with:  minsep keygen\n             key\n             minsep run"
	if got := reflow(text, 26); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestVerdictsHaveColours: a verdict is coloured where it begins a line, and nothing that somebody
// else wrote has an effect.
func TestVerdictsHaveColours(t *testing.T) {
	for text, want := range map[string]string{
		"certified: (8, 1e-05)-DP":           "\x1b[32mcertified\x1b[0m: (8, 1e-05)-DP",
		"certified, but weak: (100, 0.5)":    "\x1b[33mcertified, but weak\x1b[0m: (100, 0.5)",
		"NOT CERTIFIED: no":                  "\x1b[31mNOT CERTIFIED\x1b[0m: no",
		"weak      because":                  "\x1b[33mweak\x1b[0m      because",
		"BROKEN: hashes":                     "\x1b[31mBROKEN\x1b[0m: hashes",
		"it is certified":                    "it is certified",
		"\x1b[32mcertified\x1b[0m: a forger": `\x1b[32mcertified\x1b[0m: a forger`,
	} {
		var out strings.Builder
		if err := (screen{colour: true}).write(&out, text); err != nil || out.String() != want {
			t.Errorf("%q is shown as %q, want %q (%v)", text, out.String(), want, err)
		}
	}
}

func TestColumnsIsAWidth(t *testing.T) {
	for value, want := range map[string]int{"": 0, "72": 72, "10": narrowest, "wide": 0, "-3": 0} {
		t.Setenv("COLUMNS", value)
		if got := screenOf(new(strings.Builder)); got != (screen{width: want}) {
			t.Errorf("COLUMNS=%s gives %+v", value, got)
		}
	}
}
