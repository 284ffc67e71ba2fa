// Command doclinks finds links to symbols in Go comments that lead to nothing, and fails if there are
// any. It looks at every package below the folder that it is called in.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// module is the path of the module in this folder.
const module = "minsep"

func main() {
	set := token.NewFileSet()
	packages, err := parse(set, ".")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	dead := deadLinks(set, packages)
	for _, link := range dead {
		fmt.Println(link)
	}
	if len(dead) > 0 {
		os.Exit(1)
	}
}

// goPackage is a package with what its files declare.
type goPackage struct {
	files   []*ast.File
	symbols map[string]bool // "Name", "Type.Method" and "Type.Field"
	embeds  map[string]bool // types that embed others, the fields and methods of which they have
}

// parse parses all packages below a folder, by import path; tests of a package are a part of it.
func parse(set *token.FileSet, root string) (map[string]*goPackage, error) {
	packages := map[string]*goPackage{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != root && (strings.HasPrefix(base, ".") || base == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		at := path.Join(module, filepath.ToSlash(filepath.Dir(name)))
		if packages[at] == nil {
			packages[at] = &goPackage{symbols: map[string]bool{}, embeds: map[string]bool{}}
		}
		packages[at].add(f)
		return nil
	})
	return packages, err
}

func (p *goPackage) add(f *ast.File) {
	p.files = append(p.files, f)
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = baseType(d.Recv.List[0].Type) + "." + name
			}
			p.symbols[name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				p.addSpec(s)
			}
		}
	}
}

func (p *goPackage) addSpec(s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			p.symbols[name.Name] = true
		}
	case *ast.TypeSpec:
		p.symbols[s.Name.Name] = true
		var members *ast.FieldList
		switch t := s.Type.(type) {
		case *ast.StructType:
			members = t.Fields
		case *ast.InterfaceType:
			members = t.Methods
		default: // of another type, with its fields
			p.embeds[s.Name.Name] = true
			return
		}
		for _, m := range members.List {
			for _, name := range m.Names {
				p.symbols[s.Name.Name+"."+name.Name] = true
			}
			if len(m.Names) == 0 {
				p.embeds[s.Name.Name] = true
			}
		}
	}
}

// baseType is the name of a receiver's type.
func baseType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return baseType(e.X)
	case *ast.IndexExpr:
		return baseType(e.X)
	case *ast.IndexListExpr:
		return baseType(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// link matches a link to a symbol in a line of a comment.
var link = regexp.MustCompile(`(?:^|[\s(,;"'])\[\*?([A-Za-z_][\w/]*(?:\.\w+){0,2})\](?:$|[\s.,;:)'"!?])`)

// deadLinks returns where links lead to nothing.
func deadLinks(set *token.FileSet, packages map[string]*goPackage) (dead []string) {
	for at, p := range packages {
		imported := p.imports()
		for _, f := range p.files {
			for _, group := range f.Comments {
				for _, c := range group.List {
					for _, target := range targets(c.Text) {
						if !leads(packages, imported, at, target) {
							dead = append(dead, fmt.Sprintf("%s: [%s] leads to nothing", set.Position(c.Pos()), target))
						}
					}
				}
			}
		}
	}
	slices.Sort(dead)
	return dead
}

// imports returns the paths that the files of a package import, by name.
func (p *goPackage) imports() map[string]string {
	paths := map[string]string{}
	for _, f := range p.files {
		for _, imp := range f.Imports {
			target, _ := strconv.Unquote(imp.Path.Value)
			name := path.Base(target)
			if imp.Name != nil {
				name = imp.Name.Name
			}
			paths[name] = target
		}
	}
	return paths
}

// targets returns the links of a line of a comment; one that is indented is code.
func targets(text string) (links []string) {
	line := strings.TrimPrefix(text, "//")
	if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, " \t") {
		return nil
	}
	for _, match := range link.FindAllStringSubmatch(line, -1) {
		first, _, dotted := strings.Cut(match[1], ".")
		if dotted || ast.IsExported(first) {
			links = append(links, match[1])
		}
	}
	return links
}

// leads reports whether a link in a package leads to something. Packages of other modules are taken
// to have what a link names.
func leads(packages map[string]*goPackage, imported map[string]string, at, target string) bool {
	first, rest, _ := strings.Cut(target, ".")
	if ast.IsExported(first) {
		return packages[at].has(target)
	}
	if !ast.IsExported(rest) {
		return true // no link
	}
	of, isImported := imported[first]
	if p := packages[cmp.Or(of, first)]; p != nil {
		return p.has(rest)
	}
	_, std := comment.DefaultLookupPackage(first)
	return isImported || std || strings.Contains(first, "/")
}

// has reports whether a package declares a symbol.
func (p *goPackage) has(symbol string) bool {
	of, _, member := strings.Cut(symbol, ".")
	return p.symbols[symbol] || member && p.embeds[of]
}
