package noise

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/internal/strictjson"
	"minsep/sampling/stream"
)

// recordFormat is the format of a record of a [Registry].
const recordFormat = "minsep-run-record/1"

// Record says which training run a run id serves.
type Record struct {
	Format       string       `json:"format"`        // of this file
	RunID        stream.RunID `json:"run_id"`        // whose noise this is
	ParamsSHA256 Digest       `json:"params_sha256"` // of the recipe's parameters, with the training in them
	Training     Training     `json:"training"`      // what it is for
	Directory    string       `json:"directory"`     // of the run

	// PlanSHA256 is that of the part of the plan that decides the training run; zero for a run
	// without a plan. It identifies another training run before its examples and its noise
	// multiplier are known.
	PlanSHA256 Digest `json:"plan_sha256,omitzero"`
}

// ClaimError is a run id that serves another training run already.
type ClaimError struct {
	RunID     stream.RunID // that was asked for
	What      string       // "directory", "copy" of the directory, or "training run"
	Directory string       // where the run id serves
	Records   []string     // the files that say so
}

func (e *ClaimError) Error() string {
	if e.What == "copy" {
		return fmt.Sprintf("run id %v: serves another directory already, %s, of which this one is a copy, with the same batches and the same noise: two training runs with the "+
			"same noise reveal their difference; go on in that directory; or give this one batches and noise of its own, with minsep run --again and the plan; or remove that directory, if no training run has used it, and keep this one",
			e.RunID, e.Directory)
	}
	text := fmt.Sprintf("run id %v: serves another %s already, in %s: one run id serves one training run, since two training runs with the "+
		"same noise reveal their difference; give another --out, with no --run-id or a new one", e.RunID, e.What, e.Directory)
	if e.What == "directory" {
		text += fmt.Sprintf("; if that directory was moved as a whole, and only this training run uses its noise, delete %s first", strings.Join(e.Records, " and "))
	}
	return text
}

// Registry holds the records of the run ids of one root key. It goes by a commitment to the key's
// content, so that copies, links and new names of the key file count as the same key. There are two
// folders of records: beside the key file, where all who use that file see them, and in the user's
// state folder, where copies of the key elsewhere on this machine are seen. Each alone can refuse a
// claim. A key that is copied to another machine has other records there; a record that is deleted
// is forgotten.
//
// Training runs that differ share no word of noise in any case, as the run id and the parameters
// are part of the noise key. The registry is for the case left: a second training run with the same
// run id and the same parameters.
type Registry struct {
	folders []recordFolder
}

type recordFolder struct {
	path   string // of the key's records; made when the first is written
	faulty func(err error) error
}

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
		err = &param.Error{Package: "noise", Param: stateVariable, Value: dir,
			Rule: "must be an absolute path: records of run ids are kept there, and must be found from every folder; give the whole path, or unset it for ~/.local/state"}
	}
	return filepath.Join(home, ".local", "state"), err
}

// recordsFault is the error for a folder of records that cannot be used.
func recordsFault(name, value, rule string) func(error) error {
	bad := &param.Error{Package: "noise", Param: name, Value: value, Rule: rule}
	return func(err error) error { return fmt.Errorf("%w: %w", bad, err) }
}

// OpenRegistry returns the registry of a root key that was read from keyFile. It writes nothing.
func OpenRegistry(root stream.Root, keyFile string) (*Registry, error) {
	commitment := root.Commitment()
	name := hex.EncodeToString(commitment[:16])
	key, err := store.Real(keyFile)
	if err != nil {
		return nil, fmt.Errorf("noise: key file: %w", err)
	}
	beside := recordFolder{store.Join(store.Dir(key), "minsep-runs", name),
		recordsFault("key", keyFile, "must be in a folder that can be written to: records of run ids are kept there, so that no two training runs have the same noise; move or copy the key")}
	state, err := stateFolder()
	own := recordFolder{filepath.Join(state, "minsep", "runs", name),
		recordsFault(stateVariable, state, "must be a folder that can be written to: records of run ids are kept there, so that no two training runs have the same noise; set it to one")}
	var relative *param.Error
	switch {
	case errors.As(err, &relative):
		return nil, err
	case err != nil:
		return nil, own.faulty(err)
	}
	return &Registry{[]recordFolder{beside, own}}, nil
}

