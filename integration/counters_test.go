package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"minsep/internal/must"
)

// publicCounters are the names of all counters. Consoles show them to whoever may see a job: what
// came out by chance, such as participations or batch sizes, is not counted. A new name needs a
// reason why it is public, and a line in docs/operation.md.
var publicCounters = []string{
	"edges held", "edges read", "examples decided", "examples sampled", "examples without owners left out",
	"graph bytes read", "noise files written", "rows read", "rows written", "samples",
}

// countersOf lists the names of counters that a package of files makes with progress.New, and every
// other metric of Beam that it makes, with its place.
func countersOf(t *testing.T, fset *token.FileSet, files []*ast.File) (names, others []string) {
	consts := map[string]string{}
	value := func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			s, _ := strconv.Unquote(e.Value)
			return s
		case *ast.Ident:
			return consts[e.Name]
		}
		return ""
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.ValueSpec); ok && len(s.Values) == len(s.Names) {
				for i, v := range s.Values {
					if lit, ok := v.(*ast.BasicLit); ok {
						consts[s.Names[i].Name] = value(lit)
					}
				}
			}
			return true
		})
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			of, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, _ := of.X.(*ast.Ident)
			switch {
			case pkg == nil:
			case pkg.Name == "progress" && of.Sel.Name == "New":
				names = append(names, value(call.Args[0]))
			case slices.Contains([]string{"beam", "metrics"}, pkg.Name) && slices.Contains([]string{"NewCounter", "NewDistribution", "NewGauge"}, of.Sel.Name):
				others = append(others, fset.Position(call.Pos()).String())
			}
			return true
		})
	}
	return names, others
}

func TestCountersArePublic(t *testing.T) {
	root := ".."
	var names, others []string
	err := filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if n := d.Name(); n == "testdata" || strings.HasPrefix(n, ".") && n != ".." {
			return fs.SkipDir
		}
		fset := token.NewFileSet()
		var files []*ast.File
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files = append(files, f)
		}
		found, more := countersOf(t, fset, files)
		names, others = append(names, found...), append(others, more...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if !slices.Equal(names, publicCounters) {
		t.Errorf("the counters are %q, of which only these are known to be public: %q", names, publicCounters)
	}
	if len(others) != 1 || !strings.Contains(others[0], filepath.Join("transforms", "progress", "progress.go")) {
		t.Errorf("metrics of Beam are made in %q: use internal/transforms/progress", others)
	}
	page := must.Get(os.ReadFile(filepath.Join(root, "docs", "operation.md")))(t)
	for _, name := range publicCounters {
		if !strings.Contains(string(page), name) {
			t.Errorf("docs/operation.md does not explain the counter %q", name)
		}
	}
}

// A package that counts participations is found out.
func TestSecretCounterIsFound(t *testing.T) {
	fset := token.NewFileSet()
	f := must.Get(parser.ParseFile(fset, "bad.go", `package bad
const Name = "participations"
var a, b = progress.New(Name), beam.NewDistribution("minsep", "batch sizes")`, parser.SkipObjectResolution))(t)
	names, others := countersOf(t, fset, []*ast.File{f})
	if !slices.Equal(names, []string{"participations"}) || len(others) != 1 {
		t.Errorf("found %q and %q", names, others)
	}
}
