package printable

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"minsep/internal/must"
)

func TestEscapes(t *testing.T) {
	for text, line := range map[string]string{
		"":                             "",
		"run/batches":                  "run/batches",
		`C:\run "x"`:                   `C:\run "x"`,
		"Zürich 東京 🙂\u00a0.":           "Zürich 東京 🙂\u00a0.",
		"a\r\x1b[2J\x1b[Hcertified: b": `a\r\x1b[2J\x1b[Hcertified: b`,
		"a\nb\tc":                      `a\nb\tc`,
		"\x7f\u009b2J\u202eabc\u2066":  `\u007f\u009b2J\u202eabc\u2066`,
		"\U000e0041":                   `\udb40\udc41`,
		"\xff\xfe\ufffd":               `\xff\xfe` + "\ufffd",
	} {
		if got := Line(text); got != line {
			t.Errorf("Line(%q) = %q, want %q", text, got, line)
		}
		plain := strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(line)
		if got := Text(text); got != plain && text != `C:\run "x"` {
			t.Errorf("Text(%q) = %q, want %q", text, got, plain)
		}
		var out bytes.Buffer
		if n, err := Writer(&out).Write([]byte(text)); n != len(text) || err != nil || out.String() != Text(text) {
			t.Errorf("%q is written as %q: %d, %v", text, &out, n, err)
		}
	}
}

// Whatever the text, nothing of it but ends of lines and tabs acts, and what is JSON stays the same
// JSON.
func FuzzText(f *testing.F) {
	f.Add("a\x1b[2J\u202e\U000e0041\xff")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range Text(text) {
			if !unicode.IsGraphic(r) && r != '\n' && r != '\t' {
				t.Fatalf("%q becomes %q", text, Text(text))
			}
		}
		if strings.ContainsAny(Line(text), "\n\t") {
			t.Fatalf("%q becomes the line %q", text, Line(text))
		}
		b := must.Get(json.Marshal(text))(t)
		var want, got string
		if json.Unmarshal(b, &want) != nil || json.Unmarshal([]byte(Text(string(b))), &got) != nil || got != want {
			t.Fatalf("the JSON %s becomes %s", b, Text(string(b)))
		}
	})
}
