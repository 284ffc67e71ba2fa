package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// proseColumns is how wide lines of prose are, at most: in documents and in comments.
const proseColumns = 100

var (
	// In a comment, what is indented by a tab is code, and what follows Output is output.
	commentLine = regexp.MustCompile(`^\t*//(?:go:|\t|$| *Output:| *Unordered output:)?`)
	// Tables, headings, images and lines with a link to elsewhere may be wider, and indented lines are
	// code.
	wideMarkdown = regexp.MustCompile(`^ *\||^#|^!\[|^    |https?://`)
)

// wideLines returns the numbers of the lines of a file's prose that are too wide.
func wideLines(name, text string) (wide []int) {
	code := false
	for i, line := range strings.Split(text, "\n") {
		prose := true
		if strings.HasSuffix(name, ".go") {
			begin := commentLine.FindString(line)
			prose = strings.HasSuffix(begin, "//")
		} else {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			prose = !code && !wideMarkdown.MatchString(line)
		}
		if prose && utf8.RuneCountInString(line) > proseColumns {
			wide = append(wide, i+1)
		}
	}
	return wide
}

// TestProseIsNarrow looks at every document, and at every comment that has lines of its own.
func TestProseIsNarrow(t *testing.T) {
	long := strings.Repeat("word ", 25)
	for _, c := range []struct {
		name, text string
		prose      bool
	}{
		{"a.md", long, true}, {"a.md", "- " + long, true}, {"a.go", "// " + long, true}, {"a.go", "\t//   - " + long, true},
		{"a.md", "| " + long, false}, {"a.md", "    " + long, false}, {"a.md", "```\n" + long + "\n```", false}, {"a.md", "https://x.y " + long, false},
		{"a.go", "//\t" + long, false}, {"a.go", "x := 1 // " + long, false}, {"a.go", "// Output: " + long, false},
	} {
		if got := len(wideLines(c.name, c.text)) == 1; got != c.prose {
			t.Errorf("%s, %q: prose %v, want %v", c.name, c.text, got, c.prose)
		}
	}
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "testdata" || d.Name() == "out") {
			return filepath.SkipDir
		}
		ext := filepath.Ext(path)
		if ext != ".go" && ext != ".md" || strings.HasSuffix(path, "example_test.go") || !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, line := range wideLines(path, string(text)) {
			t.Errorf("%s:%d: is wider than %d columns", strings.TrimPrefix(path, "../"), line, proseColumns)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
