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

// exposedModes returns the secret files and folders in dir that others may read or enter; dir is a
// run directory or one of its folders. Secret are batches, noise, the secret report, and checkpoints of streams in other folders of the run directory. The folders above dir
// and access lists are not looked at. Object stores have no modes.
func exposedModes(ctx context.Context, dir string) (exposed []Exposed) {
	look := func(at string, folder bool, secret func(name string) bool) {
		e := Exposed{Path: at}
		info, err := store.Stat(ctx, at)
		if err != nil || info.Dir != folder { // gone, or its inspection reports the fault
			return
		}
		if folder {
			e.Open = info.Mode&othersEnter != 0
			e.count(ctx, at, secret)
		} else if info.Mode&othersRead != 0 {
			e.Files = 1
		}
		if e.Files > 0 || e.Open {
			exposed = append(exposed, e)
		}
	}
	all := func(string) bool { return true }
	if ix, err := manifest.Read(ctx, dir); err == nil {
		if slices.ContainsFunc(stages.All, func(s *stages.Stage) bool { return s.Secret && slices.Contains(s.Formats, ix.Format) }) {
			look(dir, true, all)
		}
		return exposed
	}
	for _, s := range stages.All {
		if s.Secret {
			look(store.Join(dir, s.Folder()), true, all)
		}
	}
	look(store.Join(dir, manifest.SecretReportPage), false, nil)
	entries, _ := store.List(ctx, dir) // if dir is a file, or cannot be read, its inspection reports the fault
	for _, e := range entries {
		if below := store.Join(dir, e.Name); e.Dir && holdsCheckpoint(ctx, below) {
			look(below, true, isStreamState)
		}
	}
	return exposed
}

// holdsCheckpoint reports whether a folder holds a checkpoint of a stream.
func holdsCheckpoint(ctx context.Context, dir string) bool {
	entries, _ := store.List(ctx, dir)
	return slices.ContainsFunc(entries, func(e store.Entry) bool { return !e.Dir && isStreamState(e.Name) })
}

// count adds the secret files in a folder, at any depth, that group or others may read.
func (e *Exposed) count(ctx context.Context, dir string, secret func(name string) bool) {
	entries, _ := store.List(ctx, dir) // a fault is reported by its inspection
	for _, f := range entries {
		if ctx.Err() != nil {
			return
		}
		at := store.Join(dir, f.Name)
		if f.Dir {
			e.count(ctx, at, secret)
			continue
		}
		info, err := store.Stat(ctx, at)
		if err == nil && !info.Dir && secret(path.Base(f.Name)) && info.Mode&othersRead != 0 {
			e.Files++
		}
	}
}
