package graphio_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"minsep/internal/graphio"
	"minsep/internal/must"
)

// examplesOnly are the examples x1 and x2 in every format, without owners.
func examplesOnly(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	var rows []parquet.Row
	for _, id := range []string{"x1", "x2"} {
		rows = append(rows, parquet.Row{parquet.ByteArrayValue([]byte(id)).Level(0, 0, 0)})
	}
	f := must.Get(os.Create(filepath.Join(dir, "g")))(t)
	w := parquet.NewWriter(f, parquet.NewSchema("g", parquet.Group{"example_id": parquet.String()}))
	must.Get(w.WriteRows(rows))(t)
	must.Do(t, w.Close())
	f.Close()
	b := must.Get(os.ReadFile(filepath.Join(dir, "g")))(t)
	return map[string]string{"x.parquet": string(b), "x.csv": "example_id\nx1\nx2\n", "x.tsv": "example_id\tmore\nx1\t\nx2\t\n",
		"x.ndjson": "{\"example_id\":\"x1\"}\n{\"example_id\":\"x2\",\"more\":1}\n", "x.csv.gz": string(compressions[".gz"]([]byte("example_id\nx1\nx2\n")))}
}

// TestHiveFolders: the owner that a folder's name says is the owner of its examples, in every
// format and at any level.
func TestHiveFolders(t *testing.T) {
	for name, text := range examplesOnly(t) {
		for _, c := range []struct {
			folders, owners string // two, with a bar between them
			o               graphio.Options
			path            string
		}{
			{"owner_id=3|owner_id=-4", "3|-4", defaults, ""},
			{"date=2024-01-01/owner_id=3|owner_id=4/date=2024-01-01", "3|4", defaults, ""},
			{"owner_id=ada%2Flove%20lace|owner_id=%E4%B8%96", "ada/love lace|世", defaults, ""},
			{"author=3|author=4", "3|4", graphio.Options{OwnerColumn: "author"}, ""},
			{"owner_id=3|owner_id=4", "3|4", defaults, "owner_id=*"},
			{"owner_id=007|owner_id=7", "007|7", graphio.Options{OwnerType: "string"}, "*"},
		} {
			first, second, _ := strings.Cut(c.folders, "|")
			dir := tree(t, map[string]string{first + "/" + name: text, second + "/" + name: text})
			var want []edge
			for o := range strings.SplitSeq(c.owners, "|") {
				want = append(want, edge{"x1", o}, edge{"x2", o})
			}
			got, src, _, err := read([]string{filepath.Join(dir, c.path)}, c.o)
			byOwner := func(a, b edge) int { return strings.Compare(a.owner+a.example, b.owner+b.example) }
			slices.SortFunc(got, byOwner)
			slices.SortFunc(want, byOwner)
			if err != nil || src.SingleOwner || !slices.Equal(got, want) {
				t.Errorf("%s in %q: got %q, %v; want %q", name, c.folders, got, err, want)
			}
		}
		t.Chdir(filepath.Join(tree(t, map[string]string{"owner_id=3/" + name: text}), "owner_id=3")) // the folder is not in the name
		reads(t, name+" named within its folder", name, defaults, []edge{{"x1", "3"}, {"x2", "3"}})
	}
}

