package graphio

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"minsep/internal/store"
)

// hiveNull stands in the name of a folder for a value that is null.
const hiveNull = "__HIVE_DEFAULT_PARTITION__"

// folderColumn is a column with its value in the name of a folder, as in owner_id=3/part-0.csv.
// Hive, Spark and Arrow write tables so.
type folderColumn struct{ name, value string } // value as it is written there

// folderColumns returns the columns in the names of the folders that a file is in.
func folderColumns(file string) (list []folderColumn) {
	if abs, err := store.Abs(file); err == nil {
		file = abs
	}
	for part := range strings.SplitSeq(filepath.ToSlash(store.Dir(file)), "/") {
		if name, value, is := strings.Cut(part, "="); is && name != "" {
			list = append(list, folderColumn{name, value})
		}
	}
	return list
}

// inFolders finds a column among the folders' columns. The value is "" only if the column is not
// there.
func inFolders(list []folderColumn, names []string) (value string, fault *Fault) {
	for _, c := range list {
		name, err := url.PathUnescape(c.name)
		if err != nil || !slices.Contains(names, name) {
			continue
		}
		fail := func(found, rule string) (string, *Fault) {
			return "", &Fault{Column: name, Found: found, Rule: rule}
		}
		decoded, err := url.PathUnescape(c.value)
		switch {
		case value != "":
			return fail("two folders that name this column", "must be one: keep one of them")
		case err != nil:
			return fail("a folder's name with a % that begins no escape", "names of folders are URL-encoded")
		case decoded == hiveNull:
			return fail("a folder of rows without this column", "every record needs an id: leave this folder out")
		case decoded == "":
			return fail("a folder with an empty id", empty.rule(0))
		}
		value = decoded
	}
	return value, nil
}

// inBoth is the fault of a column that both the file and the name of a folder have.
func inBoth(column string) *Fault {
	return &Fault{
		Column: column,
		Found:  "a column of the file and of the folder's name",
		Rule:   "remove one of the two, or name other columns with --example-column and --owner-column",
	}
}

// masked is a path without the values of columns in it, which may be ids.
func masked(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts[:len(parts)-1] {
		if name, _, is := strings.Cut(part, "="); is && name != "" {
			parts[i] = name + "=…"
		}
	}
	return strings.Join(parts, "/")
}
