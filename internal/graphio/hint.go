package graphio

import (
	"bytes"
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