// TestHiveFaults: what a folder's name does not say clearly is refused, and no id is shown.
func TestHiveFaults(t *testing.T) {
	for name, text := range examplesOnly(t) {
		both := map[string]string{"x.csv": "example_id,owner_id\nx1,3\n", "x.tsv": "example_id\towner_id\nx1\t3\n", "x.ndjson": "{\"example_id\":\"x1\",\"owner_id\":3}\n",
			"x.csv.gz": string(compressions[".gz"]([]byte("example_id,owner_id\nx1,3\n"))), "x.parquet": string(formats["edges.parquet"](graph{false, true, []edge{{"x1", "3"}}}))}[name]
		for _, c := range []struct{ about, folder, text, want string }{
			{"null", "owner_id=__HIVE_DEFAULT_PARTITION__", text, "without this column"},
			{"empty", "owner_id=", text, "an empty id"},
			{"not an escape", "owner_id=SECRET%zz", text, "a % that begins no escape"},
			{"twice", "owner_id=SECRET/owner_id=3", text, "two folders"},
			{"of the example", "owner_id=3/example_id=SECRET", text, "a folder that names the example"},
			{"blanks", "owner_id=SECRET%20", text, "blanks"},
			{"leading zeros", "owner_id=007", text, "leading zeros"},
			{"two owners", "owner_id=SECRET;b", text, "several owners in one value"},
			{"also in the file", "owner_id=SECRET", both, "of the file and of the folder"},
			{"by another name", "user=SECRET", text, ""},
		} {
			dir := tree(t, map[string]string{c.folder + "/" + name: c.text})
			want := c.want
			if c.about == "also in the file" && name == "x.parquet" {
				want = "in the folder's name"
			}
			if c.about == "by another name" {
				if want = "--owner-column user"; name == "x.tsv" || name == "x.ndjson" {
					want = "no such" // two columns, or an object: they need an owner anyhow
				}
			}
			_, _, _, err := read([]string{dir}, defaults)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s: got %v, want %q", name, c.about, err, want)
			} else if strings.Contains(err.Error(), "SECRET") || c.folder[0] == 'o' && !strings.Contains(err.Error(), "(file 1 of the graph)") {
				t.Errorf("%s, %s: an id is shown, or not which file it is: %v", name, c.about, err)
			}
		}
	}
	dir := tree(t, map[string]string{"owner_id=3/x.csv": "1,5\n2,6\n", "date=1/y.csv": "1\n2\n"})
	must.Fail(t, "edges without a header in an owner's folder", "needs a header")(graphio.Open(context.Background(), []string{filepath.Join(dir, "owner_id=3")}, defaults))
	reads(t, "examples in a folder that is named", filepath.Join(dir, "date=*"), defaults, []edge{{"1", "1"}, {"2", "2"}})
}

// TestColumnOfFileAndFolder: Polars writes the column of the folders into the Parquet files too. The
// two must agree, row by row.
func TestColumnOfFileAndFolder(t *testing.T) {
	for _, ints := range []bool{false, true} {
		for _, c := range []struct {
			folder string
			edges  []edge
			reads  bool
		}{
			{"owner_id=3", []edge{{"1", "3"}, {"2", "3"}}, true},
			{"owner_id=3", []edge{{"1", "3"}, {"2", "4"}}, false},
		} {
			edges := c.edges
			folder := c.folder
			if !ints {
				folder = strings.Replace(folder, "=", "=x%20", 1)
				edges = nil
				for _, e := range c.edges {
					edges = append(edges, edge{"x " + e.example, "x " + e.owner})
				}
			}
			dir := tree(t, map[string]string{folder + "/0.parquet": string(formats["edges.parquet"](graph{ints, ints, edges}))})
			got, _, _, err := read([]string{dir}, defaults)
			if c.reads && (err != nil || !slices.Equal(got, edges)) || !c.reads && (err == nil || !strings.Contains(err.Error(), "another id in the file than in the folder's name")) {
				t.Errorf("%s, integers %v: got %q, %v", c.folder, ints, got, err)
			}
		}
	}
}

// TestFolderIsHeldAgainstWarnedRows: rows after which a warning comes are compared with the folder's
// name as others are.
func TestFolderIsHeldAgainstWarnedRows(t *testing.T) {
	edges := []edge{{".22", "ann"}}
	for i := range 20 {
		edges = append(edges, edge{fmt.Sprint("x", i), "ann"})
	}
	edges = append(edges, edge{"y", "bob"})
	dir := tree(t, map[string]string{"owner_id=ann/0.parquet": string(formats["edges.parquet"](graph{false, false, edges}))})
	refuses(t, "warned rows", dir, defaults, "another id in the file")
}
