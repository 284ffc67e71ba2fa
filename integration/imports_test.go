// Package integration holds what concerns the project as a whole: the import rules, the
// command's scripts, and the checks of its files by other programs.
package integration

import (
	"bytes"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minsep/internal/must"
)

// layers lists the packages from the bottom up, as path prefixes: a package imports only from
// layers before its own, or from its own. internal/manifest has the formats that transforms write and
// readers read, so it is below both. At the bottom is what every package may use: internal/param,
// and internal/store, by which files are read and written wherever they are.
var layers = [][]string{
	{"internal", "store"}, // what every package may use, and tests
	{"internal/stream"},
	{"sampling", "mechanism", "internal/graphio", "internal/idcolumn", "internal/ondisk", "internal/ownergraph"},
	{"internal/accounting", "internal/montecarlo", "internal/ledger", "internal/noise", "internal/drawhere", "internal/adopt"}, // the last for tests
	{"internal/manifest"},
	{"privacy", "internal/statistics"},
	{"internal/stages"},
	{"internal/planner"},
	{"internal/inspect"},
	{"internal/report"},
	{"internal/transforms"},
	{"transforms"},
	{"minseptest"},
	{"internal/pipelines", "internal/worker"},
	{"cmd"},
	{"examples"},
	{"integration"},
}

// mayImport says where imports with a prefix are allowed. The clients of object stores are in a
// package each below internal/store, which only the command imports, so that no other package pulls
// one in; tests of the whole may fake their services.
var mayImport = []struct {
	prefix string
	within []string
}{
	{"github.com/apache/beam/", []string{"transforms", "minseptest", "internal/transforms", "internal/worker", "internal/pipelines", "cmd", "examples", "integration"}},
	{"cloud.google.com/go/", []string{"internal/store/gs"}},
	{"google.golang.org/api/", []string{"internal/store/gs"}},
	{"github.com/aws/", []string{"internal/store/s3"}},
	{"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx", []string{"cmd", "examples", "integration", "transforms", "internal/transforms"}}, // in transforms by tests only
	{"minsep/internal/store/", []string{"internal/store", "store", "cmd", "integration"}},
	{"github.com/fsouza/fake-gcs-server/", []string{"integration"}},
	{"github.com/johannesboyne/gofakes3/", []string{"integration"}},
	{"C", nil}, // no cgo
}

func under(dir, prefix string) bool { return dir == prefix || strings.HasPrefix(dir, prefix+"/") }

// layerOf returns the most specific layer of dir, or -1.
func layerOf(dir string) int {
	best, layer := -1, -1
	for i, prefixes := range layers {
		for _, p := range prefixes {
			if under(dir, p) && len(p) > best {
				best, layer = len(p), i
			}
		}
	}
	return layer
}

// fault returns why a file in dir must not import path, or "".
func fault(dir, path string) string {
	for _, m := range mayImport {
		if path != m.prefix && (!strings.HasSuffix(m.prefix, "/") || !strings.HasPrefix(path, m.prefix)) {
			continue
		}
		if !slices.ContainsFunc(m.within, func(p string) bool { return under(dir, p) }) {
			return "only " + strings.Join(m.within, ", ") + " may import it"
		}
	}
	target, ours := strings.CutPrefix(path, "minsep/")
	if !ours {
		return ""
	}
	from, to := layerOf(dir), layerOf(target)
	switch {
	case to < 0:
		return "it has no layer"
	case to > from:
		return "imports go one way, and its layer is above"
	case to == from && from == layerOf("mechanism") && under(dir, "mechanism") != under(target, "mechanism"):
		return "sampling and mechanism do not know each other"
	}
	return ""
}

func TestImportRules(t *testing.T) {
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != ".." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		files++
		dir := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, "../")))
		if layerOf(dir) < 0 {
			t.Errorf("%s: its folder has no layer: add it to the layout or move the file", path)
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			target, _ := strconv.Unquote(imp.Path.Value)
			if why := fault(dir, target); why != "" {
				t.Errorf("%s imports %s: %s", path, target, why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 5 {
		t.Fatalf("only %d Go files were looked at", files)
	}
}

// processState are what changes something for a whole process, and the files that may: two jobs in
// one process share it.
var processState = map[string][]string{
	"flag.CommandLine":  {"internal/pipelines/process.go", "cmd/minsep/main.go"},
	"slog.SetDefault(":  {"internal/pipelines/process.go"},
	"os.Setenv(":        {"cmd/minsep/operation.go"},
	"beamlog.SetLogger": {"internal/pipelines/process.go"},
	"os.Chdir(":         nil,
	"testrun.Fix(":      nil, // a run with a fixed id is for tests
}

func TestProcessState(t *testing.T) {
	found := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, "../"))
		for state, files := range processState {
			switch {
			case !bytes.Contains(b, []byte(state)):
			case slices.Contains(files, name):
				found++
			default:
				t.Errorf("%s has %s, which changes the whole process: only %v may", name, state, files)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 4 {
		t.Fatalf("only %d of the places that may were found", found)
	}
}

// publicPackages yields the folders of the packages that other modules may import, with their files
// other than tests.
func publicPackages(t *testing.T, look func(path, dir string, files []*ast.File)) {
	t.Helper()
	list := must.Get(exec.Command("go", "list", "-f", "{{.ImportPath}}\t{{.Dir}}", "minsep/...").Output())(t)
	packages := 0
	for _, line := range strings.Split(strings.TrimSpace(string(list)), "\n") {
		path, dir, _ := strings.Cut(line, "\t")
		if strings.Contains(path, "/internal/") || under(path, "minsep/cmd") || under(path, "minsep/examples") || under(path, "minsep/integration") {
			continue
		}
		packages++
		names := must.Get(filepath.Glob(filepath.Join(dir, "*.go")))(t)
		var files []*ast.File
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments))(t)
			files = append(files, f)
		}
		look(path, dir, files)
	}
	if packages < 6 {
		t.Fatalf("only %d packages were looked at", packages)
	}
}

