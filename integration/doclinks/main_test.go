package main

import (
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minsep/internal/must"
)

// TestDeadLinks: links that lead nowhere are found, and no others.
func TestDeadLinks(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"a/a.go": "package a\n\nimport \"minsep/b\"\n\n// T has [T.F], [T.G], [Gone] and (see [b.X]) [b.Y], [io.EOF], [nowhere.X] in [0, 1).\n//\n//\tx[Code]\ntype T struct{ F int }\n\nvar _ = b.X\n",
		"b/b.go": "package b\n\n// X is [0].\nvar X int\n",
	} {
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must.Do(t, os.WriteFile(name, []byte(text), 0o644))
	}
	set := token.NewFileSet()
	packages := must.Get(parse(set, "."))(t)
	var dead []string
	for _, d := range deadLinks(set, packages) {
		dead = append(dead, d[strings.Index(d, "["):strings.Index(d, "]")+1])
	}
	if want := []string{"[Gone]", "[T.G]", "[b.Y]", "[nowhere.X]"}; !slices.Equal(dead, want) {
		t.Errorf("%v, want %v", dead, want)
	}
}
