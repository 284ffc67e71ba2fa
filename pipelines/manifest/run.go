package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"minsep/internal/param"
	"minsep/sampling/stream"
)

// RunFormat is the format of run.json.
const RunFormat = "minsep-run/1"

const runName = "run.json"

// Run is run.json, which makes a folder a run directory. The run id is made with the
// directory and serves one training run.
type Run struct {
	Format  string       `json:"format"`
	Version string       `json:"minsep_version"` // of the code that made the directory
	RunID   stream.RunID `json:"run_id"`
	Plan    *RunPlan     `json:"plan,omitempty"` // of a directory that a whole plan is run in
}

// RunPlan is the plan that a run directory is for.
type RunPlan struct {
	SHA256        Digest          `json:"sha256"`         // of Plan, compact
	KeyCommitment Digest          `json:"key_commitment"` // to the root key, for this run id
	Plan          json.RawMessage `json:"plan"`           // all that decides the results; inputs are there by SHA-256
}

// OpenRun returns the run of a directory, and makes directory and run where there is none: with the run
// id want, or a fresh one where want is the zero id. A directory with another run id than want is refused. made says that
// there was no run.
func OpenRun(dir string, want stream.RunID) (run Run, made bool, err error) {
	run, err = ReadRun(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return Run{}, false, err
	case want != (stream.RunID{}) && run.RunID != want:
		return Run{}, false, &param.Error{Package: "manifest", Param: "run id", Value: want, Rule: fmt.Sprintf("must be %v, to which %s belongs; give another --out for another run", run.RunID, dir)}
	default:
		return run, false, nil
	}
	if want == (stream.RunID{}) {
		want = stream.NewRunID()
	}
	run = Run{Format: RunFormat, Version: Version, RunID: want}
	return run, true, WriteRun(dir, run)
}

// WriteRun makes the directory where there is none, and writes or replaces its run.json.
func WriteRun(dir string, run Run) error {
	if err := os.MkdirAll(dir, PublicDir); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	b, err := json.MarshalIndent(run, "", "  ")
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	_, err = WriteFile(dir, runName, PublicFile, func(w io.Writer) error { _, err := w.Write(append(b, '\n')); return err })
	return err
}

// RemoveRun undoes an OpenRun that made a run in which no stage has succeeded. It leaves a directory that holds anything else.
func RemoveRun(dir string) error {
	if err := os.Remove(filepath.Join(dir, runName)); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) == 0 {
		err = os.Remove(dir)
	}
	return err
}

// ReadRun reads run.json. The error wraps fs.ErrNotExist where there is none.
func ReadRun(dir string) (Run, error) {
	var run Run
	path := filepath.Join(dir, runName)
	b, err := os.ReadFile(path)
	if err != nil {
		return run, fmt.Errorf("manifest: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&run); err != nil {
		return run, fmt.Errorf("manifest: %s: %w", path, err)
	}
	if run.Format != RunFormat {
		return run, fmt.Errorf("manifest: %s: format %q: this version reads %q", path, run.Format, RunFormat)
	}
	if run.RunID == (stream.RunID{}) {
		return run, fmt.Errorf("manifest: %s: has no run id", path)
	}
	if run.Plan != nil {
		var plan bytes.Buffer
		if err := json.Compact(&plan, run.Plan.Plan); err != nil {
			return run, fmt.Errorf("manifest: %s: plan: %w", path, err)
		}
		if got := Digest(sha256.Sum256(plan.Bytes())); got != run.Plan.SHA256 {
			return run, fmt.Errorf("manifest: %s: %w", path, &MismatchError{"plan", "SHA-256", got.String(), run.Plan.SHA256.String()})
		}
		run.Plan.Plan = plan.Bytes()
	}
	return run, nil
}

// Finished reports whether a stage has left a result in a folder. Whether the result is whole is for [Open] and [Index.Verify] to say.
func Finished(dir string) bool {
	_, index := os.Stat(filepath.Join(dir, IndexName))
	_, mark := os.Stat(filepath.Join(dir, incompleteName))
	return index == nil && errors.Is(mark, fs.ErrNotExist)
}
