package graphio

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"minsep/internal/store"
)

// objects expands names in object stores.
type objects struct{ ctx context.Context }

func (o objects) expand(name string) ([]string, error) {
	info, err := store.Stat(o.ctx, name)
	switch {
	case err == nil && !info.Dir:
		return []string{name}, nil
	case err == nil:
		files, err := o.folder(name)
		if err == nil && len(files) == 0 {
			err = errors.New("no file in the folder")
		}
		return files, err
	case !errors.Is(err, fs.ErrNotExist) || !strings.ContainsAny(name, "*?["):
		return nil, cause(err)
	}
	scheme, rest, _ := strings.Cut(name, "://")
	bucket, pattern, _ := strings.Cut(rest, "/")
	files, err := o.match(scheme+"://"+bucket, strings.Split(pattern, "/"))
	if err == nil && len(files) == 0 {
		err = errors.New("no file matches the pattern")
	}
	return files, err
}

// match returns the files in dir that the parts of a pattern match, and those in folders that they match.
func (o objects) match(dir string, parts []string) (files []string, err error) {
	if !strings.ContainsAny(parts[0], "*?[") && len(parts) > 1 {
		return o.match(store.Join(dir, parts[0]), parts[1:])
	}
	entries, err := o.list(dir)
	for _, e := range entries {
		if err != nil {
			return nil, err
		}
		matches, bad := path.Match(parts[0], e.Name)
		if bad != nil {
			return nil, bad
		}
		in, found := store.Join(dir, e.Name), []string(nil)
		switch {
		case !matches:
		case len(parts) > 1 && e.Dir:
			found, err = o.match(in, parts[1:])
		case len(parts) > 1:
		case e.Dir:
			found, err = o.folder(in)
		default:
			found = []string{in}
		}
		files = append(files, found...)
	}
	return files, err
}

// folder lists the files under dir in the order of their paths.
func (o objects) folder(dir string) (files []string, err error) {
	entries, err := o.list(dir)
	for _, e := range entries {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(e.Name, ".") || strings.HasPrefix(e.Name, "_") {
			continue
		}
		in := []string{store.Join(dir, e.Name)}
		if e.Dir {
			in, err = o.folder(in[0])
		}
		files = append(files, in...)
	}
	return files, err
}

// list returns what is in a folder, which may be nothing.
func (o objects) list(dir string) ([]store.Entry, error) {
	entries, err := store.List(o.ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, cause(err)
}
