package inspect

import (
	"context"
	"io/fs"
	"path"
	"slices"

	"minsep/internal/manifest"
	"minsep/internal/stages"
	"minsep/internal/store"
)

// Exposed is a secret folder or file of a local run directory with modes that give access to its
// group or to others. It is not a failed check: copies lose modes, and the certificate holds as
// long as nobody has looked.
type Exposed struct {
	Path  string `json:"path"`  // of the folder or file
	Files int64  `json:"files"` // number of files that group or others may read, by the files' own modes
	Open  bool   `json:"open"`  // a folder that group or others may enter, so that they see the sizes of its files
}

// isStreamState reports whether a file is a checkpoint of a stream of noise.
func isStreamState(name string) bool {
	_, _, _, ok := manifest.ParseNoiseStreamState(name)
	return ok
}

// These bits of a mode let group or others read a file, and enter a folder.
const (
	othersRead  fs.FileMode = 0o044
	othersEnter fs.FileMode = 0o011
)

// ExposedModes returns the secret files and folders in dir that others may read or enter; dir is a
// run directory or one of its folders. Secret are batches, noise, the secret report, and checkpoints of streams in other folders of the run directory. The folders above dir
// and access lists are not looked at. Object stores have no modes.
func ExposedModes(ctx context.Context, dir string) (exposed []Exposed, err error) {
	look := func(at string, folder bool, secret func(name string) bool) error {
		e := Exposed{Path: at}
		info, err := store.Stat(ctx, at)
		if err != nil {
			return nil // gone, or its inspection reports the fault
		}
		if info.Dir != folder {
			return nil
		}
		if folder {
			e.Open = info.Mode&othersEnter != 0
			err = e.count(ctx, at, secret)
		} else if info.Mode&othersRead != 0 {
			e.Files = 1
		}
		if e.Files > 0 || e.Open {
			exposed = append(exposed, e)
		}
		return err
	}
	all := func(string) bool { return true }
	if ix, err := manifest.Read(ctx, dir); err == nil {
		if slices.ContainsFunc(stages.All, func(s *stages.Stage) bool { return s.Secret && slices.Contains(s.Formats, ix.Format) }) {
			err = look(dir, true, all)
		}
		return exposed, err
	}
	for _, s := range stages.All {
		if !s.Secret {
			continue
		}
		if err := look(store.Join(dir, s.Folder()), true, all); err != nil {
			return nil, err
		}
	}
	if err := look(store.Join(dir, manifest.SecretReportPage), false, nil); err != nil {
		return nil, err
	}
	entries, err := store.List(ctx, dir)
	if err != nil {
		return exposed, nil // dir is a file, or its inspection reports the fault
	}
	for _, e := range entries {
		below := store.Join(dir, e.Name)
		if !e.Dir || !holdsCheckpoint(ctx, below) {
			continue
		}
		if err := look(below, true, isStreamState); err != nil {
			return nil, err
		}
	}
	return exposed, nil
}

// holdsCheckpoint reports whether a folder holds a checkpoint of a stream.
func holdsCheckpoint(ctx context.Context, dir string) bool {
	entries, err := store.List(ctx, dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if !e.Dir && isStreamState(e.Name) {
			return true
		}
	}
	return false
}

// count adds the secret files in a folder, at any depth, that group or others may read.
func (e *Exposed) count(ctx context.Context, dir string, secret func(name string) bool) error {
	entries, err := store.List(ctx, dir)
	if err != nil {
		return nil // its inspection reports the fault
	}
	for _, f := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := store.Join(dir, f.Name)
		if f.Dir {
			if err := e.count(ctx, at, secret); err != nil {
				return err
			}
			continue
		}
		info, err := store.Stat(ctx, at)
		if err == nil && !info.Dir && secret(path.Base(f.Name)) && info.Mode&othersRead != 0 {
			e.Files++
		}
	}
	return nil
}
