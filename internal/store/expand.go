package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Expand returns the files that a path stands for, in order. A file stands for itself, a folder for
// all files below it, and a pattern, as [path.Match] has it, for its matches. Names that begin with
// "." or "_" are left out, unless the path, or the part of the pattern that matches them, begins so
// too. No match is an error. Slashes separate folders in an object store as they do locally.
func Expand(ctx context.Context, path string) ([]string, error) {
	if err := Check(path); err != nil {
		return nil, err
	}
	return expander{ctx}.expand(path)
}

// hidden reports whether a name is left out unless it is asked for.
func hidden(name string) bool { return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") }

// meta reports whether a part of a path is a pattern.
func meta(part string) bool { return strings.ContainsAny(part, `*?[`) }

// expander expands names.
type expander struct{ ctx context.Context }

func (o expander) expand(name string) ([]string, error) {
	if isLocal(name) {
		name = localPath(name)
	}
	info, err := Stat(o.ctx, name)
	switch {
	case err == nil && !info.Dir:
		return []string{name}, nil
	case err == nil:
		files, err := o.folder(name)
		if err == nil && len(files) == 0 {
			err = errors.New("no file in the folder")
		}
		return files, err
	case !errors.Is(err, fs.ErrNotExist) || !meta(name):
		return nil, err
	}
	root, pattern := ".", filepath.ToSlash(filepath.Clean(name))
	if scheme, rest, is := strings.Cut(name, "://"); is && !isLocal(name) {
		var bucket string
		bucket, pattern, _ = strings.Cut(rest, "/")
		root = scheme + "://" + bucket
	} else if strings.HasPrefix(pattern, "/") {
		root, pattern = "/", pattern[1:]
	}
	matches, err := o.match(root, strings.Split(pattern, "/"))
	slices.SortFunc(matches, func(a, b match) int { return strings.Compare(a.name, b.name) })
	var files []string
	for _, m := range matches {
		in := []string{m.name}
		if m.folder && err == nil {
			in, err = o.folder(m.name)
		}
		files = append(files, in...)
	}
	if err == nil && len(files) == 0 {
		err = errors.New("no file matches the pattern")
	}
	return files, err
}

// match is a name that matches a pattern.
type match struct {
	name   string
	folder bool
}

// match returns the names below dir that match the parts of a pattern.
func (o expander) match(dir string, parts []string) (matches []match, err error) {
	if !meta(parts[0]) && len(parts) > 1 {
		return o.match(Join(dir, parts[0]), parts[1:])
	}
	entries, err := o.list(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		matched, err := path.Match(parts[0], e.Name)
		if err != nil {
			return nil, err
		}
		if !matched || meta(parts[0]) && !hidden(parts[0]) && hidden(e.Name) {
			continue
		}
		found := match{name: Join(dir, e.Name)}
		if found.folder, err = o.isFolder(found.name, e); err != nil {
			return nil, err
		}
		switch {
		case len(parts) == 1:
			matches = append(matches, found)
		case found.folder:
			below, err := o.match(found.name, parts[1:])
			if err != nil {
				return nil, err
			}
			matches = append(matches, below...)
		}
	}
	return matches, nil
}

// isFolder reports whether an entry is a folder or a link to one.
func (o expander) isFolder(name string, e Entry) (bool, error) {
	if e.Dir || !isLocal(name) {
		return e.Dir, nil
	}
	info, err := Stat(o.ctx, name)
	return info.Dir, err
}

// folder lists the files below dir in the order of their paths.
func (o expander) folder(dir string) (files []string, err error) {
	entries, err := o.list(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if hidden(e.Name) {
			continue
		}
		name := Join(dir, e.Name)
		folder, err := o.isFolder(name, e)
		switch {
		case err != nil:
			return nil, err
		case folder && !e.Dir: // links could go round in circles
			return nil, fmt.Errorf("%s is a symbolic link to a folder: name the folder itself", e.Name)
		case !folder:
			files = append(files, name)
			continue
		}
		below, err := o.folder(name)
		if err != nil {
			return nil, err
		}
		files = append(files, below...)
	}
	return files, nil
}

// list returns the contents of a folder. A folder that does not exist is an empty one.
func (o expander) list(dir string) ([]Entry, error) {
	entries, err := List(o.ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}
