package graphio

import (
	"path/filepath"
	"slices"
	"strings"

	"minsep/internal/store"
)

// folderNames returns the columns that the names of the folders of a file give, as in
// owner_id=3/part-0.csv. Hive, Spark and Arrow write tables so.
func folderNames(file string) (names []string) {
	if abs, err := store.Abs(file); err == nil {
		file = abs
	}
	for part := range strings.SplitSeq(filepath.ToSlash(store.Dir(file)), "/") {
		if name, _, is := strings.Cut(part, "="); is && name != "" {
			names = append(names, name)
		}
	}
	return names
}

// checkFolders refuses a file in a folder that names the column of owners or examples, and a list of
// examples in a folder such as author=ada below the path that the user named: the folder probably
// names the owner of these examples.
func checkFolders(path, named string, isList bool, o *Options) *Fault {
	for _, name := range folderNames(path) {
		f := &Fault{
			Column: name,
			Found:  "a folder that names this column",
			Rule:   "columns in names of folders are not read: write it as a column of the files, and rename the folders",
		}
		switch {
		case slices.Contains(o.ownerNames(), name), !o.RowIDs && slices.Contains(o.exampleNames(), name):
			return f
		case isList && !o.SingleOwner && !strings.Contains(named, name+"="):
			f.Found = "examples without owners in a folder that names this column"
			f.Rule += "; if it names no owners, and each example is its own owner, name the folders: --graph '…/" + name + "=*'"
			return f
		}
	}
	return nil
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
