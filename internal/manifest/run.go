package manifest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"syscall"

	"minsep/internal/store"
	"minsep/internal/stream"
	"minsep/internal/strictjson"
	"minsep/internal/testrun"
	"minsep/internal/words"
)

// RunFormat is the format of run.json.
const RunFormat = "minsep-run/2"

// RunName is the name of the file that makes a folder a run directory.
const RunName = "run.json"

// Run is run.json, which makes a folder a run directory. The run id is made with the
// directory and serves one training run.
type Run struct {
	Format  string       `json:"format"`
	Version string       `json:"minsep_version"` // of the code that made the directory
	RunID   stream.RunID `json:"run_id"`         // of the training run
	// Test says that a test has fixed the run id: the directory serves no training.
	Test bool `json:"test,omitempty"`
	// Earlier are the runs whose table, strategy or certificate this one has taken over, oldest
	// first: the run of the directory that was named, and those that it had taken over from.
	Earlier []stream.RunID `json:"earlier_run_ids,omitempty"`
	// Examples are the examples of the run, once a stage knows them: see [BoundedExamples] and
	// [NumberedExamples].
	Examples string   `json:"examples,omitempty"`
	Name     string   `json:"name,omitempty"` // of the plan, the title of a report; it decides nothing
	Plan     *RunPlan `json:"plan,omitempty"` // of a directory that a whole plan is run in

	words.Nouns // of the plan, for messages

	// Stages are the plan's finished stages, by name, with the files that vouch for their results,
	// such as indexes: path in the run directory → SHA-256.
	Stages map[string]map[string]Digest `json:"stages,omitempty"`
	SHA256 Digest                       `json:"sha256"` // of the file with zeros in this place; nothing but in the file
}

// Used are the run ids of results that the directory may have: its own, and the earlier ones.
func (r Run) Used() []stream.RunID { return append(slices.Clone(r.Earlier), r.RunID) }

// RunPlan is the plan that a run directory is for.
type RunPlan struct {
	SHA256        Digest          `json:"sha256"`         // of Plan, compact
	KeyCommitment Digest          `json:"key_commitment"` // to the root key, for this run id and every plan
	Plan          json.RawMessage `json:"plan"`           // all that decides the results; inputs are there by SHA-256
}

// NewRun returns a run with a fresh run id; in a test, with the id that the test has fixed.
func NewRun() Run {
	run := Run{Format: RunFormat, Version: Version}
	if id, fixed := testrun.ID(); fixed {
		run.RunID, run.Test = id, true
	} else {
		run.RunID = stream.NewRunID()
	}
	return run
}

// OpenRun returns the run of a directory, and makes directory and run where there is none. made
// says that there was no run.
func OpenRun(dir string) (run Run, made bool, err error) {
	run, err = ReadRun(background, dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return run, false, err
	}
	run = NewRun()
	err = WriteRun(dir, run, nil)
	if errors.Is(err, fs.ErrExist) { // of another process, just now
		return OpenRun(dir)
	}
	return run, true, err
}

// BoundedExamples names the examples of a bounded table by the SHA-256 of its index,
// NumberedExamples the examples 0 to n-1, in
// [Run] and in recipes of noise.
func BoundedExamples(index Digest) string { return "bounded " + index.String() }

// NumberedExamples: see [BoundedExamples].
func NumberedExamples(n int64) string { return fmt.Sprintf("numbered %d", n) }

// SetExamples writes to run.json, which must be there, the examples of the run.
func SetExamples(dir, examples string) error {
	run, err := ReadRun(background, dir)
	if err != nil || run.Examples == examples {
		return err
	}
	old := run
	run.Examples = examples
	return WriteRun(dir, run, &old)
}

// WriteRun makes the directory where there is none, and writes its run.json: in place of old, or,
// if that is nil, where there is none, else the error wraps fs.ErrExist. It is an error if another
// process has replaced old meanwhile.
func WriteRun(dir string, run Run, old *Run) error {
	if err := store.MkdirAll(background, dir, PublicDir); err != nil {
		return err
	}
	o := store.Options{Mode: PublicFile, New: old == nil}
	if old != nil {
		now, version, err := readRun(background, dir)
		if err == nil && now.RunID != old.RunID {
			err = store.ErrChanged
		}
		if err != nil {
			return fmt.Errorf("%s: %w", store.Join(dir, RunName), err)
		}
		o.Replaces = version
	} else if err := ignoreSecrets(dir); err != nil {
		return err
	}
	b, err := run.encode()
	if err != nil {
		return err
	}
	_, err = writeFile(dir, RunName, o, func(w io.Writer) error { _, err := w.Write(b); return err })
	if errors.Is(err, fs.ErrExist) {
		path := store.Join(dir, RunName)
		if _, gone := store.Stat(background, path); errors.Is(gone, fs.ErrNotExist) {
			return Invalid(fmt.Errorf("%s: is a link that leads nowhere: remove it, or give another --out", path))
		}
	}
	return err
}

