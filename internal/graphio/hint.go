package graphio

import (
	"bytes"
	"os"
	"regexp"
	"strings"

	"minsep/internal/store"
)

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
	if strings.HasPrefix(path, "~") {
		return "only shells replace ~: write the whole path"
	}
	parts := strings.Split(path, ",")
	for _, part := range parts {
		if _, err := os.Stat(strings.TrimSpace(part)); err != nil || len(parts) < 2 {
			return ""
		}
	}
	return "each of several files needs its own --graph"
}

// otherDelimiter returns the flag with which two records of one field have several, and equally many;
// "" if there is none. There may be no second record.
func otherDelimiter(first []byte, second [][]byte) string {
	if len(second) > 1 {
		return ""
	}
	for _, d := range []struct{ text, flag string }{{";", "--delimiter ';'"}, {"\t", "--format tsv"}, {"|", "--delimiter '|'"}, {",", "--format csv"}} {
		n := bytes.Count(first, []byte(d.text))
		if n > 0 && (second == nil || bytes.Count(second[0], []byte(d.text)) == n) {
			return d.flag
		}
	}
	return ""
}

// headerNames returns the fields of a record if each may be the name of a column.
func headerNames(record [][]byte) (names []string) {
	for _, field := range record {
		name := strings.TrimSpace(string(field))
		if !mayBeName.MatchString(name) { // such as an integer
			return nil
		}
		names = append(names, name)
	}
	return names
}
