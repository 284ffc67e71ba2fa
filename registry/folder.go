package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/sampling/stream"
)

// stateVariable names the folder of a user's state (XDG Base Directory Specification).
const stateVariable = "XDG_STATE_HOME"

// stateFolder is where records are kept for the user: $XDG_STATE_HOME, or ~/.local/state. For a
// relative path in the variable it is the folder of those who do not set it, and a [*param.Error].
func stateFolder() (string, error) {
	dir := os.Getenv(stateVariable)
	if filepath.IsAbs(dir) {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err == nil && !filepath.IsAbs(home) {
		err = errors.New("the home directory is not known")
	}
	if dir != "" {
		err = &param.Error{Package: "registry", Param: stateVariable, Value: dir,
			Rule: "must be an absolute path: records of run ids are kept there, and must be found from every folder; give the whole path, or unset it for ~/.local/state"}
	}
	return filepath.Join(home, ".local", "state"), err
}

type recordFolder struct {
	path   string // of the key's records; made when the first is written
	faulty func(err error) error
}

// recordsFault is the error for a folder of records that cannot be used.
func recordsFault(name, value, rule string) func(error) error {
	bad := &param.Error{Package: "registry", Param: name, Value: value, Rule: rule}
	return func(err error) error { return fmt.Errorf("%w: %w", bad, err) }
}

func (f recordFolder) writable(dry bool) error {
	ctx := context.Background()
	dir := f.path
	if dry {
		there, err := store.NearestFolder(dir)
		if err != nil || there == "" {
			return err
		}
		dir = there
	} else if err := store.MkdirAll(ctx, dir, 0o700); err != nil {
		return err
	}
	const temporary = "probe-"
	probe := store.Join(dir, store.TempPrefix+temporary+stream.NewRunID().String())
	err := store.WriteFile(ctx, probe, store.Options{Mode: 0o600, New: true, Temp: temporary}, []byte("minsep can write here\n"))
	if err == nil || errors.Is(err, fs.ErrNotExist) { // removed by another process already, which found that it can write
		err = removeTemporary(ctx, dir, temporary)
	}
	return err
}

func (f recordFolder) record(id stream.RunID) string {
	return store.Join(f.path, id.String()+".json")
}

// claim makes the record, or finds that the one that is there says the same, or less.
func (f recordFolder) claim(want Record) error {
	ctx := context.Background()
	if err := store.MkdirAll(ctx, f.path, 0o700); err != nil {
		return f.faulty(err)
	}
	path := f.record(want.RunID)
	err := want.create(ctx, path)
	// A temporary file that is gone was removed by the process with the first claim.
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		return f.faulty(err)
	}
	if err != nil {
		got, err := readRecord(path, want.RunID)
		if err != nil {
			return err
		}
		if err := got.refuses(want, []string{path}); err != nil {
			return err
		}
	}
	return removeTemporary(ctx, f.path, want.temporary())
}

// temporary is a part of the names of unfinished records.
func (r Record) temporary() string { return "claim-" + r.RunID.String() + "-" }

// create makes the record, whole and only if there is none.
func (r Record) create(ctx context.Context, path string) error {
	b, err := r.encode()
	if err != nil {
		return err
	}
	return store.WriteFile(ctx, path, store.Options{Mode: 0o600, New: true, Temp: r.temporary()}, b)
}

// removeTemporary removes temporary files of a kind, of killed processes too.
func removeTemporary(ctx context.Context, folder, kind string) error {
	entries, err := store.ListMade(ctx, folder)
	for _, e := range entries {
		if strings.HasPrefix(e.Name, store.TempPrefix+kind) {
			err = errors.Join(err, store.RemoveAll(ctx, store.Join(folder, e.Name)))
		}
	}
	if err != nil {
		return fmt.Errorf("registry: record of a run id: %w", err)
	}
	return nil
}
