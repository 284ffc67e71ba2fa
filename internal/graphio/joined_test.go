package graphio_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"minsep/internal/graphio"
	"minsep/internal/must"
	"minsep/internal/ownergraph"
)

// TestOwnersInOneValue: text that looks like several owners is refused by its shape in every format,
// with the ways out; what only has a comma or a bracket in it is read.
func TestOwnersInOneValue(t *testing.T) {
	for _, c := range []struct {
		about  string
		values []string
		way    string // the separator that the fault names; "" if the values are read as they are
		owners string // that the separator gives
	}{
		{"a list of Python", []string{"['ann', 'bob']", "['carl']"}, ",", "ann bob carl"},
		{"an array of JSON", []string{`["ann","bob"]`, `["ann"]`}, ",", "ann bob ann"},
		{"one of a list", []string{"ann", "['bob']"}, ",", "ann bob"},
		{"a tuple", []string{"('ann', 'bob')"}, ",", "ann bob"},
		{"an array of PostgreSQL", []string{"{ann,bob}"}, ",", "ann bob"},
		{"semicolons, never alone", []string{"ann;bob", "bob;carl"}, ";", "ann bob bob carl"},
		{"semicolons and blanks", []string{"ann; bob"}, ";", "ann bob"},
		{"bars", []string{"x", "a|b"}, "|", "x a b"},
		{"commas, and one alone", []string{"ann,bob", "carl", "bob"}, ",", "ann bob carl bob"},
		{"one alone, and commas", []string{"bob", "ann, bob"}, ",", "bob ann bob"},
		{"commas, never alone", []string{"ann,bob", "bob,carl"}, ",", "ann bob bob carl"},
		{"an array of NumPy", []string{"['ann' 'bob']", "['carl']"}, " ", "ann bob carl"},
		{"numbers of NumPy", []string{"[ 1  2 10]"}, " ", "1 2 10"},
		{"integers and commas, never alone", []string{"1,2", "3, 4"}, ",", "1 2 3 4"},
		{"separators around", []string{"x", ";ann;bob;"}, ";", "x ann bob"},
		{"a wide semicolon", []string{"ann；bob"}, "；", "ann bob"},
		{"identifiers and blanks, never alone", []string{"N55189 N42782", "N34694"}, " ", "N55189 N42782 N34694"},
		{"addresses and commas, never alone", []string{"ann@x.org,bob@x.org"}, ",", "ann@x.org bob@x.org"},
		{"a wide comma", []string{"ann，bob"}, "，", "ann bob"},
		{"lines", []string{"ann\nbob", "bob"}, `\n`, "ann bob bob"},
		{"lines of old Macs", []string{"ann\rbob", "bob"}, `\r`, "ann bob bob"},
		{"tabs", []string{"bob", "ann\tbob"}, `\t`, "bob ann bob"},
		{"slashes, and one alone", []string{"ann/bob", "carl", "bob"}, "/", "ann bob carl bob"},
		{"slashes, never alone", []string{"ann/bob", "bob / carl"}, "/", "ann bob bob carl"},
		{"ampersands", []string{"ann & bob", "bob&carl"}, "&", "ann bob bob carl"},
		{"a word between", []string{"ann and bob", "bob and carl"}, " and ", "ann bob bob carl"},
		{"sums", []string{"ann + bob", "bob"}, " + ", "ann bob bob"},
		{"paths", []string{"org/a", "org/b", "org", "https://x.org/bob", "bob", "/bob/x", "bob/y"}, "", ""},
		{"numbers of a street", []string{"3/12", "12/3"}, "", ""},
		{"companies", []string{"Smith & Sons", "Barnes and Noble", "Smith"}, "", ""},
		{"names and blanks", []string{"Ann Doe", "user 17", "Doe Ann"}, "", ""},
		{"names", []string{"Doe, Jane", "Doe, John", "Roe, Jane"}, "", ""},
		{"identifiers", []string{"{550e8400-e29b-41d4-a716-446655440000}", "(unknown)", "a:b", "x;", ";y", "|"}, "", ""},
	} {
		var table, list bytes.Buffer
		w := csv.NewWriter(&table)
		w.Write([]string{"example_id", "owner_id"})
		type row struct {
			Example int64  `parquet:"example_id"`
			Owner   string `parquet:"owner_id"`
		}
		var rows []row
		for i, value := range c.values {
			w.Write([]string{fmt.Sprint(i), value})
			rows = append(rows, row{int64(i), value})
		}
		w.Flush()
		must.Do(t, parquet.Write(&list, rows))
		for name, file := range map[string][]byte{"g.csv": table.Bytes(), "g.parquet": list.Bytes()} {
			owners := func(separator string) (got []string, err error) {
				edges, _, _, err := read([]string{write(t, t.TempDir(), name, file)}, graphio.Options{OwnerSeparator: separator})
				for _, e := range edges {
					got = append(got, e.owner)
				}
				return got, err
			}
			if got, err := owners(graphio.NoSeparator); err != nil || !slices.Equal(got, c.values) {
				t.Errorf("%s, %s, each one owner: %q, %v", c.about, name, got, err)
			}
			got, err := owners("")
			separator := strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t").Replace(c.way)
			if c.way == "" {
				if err != nil || !slices.Equal(got, c.values) {
					t.Errorf("%s, %s: %q, %v", c.about, name, got, err)
				}
				continue
			}
			if err == nil || !strings.Contains(err.Error(), "several owners in one value") || !strings.Contains(err.Error(), "'"+c.way+"'") ||
				strings.Contains(err.Error(), "ann") {
				t.Errorf("%s, %s: %q, %v", c.about, name, got, err)
			}
			if got, err := owners(separator); err != nil || !slices.Equal(got, strings.Fields(c.owners)) {
				t.Errorf("%s, %s, divided: %q, %v", c.about, name, got, err)
			}
		}
	}
}