// Writable returns the error that a claim would meet because a folder of records cannot be written
// to. With dry it leaves nothing behind, and does not look at object stores.
func (g *Registry) Writable(dry bool) error {
	for _, f := range g.folders {
		if err := f.writable(dry); err != nil {
			return f.faulty(err)
		}
	}
	return nil
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

// Find returns what is recorded of a run id, and the files that say so; nothing if there is none.
// Records that contradict each other are an error.
func (g *Registry) Find(id stream.RunID) (found *Record, files []string, err error) {
	for _, f := range g.folders {
		path := f.record(id)
		r, err := readRecord(path, id)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		files = append(files, path)
		if found == nil {
			found = r
			continue
		}
		if found.PlanSHA256 == (Digest{}) { // one of them may be older than the plan
			found.PlanSHA256 = r.PlanSHA256
		} else if r.PlanSHA256 == (Digest{}) {
			r.PlanSHA256 = found.PlanSHA256
		}
		if *found != *r {
			what := "training run"
			if r.Directory = found.Directory; *found == *r { // as after a Move that was stopped
				what = "directory"
			}
			return nil, nil, &ClaimError{id, what, found.Directory, files}
		}
	}
	return found, files, nil
}

// Check returns a [*ClaimError] if the run id of want serves another training run, or the same one
// in another directory. Empty fields of want are not known yet, and are not compared.
func (g *Registry) Check(want Record) error {
	got, files, err := g.Find(want.RunID)
	if err != nil || got == nil {
		return err
	}
	return got.refuses(want, files)
}

// refuses compares a record with what a claim wants.
func (r Record) refuses(want Record, files []string) error {
	differs := func(have, want string) bool { return want != "" && have != want }
	switch {
	case want.ParamsSHA256 != (Digest{}) && r.ParamsSHA256 != want.ParamsSHA256,
		want.PlanSHA256 != (Digest{}) && r.PlanSHA256 != (Digest{}) && r.PlanSHA256 != want.PlanSHA256,
		differs(r.Training.Examples, want.Training.Examples), differs(r.Training.Sampler, want.Training.Sampler):
		return &ClaimError{want.RunID, "training run", r.Directory, files}
	case differs(r.Directory, want.Directory):
		return &ClaimError{want.RunID, "directory", r.Directory, files}
	}
	return nil
}

// Claim records that the run id of r serves r's training in the run directory, which must exist,
// and nothing else. It makes the records (modes 0700 and 0600) where there are none, accepts the
// same claim again, so that a stopped run can go on, and returns a [*ClaimError] for another
// directory or another training run. Of several processes that claim one run id at once only one
// succeeds. plan is [Record.PlanSHA256].
func (g *Registry) Claim(r *Recipe, directory string, plan Digest) error {
	real, err := store.Real(directory)
	if err != nil {
		return fmt.Errorf("noise: run directory: %w", err)
	}
	want := Record{recordFormat, r.RunID, r.ParamsSHA256, r.Params.Training, real, plan}
	if err := g.Check(want); err != nil { // before anything is written
		return err
	}
	for _, f := range g.folders {
		if err := f.claim(want); err != nil {
			return err
		}
	}
	return nil
}

// Move records that the directory of a run id is another one now, since the one that found names
// was moved there as a whole. Where the records have changed since found was found, as by another
// process, the error is a [*ClaimError].
func (g *Registry) Move(found Record, directory string) error {
	real, err := store.Real(directory)
	if err != nil {
		return fmt.Errorf("noise: run directory: %w", err)
	}
	own := g.folders[len(g.folders)-1]
	unlock, err := store.LockFolder(own.path, "lock", 0o700, 0o600)
	if err != nil {
		return own.faulty(err)
	}
	defer unlock()
	now, files, err := g.Find(found.RunID)
	if err != nil {
		return err
	}
	if now == nil || *now != found {
		return &ClaimError{found.RunID, "directory", real, files}
	}
	ctx := context.Background()
	now.Directory = real
	b, err := now.encode()
	if err != nil {
		return err
	}
	for _, path := range files {
		if err := store.WriteFile(ctx, path, store.Options{Mode: 0o600, Temp: now.temporary()}, b); err != nil {
			return fmt.Errorf("noise: record of a run id: %w", err)
		}
	}
	return nil
}

// OfThisUser returns what the user's state folder has recorded of a run id, whatever the key: for
// those who look at a run directory and have none. What cannot be read is left out. Another user,
// or another machine, has other records.
func OfThisUser(id stream.RunID) (found []Record) {
	state, _ := stateFolder()
	if !filepath.IsAbs(state) {
		return nil
	}
	keys, err := store.List(context.Background(), filepath.Join(state, "minsep", "runs"))
	if err != nil {
		return nil
	}
	for _, key := range keys {
		f := recordFolder{path: filepath.Join(state, "minsep", "runs", key.Name)}
		if r, err := readRecord(f.record(id), id); err == nil {
			found = append(found, *r)
		}
	}
	return found
}

func (f recordFolder) record(id stream.RunID) string {
	return store.Join(f.path, id.String()+".json")
}

// claim makes the record, or finds that the one that is there says the same.
func (f recordFolder) claim(want Record) error {
	ctx := context.Background()
	if err := store.MkdirAll(ctx, f.path, 0o700); err != nil {
		return f.faulty(err)
	}
	path := f.record(want.RunID)
	err := want.create(ctx, path)
	// A temporary file that is gone was removed by the process whose claim came first.
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

// removeTemporary removes temporary files of a kind, among them what killed processes have left.
func removeTemporary(ctx context.Context, folder, kind string) error {
	entries, err := store.ListMade(ctx, folder)
	for _, e := range entries {
		if strings.HasPrefix(e.Name, store.TempPrefix+kind) {
			err = errors.Join(err, store.RemoveAll(ctx, store.Join(folder, e.Name)))
		}
	}
	if err != nil {
		return fmt.Errorf("noise: record of a run id: %w", err)
	}
	return nil
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

func (r Record) encode() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("noise: record of a run id: %w", err)
	}
	return append(b, '\n'), nil
}

// maxRecord bounds the size of a record that is read, in bytes.
const maxRecord = 1 << 20

func readRecord(path string, id stream.RunID) (*Record, error) {
	b, err := store.ReadFile(context.Background(), path, maxRecord)
	if err != nil {
		return nil, fmt.Errorf("noise: record of a run id: %w", err)
	}
	var r Record
	err = strictjson.Unmarshal(b, &r)
	if err == nil && (r.Format != recordFormat || r.RunID != id) {
		err = fmt.Errorf("is of run %v in format %q: this version reads %q", r.RunID, r.Format, recordFormat)
	}
	if err != nil {
		return nil, fmt.Errorf("noise: record of a run id %s: was changed or damaged: %w: put a copy of it back: the records beside the key and in the user's state folder are alike; "+
			"where none is whole, train with another run, which minsep run --again makes, or another --out", path, err)
	}
	return &r, nil
}