// ignoreSecrets writes the file [IgnoreName] of a run directory on a local disk, unless the user has
// one there.
func ignoreSecrets(dir string) error {
	if store.Shared(dir) {
		return nil
	}
	_, err := writeFile(dir, IgnoreName, store.Options{Mode: PublicFile, New: true}, func(w io.Writer) error {
		_, err := io.WriteString(w, ignored)
		return err
	})
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// encode returns the file, with its hash in it.
func (r Run) encode() ([]byte, error) {
	r.SHA256 = Digest{}
	zeros, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	r.SHA256 = sha256.Sum256(append(zeros, '\n'))
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// RemoveRun undoes an OpenRun that made a run in which no stage has succeeded. It leaves a
// directory that holds anything else.
func RemoveRun(dir string) error {
	if err := store.Remove(background, store.Join(dir, RunName)); err != nil {
		return err
	}
	if ignore := store.Join(dir, IgnoreName); !store.Shared(dir) { // the user's own file stays
		if b, err := store.ReadText(background, ignore, int64(len(ignored))); err == nil && string(b) == ignored {
			if err := store.Remove(background, ignore); err != nil {
				return err
			}
		}
	}
	entries, err := store.List(background, dir)
	if errors.Is(err, fs.ErrNotExist) { // a folder of objects went with the last of them
		return nil
	}
	if err == nil && len(entries) == 0 {
		err = store.Remove(background, dir)
	}
	return err
}

// maxRun bounds the size of a run.json that is read, in bytes: it takes about a hundred thousand
// runs of a directory, each with its id.
const maxRun = 4 << 20

// ReadRun reads run.json, which must be as [WriteRun] left it, byte for byte. The error wraps
// fs.ErrNotExist where there is none.
func ReadRun(ctx context.Context, dir string) (Run, error) {
	run, _, err := readRun(ctx, dir)
	return run, err
}

// readRun returns the version of the file too.
func readRun(ctx context.Context, dir string) (run Run, version string, err error) {
	path := store.Join(dir, RunName)
	b, version, err := store.ReadVersion(ctx, path, maxRun)
	if err != nil {
		return run, "", err
	}
	run, err = parseRun(path, b)
	return run, version, Invalid(err)
}

func parseRun(path string, b []byte) (run Run, err error) {
	if err := strictjson.Unmarshal(b, &run); err != nil {
		return run, fmt.Errorf("%s: %w", path, err)
	}
	if run.Format != RunFormat {
		return run, fmt.Errorf(
			"%s: has format %q, of minsep %s, and this version reads %q: use that version of minsep, or make the run again in another directory",
			path,
			run.Format,
			cmp.Or(run.Version, "(unknown)"),
			RunFormat,
		)
	}
	if run.RunID == (stream.RunID{}) {
		return run, fmt.Errorf("%s: has no run id", path)
	}
	if err := run.NounFaults(); err != nil {
		return run, fmt.Errorf("%s: %w", path, err)
	}
	if again, err := run.encode(); err != nil || !bytes.Equal(again, b) {
		return run, fmt.Errorf("%s: has been changed since it was written: it does not match its SHA-256", path)
	}
	run.SHA256 = Digest{}
	if run.Plan != nil {
		var plan bytes.Buffer
		if err := json.Compact(&plan, run.Plan.Plan); err != nil {
			return run, fmt.Errorf("%s: plan: %w", path, err)
		}
		if got := Digest(sha256.Sum256(plan.Bytes())); got != run.Plan.SHA256 {
			return run, fmt.Errorf("%s: %w", path, &MismatchError{"plan", "SHA-256"})
		}
		run.Plan.Plan = plan.Bytes()
	}
	return run, nil
}

// Finished reports whether a stage has left a result in a folder. Whether the result is whole is
// for [Open] and [Index.Verify] to say. After an error nothing is known of the folder.
func Finished(ctx context.Context, dir string) (bool, error) {
	interrupted, err := Interrupted(ctx, dir)
	if err != nil || interrupted {
		return false, err
	}
	return isThere(ctx, store.Join(dir, IndexName))
}

// Interrupted reports whether a stage that was stopped has left its mark in a folder. After an
// error nothing is known of the folder.
func Interrupted(ctx context.Context, dir string) (bool, error) {
	return isThere(ctx, store.Join(dir, incompleteName))
}

// isThere reports whether a name is there: not where a file is in place of its folder.
func isThere(ctx context.Context, name string) (bool, error) {
	_, err := store.Stat(ctx, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, nil
}
