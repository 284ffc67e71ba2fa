package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Expand returns the files that a path stands for, in order. A file stands for itself, a folder for
// all files below it, and a pattern, as [path.Match] has it, for its matches. Only the last part of
// a path may be a pattern. Names that begin with "." or "_" are left out, unless the path or the
// pattern begins so too. No match is an error.
func Expand(ctx context.Context, name string) ([]string, error) {
	if err := Check(name); err != nil {
		return nil, err
	}
	if isLocal(name) {
		name = localPath(name)
	}
	info, err := Stat(ctx, name)
	switch {
	case err == nil && !info.Dir:
		return []string{name}, nil
	case err == nil:
		files, err := below(ctx, name, "*")
		if err == nil && len(files) == 0 {
			err = errors.New("no file in the folder")
		}
		return files, err
	case !errors.Is(err, fs.ErrNotExist) || !strings.ContainsAny(name, `*?[`):
		return nil, err
	}
	dir, pattern := Dir(name), Base(name)
	if strings.ContainsAny(dir, `*?[`) {
		return nil, errors.New("only the last part of a path may be a pattern: name a folder for all files below it")
	}
	files, err := below(ctx, dir, pattern)
	if (err == nil || errors.Is(err, fs.ErrNotExist)) && len(files) == 0 {
		err = errors.New("no file matches the pattern")
	}
	return files, err
}

// below lists the files of a folder whose names match a pattern, and those below the folders whose
// names do.
func below(ctx context.Context, dir, pattern string) (files []string, err error) {
	entries, err := List(ctx, dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		matches, err := path.Match(pattern, e.Name)
		if err != nil {
			return nil, err
		}
		if !matches || strings.ContainsAny(e.Name[:1], "._") && !strings.HasPrefix(pattern, e.Name[:1]) {
			continue
		}
		name := Join(dir, e.Name)
		info := Info{Dir: e.Dir}
		if !e.Dir && isLocal(name) { // it may be a link
			if info, err = Stat(ctx, name); err != nil {
				return nil, err
			}
		}
		switch {
		case !info.Dir:
			files = append(files, name)
			continue
		case !e.Dir && pattern == "*": // links could go round in circles
			return nil, fmt.Errorf("%s is a symbolic link to a folder: name the folder itself", e.Name)
		}
		inner, err := below(ctx, name, "*")
		if err != nil {
			return nil, err
		}
		files = append(files, inner...)
	}
	return files, nil
}
