package pipelines

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minsep/internal/must"
	"minsep/privacy"
	"minsep/transforms"
)

// TestValues: files of every format give the same values, and none for what is empty.
func TestValues(t *testing.T) {
	type row struct {
		ID    int64
		Label string
		Size  *float64
		Age   int32
	}
	small, large := 0.1, 1e21
	rows := []row{{1 << 60, "cat", &small, 7}, {2, "dog", nil, -3}, {3, "", &large, 0}}
	dir := t.TempDir()
	for name, comma := range map[string]rune{"v.csv": ',', "v.tsv": '\t'} {
		var text strings.Builder
		w := csv.NewWriter(&text)
		w.Comma = comma
		w.Write([]string{"label", "size", "example_id", "other", "age"})
		for _, r := range rows {
			size := ""
			if r.Size != nil {
				size = fmt.Sprint(*r.Size)
			}
			w.Write([]string{r.Label, size, fmt.Sprint(r.ID), "x", fmt.Sprint(r.Age)})
		}
		w.Flush()
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text.String()), 0o600))
	}
	want := []string{
		"1152921504606846976 age 7 7", "1152921504606846976 label cat NaN", "1152921504606846976 size 0.1 0.1",
		"2 age -3 -3", "2 label dog NaN", "3 age 0 0", "3 size 1e+21 1e+21",
	}
	read := &valuesFn{IDColumn: "example_id", Statistics: []privacy.Statistic{
		{Column: "label", Kind: privacy.Counts}, {Column: "size", Kind: privacy.Mean},
		{Column: "age", Kind: privacy.Mean}, {Column: "age", Kind: privacy.Variance}}}
	for _, name := range []string{"v.csv", "v.tsv"} {
		var got []string
		err := read.ProcessElement(t.Context(), filepath.Join(dir, name), func(id string, v transforms.Value) {
			got = append(got, fmt.Sprint(id, " ", v.Column, " ", v.Text, " ", v.Number))
		})
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestColumns: a column that is not there, there twice, or of other values than texts and numbers is
// refused by its name, if a statistic needs it.
func TestColumns(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"v.csv": "example_id,size,sizes,size,n,n\na,1,2,3,4,5\n", "ids.csv": "example_id,sizes,example_id\na,1,b\n", "v.parquet": "PAR1\x00",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, c := range []struct{ name, column, fault string }{
		{"v.csv", "size", `two columns "size"`},
		{"v.csv", "age", `no column "age"`},
		{"v.csv", "sizes", ""},
		{"ids.csv", "sizes", `two columns "example_id"`},
		{"v.parquet", "sizes", "must be CSV or TSV"},
	} {
		read := &valuesFn{IDColumn: "example_id", Statistics: []privacy.Statistic{{Column: c.column, Kind: privacy.Mean}}}
		err := read.ProcessElement(t.Context(), filepath.Join(dir, c.name), func(string, transforms.Value) {})
		if c.fault == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s, %s: %v", c.name, c.column, err)
		}
	}
}