// TestNamesWithCommas: a list of names, some of which are first names and family names, is read with a
// warning, and one of pairs is refused, however many owners it has and wherever they stand alone.
func TestNamesWithCommas(t *testing.T) {
	const n = 300_000            // more than a scan keeps
	word := func(i int) string { // a, …, j, ba, …
		return strings.Map(func(r rune) rune { return r + 'a' - '0' }, fmt.Sprint(i))
	}
	for _, c := range []struct {
		about   string
		owner   func(i int) string
		refused bool
		warned  string // of the first values
	}{
		{"names", func(i int) string { return word(i%1000) + ", " + word(i/1000+970) }, false, "',' between texts: 65,536 of the first 65,536"},
		{"pairs of few", func(i int) string { return fmt.Sprintf("p%dx,p%dx", i%1000, (i+7)%1000) }, true, ""},
		{"pairs of many", func(i int) string { return fmt.Sprintf("p%dx/p%dx", i, (i+7)%n) }, true, ""},
		{"pairs that never recur", func(i int) string { return fmt.Sprintf("p%dx&q%dx", i, i) }, false, "'&' between texts: 65,536 of the first 65,536"},
		{"few pairs, alone later", func(i int) string {
			if i < 50 {
				return fmt.Sprintf("p%dx/p%dx", 2*i, 2*i+1)
			}
			return fmt.Sprintf("p%dx", i%100)
		}, true, ""},
		{"few pairs at the end", func(i int) string {
			if i > n-50 {
				return fmt.Sprintf("p%dx and p%dx", i-1000, i-2000)
			}
			return fmt.Sprintf("p%dx", i)
		}, true, ""},
		{"few odd names", func(i int) string {
			if i%100 == 0 {
				return fmt.Sprintf("p%dx & Sons", i)
			}
			return fmt.Sprintf("p%dx", i)
		}, false, ""},
		{"ids in base 64", func(i int) string {
			sum := sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(i >> 16)})
			return base64.StdEncoding.EncodeToString(sum[:16])
		}, false, ""},
	} {
		text := []byte("example_id\towner_id\n")
		for i := range n {
			text = fmt.Appendf(text, "%d\t%s\n", i, c.owner(i))
		}
		source := must.Get(graphio.Open(t.Context(), []string{write(t, t.TempDir(), "g.tsv", text)}, defaults))(t)
		_, err := source.Load(t.Context())
		if refused := err != nil && strings.Contains(err.Error(), "several owners in one value"); refused != c.refused || err != nil && !refused {
			t.Errorf("%s: %v", c.about, err)
		}
		if c.refused {
			continue
		}
		var warnings string
		for _, w := range source.Warnings(t.Context(), ownergraph.Summary{}, nil) {
			warnings += w.Error() + "\n"
		}
		if !strings.Contains(warnings, c.warned) || (c.warned == "") != (warnings == "") {
			t.Errorf("%s: %q", c.about, warnings)
		}
	}
}

