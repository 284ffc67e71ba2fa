package manifest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"minsep/internal/param"
	"minsep/internal/store"
)

// stageFile are the names that stages give to files in their folders, relative to them.
var stageFile = regexp.MustCompile(`^(` + strings.Join([]string{
	`index\.json`, `incomplete\.json`, `collected-files\.json`, `recipe\.json`, `strategy\.json`,
	`(indptr|rows|owners)-\d+-of-\d+\.npy`, `part-\d+\.parquet`,
	`shard-\d+-of-\d+/steps-\d+-\d+\.npy`,
}, "|") + `)$`)

// stageFolder are the names of the folders in them.
var stageFolder = regexp.MustCompile(`^shard-\d+-of-\d+$`)

// Removable refuses to remove the contents of a stage's folder where some are not the stage's:
// it names files that the index of a finished folder does not list, files that no stage writes
// in an unfinished one, and a folder that is a link, as its target may be another run's.
func Removable(ctx context.Context, dir string) error {
	if to, is := store.LinkTo(dir); is {
		return &param.Error{
			Param: "folder",
			Value: dir,
			Rule:  "is a link to " + to + ", and what is there is not removed: remove the link yourself, or give another --out",
		}
	}
	file, folder := stageFile.MatchString, stageFolder.MatchString
	if ix, err := Read(ctx, dir); err == nil {
		listed, folders := map[string]bool{IndexName: true}, map[string]bool{}
		for _, f := range ix.Files {
			listed[path.Clean(f.Name)] = true
			for name := path.Dir(f.Name); name != "."; name = path.Dir(name) {
				folders[name] = true
			}
		}
		file, folder = func(name string) bool { return listed[name] }, func(name string) bool { return folders[name] }
	}
	names, err := strangers(ctx, dir, ".", file, folder)
	if err != nil || names == nil {
		return err
	}
	return &param.Error{
		Param: "folder",
		Value: dir,
		Rule: fmt.Sprintf(
			"holds %s, which minsep did not write: move what you put there elsewhere",
			param.Printable(names[0]),
		),
	}
}

// strangers are the names in a folder that are not known, with the unknown ones in its known
// folders. The target of a link is not looked at: the link alone is removed.
func strangers(
	ctx context.Context,
	dir, in string,
	file, folder func(name string) bool,
) (names []string, err error) {
	entries, err := store.List(ctx, store.Join(dir, in))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := path.Join(in, e.Name)
		switch {
		case strings.HasPrefix(e.Name, store.TempPrefix), !e.Dir && (file(name) || folder(name)):
		case e.Dir && folder(name):
			more, err := strangers(ctx, dir, name, file, folder)
			if err != nil {
				return nil, err
			}
			names = slices.Concat(names, more)
		default:
			names = append(names, name)
		}
	}
	return names, nil
}
