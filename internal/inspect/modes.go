package inspect

import (
	"context"
	"io/fs"
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
// run directory or one of its folders. Secret are batches, noise, and checkpoints of streams in other folders of the run directory. The folders above dir
// and access lists are not looked at. Object stores have no modes.
func exposedModes(ctx context.Context, dir string) (exposed []Exposed) {
	if store.Shared(dir) {
		return nil
	}
	var secrets []string
	for _, s := range stages.All {
		if s.Secret {
			secrets = append(secrets, s.Folder())
		}
	}
	entries, _ := store.List(ctx, dir) // if dir is a file, or cannot be read, its inspection reports the fault
	if base := store.Base(dir); slices.Contains(secrets, base) {
		dir, entries = store.Dir(dir), []store.Entry{{Name: base, Dir: true}}
	}
	for _, e := range entries {
		x := Exposed{Path: store.Join(dir, e.Name)}
		secret := x.look(ctx, x.Path, slices.Contains(secrets, e.Name))
		info, err := store.Stat(ctx, x.Path)
		x.Open = err == nil && secret && info.Dir && info.Mode&othersEnter != 0
		if x.Files > 0 || x.Open {
			exposed = append(exposed, x)
		}
	}
	return exposed
}

// look counts the secret files that others may read, of a file or of a folder at any depth: all of them, or else
// the checkpoints of streams. It reports whether any file is secret.
func (x *Exposed) look(ctx context.Context, at string, all bool) (secret bool) {
	secret = all || isStreamState(store.Base(at))
	info, err := store.Stat(ctx, at)
	if err != nil || ctx.Err() != nil { // a fault is reported by its inspection
		return false
	}
	if !info.Dir {
		if secret && info.Mode&othersRead != 0 {
			x.Files++
		}
		return secret
	}
	entries, _ := store.List(ctx, at)
	for _, e := range entries {
		secret = x.look(ctx, store.Join(at, e.Name), all) || secret
	}
	return secret
}
