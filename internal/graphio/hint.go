package graphio

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"minsep/internal/store"
)

// looked is the number of records after the first that are looked at.
const looked = 20

// mayBeName is a field that may be shown as the name of a column.
var mayBeName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_. -]{0,39}$`)

// explain adds to a fault of the columns of CSV or TSV the cause that the first two records show:
// another delimiter, or a header with other names.
func (in *inspected) explain(f *Fault, between string, first [][]byte, rest *table, o *Options) {
	first = slices.Clone(first)
	for i := range first {
		first[i] = bytes.Clone(first[i])
	}
	var second [][]byte // the next record
	integers := make([]bool, len(first))
	for i := range looked {
		fields, _, err := in.record(rest)
		if err == io.EOF {
			break
		}
		if err != nil {
			return
		}
		if i == 0 {
			for j, field := range fields {
				second = append(second, bytes.Clone(field))
				if j < len(integers) {
					integers[j] = true
				}
			}
		}
		for j := range integers {
			if j >= len(fields) {
				integers[j] = false
			} else if _, k := parseInt(fields[j]); k != fits {
				integers[j] = false
			}
		}
	}
	if flag := otherDelimiter(first, second); flag != "" {
		f.Column, f.Found, f.Rule = "", "the fields are separated by another byte than by "+between, "set "+flag
		if o.Delimiter != "" {
			f.Found = "the fields are separated by another byte than by --delimiter"
		}
		if o.Delimiter != "" && flag == "--format "+in.split.Format {
			f.Rule = "leave --delimiter out: they are separated by " + between
		}
		return
	}
	if names := header(first, slices.Contains(integers, true), o); names != nil && o.Header != "no" {
		f.Rule += "; the header has " + strings.Join(names, ", ")
	}
}

// meant returns a hint on the paths that may be meant by a path that is not there; "" if nothing
// shows them.
func meant(path string) string {
	for _, scheme := range store.Schemes() {
		if rest, ok := strings.CutPrefix(path, scheme+":"); ok {
			return "in an object store it is " + scheme + "://" + strings.TrimLeft(rest, "/")
		}
	}
	parts := strings.Split(path, ",")
	for _, part := range parts {
		if _, err := os.Stat(strings.TrimSpace(part)); err != nil || len(parts) < 2 {
			return ""
		}
	}
	return "each of several files needs its own --graph"
}

// otherDelimiter returns the flag with which both records have the same number of fields, if each
// is a single field without it; "" if there is none.
func otherDelimiter(first, second [][]byte) string {
	if len(first) != 1 || len(second) > 1 {
		return ""
	}
	for _, d := range []struct{ text, flag string }{{";", "--delimiter ';'"}, {"\t", "--format tsv"}, {"|", "--delimiter '|'"}, {",", "--format csv"}} {
		n := bytes.Count(first[0], []byte(d.text))
		if n > 0 && (second == nil || bytes.Count(second[0], []byte(d.text)) == n) {
			return d.flag
		}
	}
	return ""
}

// header returns the names of the columns where the first record is surely a header, and no data:
// it has a name that was asked for, or no integer in a column in which the records after it have
// one.
func header(first [][]byte, integers bool, o *Options) (names []string) {
	sure := o.Header == "yes" || integers
	for _, field := range first {
		name := strings.TrimSpace(string(field))
		if !mayBeName.MatchString(name) { // such as an integer
			return nil
		}
		sure = sure || slices.Contains(o.exampleNames(), name) || slices.Contains(o.ownerNames(), name)
		names = append(names, name)
	}
	if !sure {
		return nil
	}
	return names
}
