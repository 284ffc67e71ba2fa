package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// How many numbers may be tuned: each is an experiment to repeat after a change.
const (
	mostOfSearches = 49 // that steer the search for σ, plans and budgets
	mostOfTables   = 31 // that bound tables and samples
)

// TestTunedNumbers: named numbers that somebody chose by trial, to steer a search, a sample, a
// table or a budget, are in the files constants.go of these packages. They are few, and each has a
// comment: the experiment or the reason that set it. A name that follows from another one, without
// a number but 1, does not count.
func TestTunedNumbers(t *testing.T) {
	checkTuned(t, mostOfSearches, "accounting/search", "accounting/verification", "planner")
	checkTuned(t, mostOfTables, "accounting/montecarlo/tilt")
}

func checkTuned(t *testing.T, most int, packages ...string) {
	t.Helper()
	all := 0
	for _, dir := range packages {
		file := filepath.Join("..", dir, "constants.go")
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		number := 0
		for _, d := range f.Decls {
			list, ok := d.(*ast.GenDecl)
			if !ok {
				t.Errorf("%s: it has more than numbers", file)
				continue
			}
			explained := list.Doc != nil // those that follow from one idea share its comment
			for _, s := range list.Specs {
				of, ok := s.(*ast.ValueSpec)
				if !ok { // an import
					continue
				}
				explained = explained && len(list.Specs) == 1 || of.Doc != nil || of.Comment != nil || explained && s == list.Specs[0]
				for i, name := range of.Names {
					if !explained {
						t.Errorf("%s: %s has no comment", set.Position(name.Pos()), name.Name)
					}
					if isTuned(of.Values[i]) {
						number++
					}
				}
			}
		}
		t.Logf("%s: %d", dir, number)
		all += number
	}
	if all > most {
		t.Errorf("%d tuned numbers in %v, at most %d", all, packages, most)
	}
}

// isTuned says whether a value has a number of its own.
func isTuned(value ast.Expr) (tuned bool) {
	ast.Inspect(value, func(n ast.Node) bool {
		if of, ok := n.(*ast.BasicLit); ok && of.Value != "1" && of.Value != "1." {
			tuned = true
		}
		return true
	})
	return tuned
}