// TestDividedOwners: parts are ids like others, of integers too, and of values of any length.
func TestDividedOwners(t *testing.T) {
	long := strings.Repeat("owner;", 60) + "last"
	for _, c := range []struct {
		about, text string
		o           graphio.Options
		edges       int
		fault       string
	}{
		{"integers", "example_id,owner_id\n1,7;8\n2,9\n", graphio.Options{OwnerSeparator: ";"}, 3, ""},
		{"a long value", "example_id,owner_id\n1," + long + "\n", graphio.Options{OwnerSeparator: ";"}, 61, ""},
		{"an empty part", "example_id,owner_id\n1,a;;b\n", graphio.Options{OwnerSeparator: ";"}, 0, "line 2: column 2: an empty id"},
		{"no integer", "example_id,owner_id\n1,7;8\n2,7;x\n", graphio.Options{OwnerSeparator: ";"}, 0, "line 3: column 2: not an integer"},
		{"an empty list", "example_id,owner_id\n1,[a]\n2,[]\n", graphio.Options{OwnerSeparator: ";"}, 0, "line 3: column 2: an example without owners"},
		{"an empty list that is left out", "example_id,owner_id\n1,[a]\n2,[]\n", graphio.Options{OwnerSeparator: ",", SkipOwnerless: true}, 1, ""},
		{"a bracket", "1,2\n", graphio.Options{OwnerSeparator: "["}, 0, "owner separator [: must have no quote and no bracket"},
	} {
		got, _, _, err := read([]string{write(t, t.TempDir(), "g.csv", []byte(c.text))}, c.o)
		if c.fault == "" && (err != nil || len(got) != c.edges) || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%s: %q, %v", c.about, got, err)
		}
	}
}

// TestOwnersInBytes: text in a column of bytes, as some programs store it, is looked at like text, and
// is divided only if it is taken for text; other bytes are ids whatever they look like.
func TestOwnersInBytes(t *testing.T) {
	for _, c := range []struct {
		about, first, second string
		o                    graphio.Options
		owners               []string
		fault                string
	}{
		{"text", "ann;bob", "ann", defaults, nil, "several owners in one value"},
		{"text, to be divided", "ann;bob", "ann", graphio.Options{OwnerSeparator: ";"}, nil, "a column of bytes, which --owner-separator does not divide: set --id-type string"},
		{"text, divided", "ann;bob", "ann", graphio.Options{OwnerSeparator: ";", IDType: "string"}, []string{"ann", "bob", "ann"}, ""},
		{"bytes, divided as text", "ann;\xffbob", "ann", graphio.Options{OwnerSeparator: ";", IDType: "string"}, nil, "not UTF-8"},
		{"text, each one owner", "ann;bob", "ann", graphio.Options{OwnerSeparator: graphio.NoSeparator}, []string{"ann;bob", "ann"}, ""},
		{"bytes", "a\xff;b", "a;b", defaults, []string{"a\xff;b", "a;b"}, ""},
		{"a number in bytes", "\x00\x00\x01\x02", "\x00\x00;b", defaults, []string{"\x00\x00\x01\x02", "\x00\x00;b"}, ""},
	} {
		var flat, list bytes.Buffer
		type row struct {
			Example int64  `parquet:"example_id"`
			Owner   []byte `parquet:"owner_id"`
		}
		type rows struct {
			Example int64    `parquet:"example_id"`
			Owners  [][]byte `parquet:"owners,list"`
		}
		first, second := []byte(c.first), []byte(c.second)
		must.Do(t, errors.Join(parquet.Write(&flat, []row{{1, first}, {2, second}}), parquet.Write(&list, []rows{{1, [][]byte{first}}, {2, [][]byte{second}}})))
		for name, file := range map[string][]byte{"flat.parquet": flat.Bytes(), "list.parquet": list.Bytes()} {
			edges, _, _, err := read([]string{write(t, t.TempDir(), name, file)}, c.o)
			var owners []string
			for _, e := range edges {
				owners = append(owners, e.owner)
			}
			if c.fault == "" && (err != nil || !slices.Equal(owners, c.owners)) || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
				t.Errorf("%s, %s: %q, %v", c.about, name, owners, err)
			}
		}
	}
}
