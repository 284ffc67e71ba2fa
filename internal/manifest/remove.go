package manifest

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"regexp"
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

// removable refuses to remove the contents of an unfinished folder of a stage if some are not the
// stage's: it names files that no stage writes, and a folder that is a link, as its target may be
// another run's.
func removable(ctx context.Context, dir string) error {
	if to, is := store.LinkTo(dir); is {
		return &param.Error{
			Param: "folder",
			Value: dir,
			Rule:  "is a link to " + to + ", and what is there is not removed: remove the link yourself, or give another --out",
		}
	}
	names, err := Others(ctx, dir, true, func(name string, folder bool) bool {
		if folder {
			return stageFolder.MatchString(name)
		}
		return stageFile.MatchString(name)
	})
	if err != nil || names == nil {
		return err
	}
	return param.Fault(
		"folder",
		dir,
		"holds %s, which minsep did not write: move what you put there elsewhere",
		param.Printable(names[0]),
	)
}

// Others returns the names in a folder, and in its known folders, that are not known. Links to known
// folders are known if links is true. Temporary files of a killed run are not among the names, since
// every reader ignores them.
func Others(
	ctx context.Context,
	dir string,
	links bool,
	known func(name string, folder bool) bool,
) (names []string, err error) {
	folders := []string{"."}
	for i := 0; i < len(folders); i++ {
		entries, err := store.List(ctx, store.Join(dir, folders[i]))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a missing file is another fault
			return nil, err
		}
		for _, e := range entries {
			name := path.Join(folders[i], e.Name)
			switch {
			case strings.HasPrefix(e.Name, store.TempPrefix), !e.Dir && known(name, false):
			case known(name, true) && (e.Dir || links && isFolder(ctx, store.Join(dir, name))):
				folders = append(folders, name)
			default:
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// isFolder reports whether a name is that of a folder, or of a link to one.
func isFolder(ctx context.Context, at string) bool {
	info, err := store.Stat(ctx, at)
	return err == nil && info.Dir
}
