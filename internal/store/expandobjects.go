package store

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// expander expands names in an object store.
type expander struct{ ctx context.Context }

// expand does the work of Expand for a name in an object store.
func (o expander) expand(name string) ([]string, error) {
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
	scheme, rest, _ := strings.Cut(name, "://")
	bucket, pattern, _ := strings.Cut(rest, "/")
	matches, err := o.match(scheme+"://"+bucket, strings.Split(pattern, "/"))
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
		found := []match{{Join(dir, e.Name), e.Dir}}
		switch {
		case !matched || len(parts) > 1 && !e.Dir, meta(parts[0]) && !hidden(parts[0]) && hidden(e.Name):
			continue
		case len(parts) > 1:
			if found, err = o.match(found[0].name, parts[1:]); err != nil {
				return nil, err
			}
		}
		matches = append(matches, found...)
	}
	return matches, nil
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
		in := []string{Join(dir, e.Name)}
		if e.Dir {
			if in, err = o.folder(in[0]); err != nil {
				return nil, err
			}
		}
		files = append(files, in...)
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