// TestStability holds that every public package is stable and says so, since what may change with
// every release is internal, and that it has an example with output, unless it is imported for its
// effect only.
func TestStability(t *testing.T) {
	publicPackages(t, func(path, dir string, files []*ast.File) {
		said, declares := 0, false
		for _, f := range files {
			if strings.HasSuffix(f.Doc.Text(), "\nStability: stable.\n") {
				said++
			}
			declares = declares || len(f.Decls) > 1
		}
		if said != 1 {
			t.Errorf("%s: its comment says %d times that it is stable, as CONTRIBUTING.md has it", path, said)
		}
		tests := must.Get(filepath.Glob(filepath.Join(dir, "*_test.go")))(t)
		shown := slices.ContainsFunc(tests, func(name string) bool {
			b, err := os.ReadFile(name)
			return err == nil && bytes.Contains(b, []byte("\nfunc Example() {")) && bytes.Contains(b, []byte("\t// Output:"))
		})
		if declares && !shown {
			t.Errorf("%s: it has no Example with output", path)
		}
	})
}

// exportData loads packages as programs that import them see them.
func exportData(t *testing.T) types.Importer {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "minsep/...")
	files := map[string]string{}
	for line := range strings.Lines(string(must.Get(list.Output())(t))) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
}

// leaks returns the types below internal that a program meets in an exported object without being
// able to name them.
func leaks(object types.Object) (found []string) {
	seen := map[types.Type]bool{}
	var visit func(types.Type)
	exported := func(o types.Object) {
		if o.Exported() {
			visit(o.Type())
		}
	}
	visit = func(typ types.Type) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		switch typ := types.Unalias(typ).(type) {
		case *types.Named:
			if pkg := typ.Obj().Pkg(); pkg != nil && strings.Contains(pkg.Path(), "minsep/internal/") {
				found = append(found, typ.String())
				return
			}
			if pkg := typ.Obj().Pkg(); pkg == nil || !under(pkg.Path(), "minsep") {
				break
			}
			methods := types.NewMethodSet(types.NewPointer(typ))
			for method := range methods.Methods() {
				exported(method.Obj())
			}
			visit(typ.Underlying())
		case *types.Struct:
			for field := range typ.Fields() {
				if field.Embedded() {
					visit(field.Type())
				}
				exported(field)
			}
		case *types.Interface:
			for method := range typ.Methods() {
				exported(method)
			}
		case *types.Signature:
			visit(typ.Params())
			visit(typ.Results())
		case *types.Tuple:
			for v := range typ.Variables() {
				visit(v.Type())
			}
		case *types.Map:
			visit(typ.Key())
			visit(typ.Elem())
		case interface{ Elem() types.Type }:
			visit(typ.Elem())
		}
	}
	visit(object.Type())
	return found
}

// TestPublicTypes holds that no type below internal stands in what a public package exports: in a
// signature, a field, a method or what an alias names.
func TestPublicTypes(t *testing.T) {
	data, looked := exportData(t), 0
	publicPackages(t, func(path, _ string, _ []*ast.File) {
		scope := must.Get(data.Import(path))(t).Scope()
		for _, name := range scope.Names() {
			if object := scope.Lookup(name); object.Exported() {
				looked++
				for _, typ := range leaks(object) {
					t.Errorf("%s.%s leads to %s, which is internal", path, name, typ)
				}
			}
		}
	})
	if looked < 100 {
		t.Errorf("only %d names were looked at", looked)
	}
	// The same look finds what is there.
	if scope := must.Get(data.Import("minsep/internal/stages"))(t).Scope(); len(leaks(scope.Lookup("Plan"))) == 0 {
		t.Error("the fields of an internal type are not found out")
	}
}

// TestLinked holds what programs link, be it by way of another package: one that verifies
// certificates and inspects run directories neither Beam nor a client of an object store, one that
// runs stages no client.
func TestLinked(t *testing.T) {
	for program, may := range map[string]string{"minsep/internal/inspect": "", "minsep/internal/pipelines": "github.com/apache/beam/"} {
		out := must.Get(exec.Command("go", "list", "-deps", program).Output())(t)
		deps := strings.Fields(string(out))
		if !slices.Contains(deps, "minsep/internal/accounting") {
			t.Fatalf("%s: %d packages, and accounting is none of them", program, len(deps))
		}
		for _, dep := range deps {
			for _, m := range mayImport {
				if strings.HasSuffix(m.prefix, "/") && strings.HasPrefix(dep, m.prefix) && m.prefix != may {
					t.Errorf("%s links %s", program, dep)
				}
			}
		}
	}
}

// TestWorkspace holds that the command is the same with the workspace and without it, as a release
// is built: integration/go.mod asks for no newer version of anything that the command links.
func TestWorkspace(t *testing.T) {
	linked := func(workspace string) []string {
		cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", "./cmd/minsep")
		cmd.Dir, cmd.Env = "..", append(os.Environ(), workspace)
		out := must.Get(cmd.Output())(t)
		modules := strings.Split(strings.TrimSpace(string(out)), "\n")
		slices.Sort(modules)
		return slices.Compact(modules)
	}
	with, without := linked("GOWORK="), linked("GOWORK=off")
	if len(without) < 10 {
		t.Fatalf("the command links only %q", without)
	}
	if diff := cmp.Diff(without, with); diff != "" {
		t.Errorf("go.mod and integration/go.mod differ in versions (-go.mod +workspace): go work sync\n%s", diff)
	}
}
