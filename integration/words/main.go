// Words counts the pronouns in comments and documents (see heavy) that make a reader read a
// sentence twice, where a noun would serve. It prints their number in 1,000 words, and the files
// with the most.
//
//	go run ./words            # in the folder integration
//	go run ./words -files 40
package main

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// heavy are the words that are counted, and how many of them 1,000 words of comments may have.
var heavy = []struct {
	name  string
	match *regexp.Regexp
	most  float64
}{
	{"what", regexp.MustCompile(`(?i)\bwhat\b`), .2},
	{"that of, those of", regexp.MustCompile(`(?i)\b(that|those)\s+of\b`), .1},
	{"of which, whose", regexp.MustCompile(`(?i)\b(of\s+which|of\s+whom|whose)\b`), .2},
}

var word = regexp.MustCompile(`[\p{L}\p{N}][\p{L}\p{N}'’_.-]*`)

// Count is the number of words of some text, and of each heavy one among them.
type Count struct {
	Words int
	Heavy [3]int
}

func count(text string) (c Count) {
	c.Words = len(word.FindAllString(text, -1))
	for i, h := range heavy {
		c.Heavy[i] = len(h.match.FindAllString(text, -1))
	}
	return c
}

func (c *Count) add(d Count) {
	c.Words += d.Words
	for i := range heavy {
		c.Heavy[i] += d.Heavy[i]
	}
}

// PerThousand returns how many of heavy word i are in 1,000 words.
func (c Count) PerThousand(i int) float64 {
	return 1000 * float64(c.Heavy[i]) / float64(max(c.Words, 1))
}

func (c Count) total() (n int) {
	for _, h := range c.Heavy {
		n += h
	}
	return n
}

// comments returns the text of the comments of a Go file, without directives.
func comments(file *ast.File) string {
	var b strings.Builder
	for _, group := range file.Comments {
		b.WriteString(group.Text())
		b.WriteByte('\n')
	}
	return b.String()
}

// tree counts the comments of all Go files, tests apart, and the documents, below a folder, by
// file.
func tree(root string) (code, docs map[string]Count, err error) {
	code, docs = map[string]Count{}, map[string]Count{}
	files := token.NewFileSet()
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "out"):
			return filepath.SkipDir
		case !d.Type().IsRegular() || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		name, _ := filepath.Rel(root, path)
		switch filepath.Ext(path) {
		case ".go":
			file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			code[name] = count(comments(file))
		case ".md":
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			docs[name] = count(string(text))
		}
		return nil
	})
	return code, docs, err
}

func sum(files map[string]Count) (all Count) {
	for _, c := range files {
		all.add(c)
	}
	return all
}

func show(title string, files map[string]Count, most int) {
	all := sum(files)
	fmt.Printf("%s: %d words; in 1,000 of them", title, all.Words)
	for i, h := range heavy {
		fmt.Printf("  %s %.2f (at most %g)", h.name, all.PerThousand(i), h.most)
	}
	fmt.Println()
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(files[b].total()-files[a].total(), strings.Compare(a, b))
	})
	for _, name := range names[:min(most, len(names))] {
		if c := files[name]; c.total() > 0 {
			fmt.Printf("  %4d %4d %4d of %6d words  %s\n", c.Heavy[0], c.Heavy[1], c.Heavy[2], c.Words, name)
		}
	}
}

func main() {
	most := flag.Int("files", 15, "how many of the worst files to print")
	root := flag.String("root", "..", "the folder to look through")
	flag.Parse()
	code, docs, err := tree(*root)
	if err != nil {
		log.Fatal(err)
	}
	show("comments", code, *most)
	show("documents", docs, *most)
}
