package stages

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"minsep/internal/manifest"
	"minsep/internal/store"
)

// Directory is the run directory of a plan.
type Directory struct {
	Out  string
	Plan Plan
	Run  manifest.Run // run.json
}

// Path returns the path of a stage's result.
func (d *Directory) Path(s *Stage) string {
	if s.Formats == nil {
		return d.path(s.files(context.Background(), d)[0])
	}
	return d.path(s.Folder())
}

// path returns the path of a name in the run directory.
func (d *Directory) path(name string) string { return store.Join(d.Out, name) }

// Compare reports whether a finished result of a stage is there, and how it differs from the result that
// run.json names. One that run.json does not name, since a command was killed before it did, must be of
// this run: its plan is run.json's. Each file of a folder is held against the index too.
func (d *Directory) Compare(ctx context.Context, s *Stage) (there bool, differs []string, err error) {
	watched, failures := store.WatchFailures(ctx)
	there, differs, err = d.compare(watched, s)
	if stopped := errors.Join(ctx.Err(), failures.Err()); stopped != nil { // a file that was not read to its end is not broken
		return false, nil, stopped
	}
	if err != nil {
		err = Unusable(d.Path(s), err)
	}
	return there, differs, err
}

func (d *Directory) compare(ctx context.Context, s *Stage) (there bool, differs []string, err error) {
	path := d.Path(s)
	if s.Formats == nil {
		_, err = store.Stat(ctx, path)
		there = err == nil
	} else {
		there, err = manifest.Finished(ctx, path)
	}
	if !there {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return false, nil, err
	}
	_, named := d.Run.Stages[s.Name]
	if named {
		differs = NotNamed(ctx, d.Out, d.Run.Stages[s.Name])
	}
	if s.Formats == nil && !named {
		differs, err = s.differs(ctx, d)
	}
	if s.Formats == nil || differs != nil {
		return true, differs, err
	}
	ix, err := manifest.Read(ctx, path)
	if err != nil {
		return true, nil, err
	}
	if !named && ix.RunID != d.Run.RunID {
		return true, []string{"it belongs to another run"}, nil
	}
	differs, err = fileFaults(ctx, ix, path)
	return true, differs, err
}

// Vouching returns the entry of run.json for a finished result: the files that vouch for it, by
// their names, with their SHA-256. An entry never changes, so that the results from which this one
// was made are told by theirs.
func (d *Directory) Vouching(ctx context.Context, s *Stage) (files map[string]manifest.Digest, err error) {
	ctx, failures := store.WatchFailures(ctx)
	names := []string{s.ResultName() + "/" + manifest.IndexName}
	if s.files != nil {
		names = s.files(ctx, d)
	}
	files = map[string]manifest.Digest{}
	for _, name := range names {
		if files[name], err = TextDigest(ctx, d.path(name)); err != nil {
			break
		}
	}
	if failed := failures.Err(); failed != nil { // which files vouch for the result is not known then
		return nil, failed
	}
	return files, err
}

// NotNamed returns the files of a run directory that differ from those that run.json names.
func NotNamed(ctx context.Context, out string, named map[string]manifest.Digest) (differs []string) {
	for _, file := range slices.Sorted(maps.Keys(named)) {
		switch got, err := TextDigest(ctx, store.Join(out, file)); {
		case errors.Is(err, fs.ErrNotExist):
			differs = append(differs, file+" is missing")
		case err != nil:
			differs = append(differs, file+" cannot be read")
		case got != named[file]:
			differs = append(differs, file+" is not the one that run.json names")
		}
	}
	return differs
}

// fileFaults compares every file of a folder with its index. It does not say how large files are: the
// sizes of batch files tell how large the batches are.
func fileFaults(ctx context.Context, ix *manifest.Index, dir string) (differs []string, err error) {
	others, err := Unlisted(ctx, ix, dir)
	if others != nil {
		differs = append(differs, Listed(others)+" not in its index"+MoveAway)
	}
	if broken := BrokenFiles(ctx, ix, dir); broken != nil {
		differs = append(differs, Listed(broken)+" not what its index says")
	}
	return differs, err
}
