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
	"minsep/internal/stream"
)

// stateVariable names the folder of a user's state (XDG Base Directory Specification).
const stateVariable = "XDG_STATE_HOME"

// stateFolder returns the folder of the user's state: $XDG_STATE_HOME, or ~/.local/state. A
// relative path in the variable is a [*param.Error]; the folder returned is then the default one.
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

// recordFolder is one of the folders that hold the records of a root key.
type recordFolder struct {
	path string // of the key's records; made when the first one is written
	// faulty turns an error of the file system into one that names the setting to change.
	faulty func(err error) error
}

// recordsFault returns recordFolder.faulty for a folder that was set by the named parameter.
func recordsFault(name, value, rule string) func(error) error {
	bad := &param.Error{Package: "registry", Param: name, Value: value, Rule: rule}
	return func(err error) error { return fmt.Errorf("%w: %w", bad, err) }
}

// writable writes a probe file to the folder and removes it. With dry it does not make the folder,
// and probes the nearest folder above that exists.
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
	if err == nil || errors.Is(err, fs.ErrNotExist) { // a process that probed at the same time removed it: the folder can be written to
		err = removeTemporary(ctx, dir, temporary)
	}
	return err
}

func (f recordFolder) record(id stream.RunID) string {
	return store.Join(f.path, id.String()+".json")
}

// claim writes the record want. A record that is there already must not contradict it.
func (f recordFolder) claim(want Record) error {
	ctx := context.Background()
	if err := store.MkdirAll(ctx, f.path, 0o700); err != nil {
		return f.faulty(err)
	}
	path := f.record(want.RunID)
	err := want.create(ctx, path)
	// The temporary file is gone if the process that made the first claim has removed it.
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

// temporary is the prefix of the temporary files in which the record is written.
func (r Record) temporary() string { return "claim-" + r.RunID.String() + "-" }

// create writes the record in one step, and fails with fs.ErrExist if there is one.
func (r Record) create(ctx context.Context, path string) error {
	b, err := r.encode()
	if err != nil {
		return err
	}
	return store.WriteFile(ctx, path, store.Options{Mode: 0o600, New: true, Temp: r.temporary()}, b)
}

// removeTemporary removes temporary files with a prefix, also of killed processes.
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
