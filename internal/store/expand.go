package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Expand returns the files that a path stands for, in order. A file stands for itself, a folder for
// all files below it, and a pattern for its matches. Names that begin with "." or "_" are left out,
// unless the path, or the part of the pattern that matches them, begins so too. No match is an
// error. Slashes separate folders in an object store as they do locally.
func Expand(ctx context.Context, path string) ([]string, error) {
	if err := Check(path); err != nil {
		return nil, err
	}
	if isLocal(path) {
		return expandLocal(localPath(path))
	}
	return expander{ctx}.expand(path)
}

// hidden reports whether a name is left out unless it is asked for.
func hidden(name string) bool { return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") }

// meta reports whether a part of a path is a pattern.
func meta(part string) bool { return strings.ContainsAny(part, `*?[`) }

// expandLocal expands a local path. Patterns follow [filepath.Match].
func expandLocal(path string) ([]string, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return localFiles(path)
	case err == nil:
		return []string{path}, nil
	case !errors.Is(err, fs.ErrNotExist) || !meta(path):
		return nil, err
	}
	path = filepath.Clean(path)
	matches, err := filepath.Glob(path)
	if err != nil {
		return nil, err
	}
	slices.Sort(matches)
	var files []string
	for _, m := range matches {
		if hiddenMatch(path, m) {
			continue
		}
		info, err := os.Stat(m)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, m)
			continue
		}
		in, err := localFiles(m)
		if err != nil {
			return nil, err
		}
		files = append(files, in...)
	}
	if len(files) == 0 {
		return nil, errors.New("no file matches the pattern")
	}
	return files, nil
}

// hiddenMatch reports whether a pattern that does not ask for hidden names matched one.
func hiddenMatch(pattern, name string) bool {
	patterns, names := strings.Split(
		pattern,
		string(filepath.Separator),
	), strings.Split(
		name,
		string(filepath.Separator),
	)
	for i := 1; i <= min(len(patterns), len(names)); i++ {
		if part := patterns[len(patterns)-i]; meta(part) && !hidden(part) && hidden(names[len(names)-i]) {
			return true
		}
	}
	return false
}

// localFiles lists the files below dir in the order of their paths. dir may be a symbolic link.
func localFiles(dir string) ([]string, error) {
	var files []string
	dir = strings.TrimRight(dir, string(filepath.Separator)) + string(filepath.Separator) // the slash makes WalkDir follow a link
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != dir && hidden(d.Name()) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.IsDir() { // WalkDir would pass over its files silently
			return fmt.Errorf("%s is a symbolic link to a folder: name the folder itself", d.Name())
		}
		files = append(files, path)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("no file in the folder")
	}
	return files, nil
}
