package integration

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"minsep/internal/must"
)

var (
	formulaLabel  = regexp.MustCompile(`\bF[0-9](?:\.[0-9]+[a-z]?)?\b′?`)
	formulaAnchor = regexp.MustCompile(`<a id="([^"]+)"></a>`)
	formulaLink   = regexp.MustCompile(`formulas\.md#([^)\s"]+)`)
)

// citationFaults returns what is wrong with the labels that a text cites.
func citationFaults(text string, anchors []string) (faults []string) {
	for _, label := range formulaLabel.FindAllString(text, -1) {
		if !slices.Contains(anchors, label) {
			faults = append(faults, label+" is not in docs/formulas.md")
		}
	}
	for _, link := range formulaLink.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(anchors, link[1]) {
			faults = append(faults, "docs/formulas.md has no anchor "+link[1])
		}
	}
	return faults
}

// TestFormulaLabels holds every label of a formula in code and documents against the anchors of
// docs/formulas.md.
func TestFormulaLabels(t *testing.T) {
	page, err := os.ReadFile("../docs/formulas.md")
	if err != nil {
		t.Fatal(err)
	}
	var anchors []string
	for _, anchor := range formulaAnchor.FindAllStringSubmatch(string(page), -1) {
		if slices.Contains(anchors, anchor[1]) {
			t.Errorf("anchor %s is there twice", anchor[1])
		}
		anchors = append(anchors, anchor[1])
	}
	cited := map[string]bool{}
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != ".." && (strings.HasPrefix(name, ".") || name == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		text := slices.Contains([]string{".go", ".md", ".txtar", ".py", ".yml"}, filepath.Ext(path)) || d.Name() == "Makefile"
		if !text {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(content), "\n") {
			for _, fault := range citationFaults(line, anchors) {
				t.Errorf("%s:%d: %s", path, i+1, fault)
			}
			if filepath.Ext(path) == ".go" {
				for _, label := range formulaLabel.FindAllString(line, -1) {
					cited[label] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, label := range []string{"F2", "F3.2", "F4.2", "F5.1′", "F5.2", "F6"} {
		if !cited[label] {
			t.Errorf("no Go file cites %s: the files were not read", label)
		}
	}
}

// withoutConditions are the labels of definitions and of what holds for all of them.
var withoutConditions = []string{"F0", "F1.2", "F3", "F3.0", "F3.0b", "F4", "F5.8", "assumptions", "papers"}

// TestFormulaConditions: every formula says under which conditions it holds, and names the functions
// that check them, which are there.
func TestFormulaConditions(t *testing.T) {
	page := must.Get(os.ReadFile("../docs/formulas.md"))(t)
	declared := declaredNames(t)
	conditions := regexp.MustCompile(`(?s)\nConditions: (.*?)(?:\n\n|\n$)`)
	name := regexp.MustCompile("`(?:[A-Za-z]+\\.)?([A-Za-z_]+)`")
	sections := formulaAnchor.FindAllStringSubmatchIndex(string(page), -1)
	named := 0
	for i, at := range sections {
		label, end := string(page[at[2]:at[3]]), len(page)
		if i+1 < len(sections) {
			end = sections[i+1][0]
		}
		text := conditions.FindStringSubmatch(string(page[at[1]:end]))
		if text == nil {
			// F5.1 has two labels.
			if !slices.Contains(withoutConditions, label) && end-at[1] > 1 {
				t.Errorf("%s has no conditions", label)
			}
			continue
		}
		for _, function := range name.FindAllStringSubmatch(text[1], -1) {
			named++
			if !declared[function[1]] && function[1] != "in" {
				t.Errorf("%s: no function or type %s", label, function[1])
			}
		}
	}
	if named < 30 {
		t.Errorf("only %d functions are named", named)
	}
}

// declaredNames are the functions, methods and types of Go, and the functions of Python.
func declaredNames(t *testing.T) map[string]bool {
	t.Helper()
	declaration := regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type |\s*def )(\w+)`)
	names := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != ".." && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if ext := filepath.Ext(path); ext != ".go" && ext != ".py" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, found := range declaration.FindAllStringSubmatch(string(content), -1) {
			names[found[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
