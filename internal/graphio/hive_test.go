package graphio_test

import (
	"os"
	"path/filepath"
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
		"x.csv.gz": string(compressions[".gz"]([]byte("example_id\nx1\nx2\n")))}
}

// TestColumnsInFolders: a file whose folder may say who owns its examples is refused, in every format,
// and its name is not shown.
func TestColumnsInFolders(t *testing.T) {
	for name, text := range examplesOnly(t) {
		for _, c := range []struct {
			folder, want string
			o            graphio.Options
		}{
			{"owner_id=SECRET", "names this column", defaults},
			{"date=1/owners=SECRET", "names this column", defaults},
			{"example_id=SECRET", "names this column", defaults},
			{"author=SECRET", "names this column", graphio.Options{OwnerColumn: "author"}},
			{"owner_id=SECRET", "names this column", graphio.Options{RowIDs: true, Header: "yes"}},
			{"user=SECRET", "if it names no owners", defaults},
		} {
			want := c.want
			if !strings.Contains(name, "x.csv") && name != "x.parquet" && c.folder == "user=SECRET" {
				want = "" // two columns: they need an owner anyhow
			}
			dir := tree(t, map[string]string{c.folder + "/" + name: text})
			for _, path := range []string{dir, filepath.Join(dir, filepath.Dir(c.folder+"/"+name))} {
				_, _, _, err := read([]string{path}, c.o)
				if err == nil && (path == dir || !strings.HasPrefix(c.folder, "user")) || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s in %s: %v", name, c.folder, err)
				} else if err != nil && strings.Contains(err.Error(), "SECRET") {
					t.Errorf("%s: an id is shown: %v", name, err)
				}
			}
		}
	}
	dir := tree(t, map[string]string{"owner_id=3/x.csv": "1,5\n2,6\n", "date=1/y.csv": "1\n2\n", "date=2/z.csv": "example_id,owner_id\n1,3\n"})
	refuses(t, "edges without a header in an owner's folder", filepath.Join(dir, "owner_id=3"), defaults, "names this column")
	reads(t, "examples in a folder that is named", filepath.Join(dir, "date=1*"), defaults, []edge{{"1", "1"}, {"2", "2"}})
	reads(t, "edges in a folder of another column", filepath.Join(dir, "date=2"), defaults, []edge{{"1", "3"}})
}
