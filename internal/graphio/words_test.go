package graphio_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"minsep/internal/graphio"
)

// TestNumbersAmongWords: in a column of mostly words, numbers in an odd form are words, and a
// warning says so; in a column of integers and few words they are refused, in every format.
func TestNumbersAmongWords(t *testing.T) {
	type row struct {
		Example int64  `parquet:"example_id"`
		Owner   string `parquet:"owner_id"`
	}
	for _, c := range []struct {
		about  string
		words  int
		owners []string
		refuse bool
	}{
		{"a name that looks like a number", 30, []string{".22"}, false},
		{"several", 50, []string{".22", "007", "1e3", "99999999999999999999"}, false},
		{"few words", 8, []string{".22"}, true},
		{"integers as well", 30, []string{"7", "8", "9", ".22"}, true},
		{"blanks", 30, []string{" ada"}, true},
	} {
		var csv, ndjson, table bytes.Buffer
		var rows []row
		csv.WriteString("example_id,owner_id\n")
		for i := range c.words + len(c.owners) {
			owner := fmt.Sprintf("owner %d", i)
			if i >= c.words {
				owner = c.owners[i-c.words]
			}
			fmt.Fprintf(&csv, "%d,%s\n", i, owner)
			fmt.Fprintf(&ndjson, "{\"example_id\":%d,\"owners\":[%q]}\n", i, owner)
			rows = append(rows, row{int64(i), owner})
		}
		if err := parquet.Write(&table, rows); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{"g.csv": csv.Bytes(), "g.ndjson": ndjson.Bytes(), "g.parquet": table.Bytes()} {
			source, err := graphio.Open(t.Context(), []string{write(t, t.TempDir(), name, content)}, graphio.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var last string
			warnings := ""
			err = source.Read(t.Context(), func(b *graphio.Batch) error {
				if b.Len() > 0 {
					last = b.Owners.Format(b.Len() - 1)
				}
				for _, w := range b.Warnings {
					warnings += w.Error()
				}
				return nil
			})
			if (err != nil) != c.refuse {
				t.Errorf("%s, %s: %v", c.about, name, err)
				continue
			}
			said := strings.Contains(warnings, "in a column of words")
			if !c.refuse && (!said || last != c.owners[len(c.owners)-1]) {
				t.Errorf("%s, %s: the last owner is %q, and the warning %q", c.about, name, last, warnings)
			}
			if text := fmt.Sprint(err, warnings); c.refuse && said || strings.Contains(text, ".22,") {
				t.Errorf("%s, %s: %s", c.about, name, text)
			}
			line := fmt.Sprintf("line %d", c.words+1+strings.Count(name, "csv"))
			if name != "g.parquet" && !c.refuse && !strings.Contains(warnings, line) {
				t.Errorf("%s, %s: %q does not say %s", c.about, name, warnings, line)
			}
		}
	}
}
