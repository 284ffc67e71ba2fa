package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

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
}

// OpenRun returns the run of a directory, and makes directory and run where there is none: with the run
// id want, or a fresh one where want is the zero id. A directory with another run id than want is refused.
func OpenRun(dir string, want stream.RunID) (Run, error) {
	run, err := ReadRun(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return Run{}, err
	case want != (stream.RunID{}) && run.RunID != want:
		return Run{}, fmt.Errorf("manifest: %s: belongs to run %v, not %v: give another --out", dir, run.RunID, want)
	default:
		return run, nil
	}
	if want == (stream.RunID{}) {
		want = stream.NewRunID()
	}
	run = Run{RunFormat, Version, want}
	if err := os.MkdirAll(dir, PublicDir); err != nil {
		return Run{}, fmt.Errorf("manifest: %w", err)
	}
	b, err := json.MarshalIndent(run, "", "  ")
	if err != nil {
		return Run{}, fmt.Errorf("manifest: %w", err)
	}
	_, err = WriteFile(dir, runName, PublicFile, func(w io.Writer) error { _, err := w.Write(append(b, '\n')); return err })
	return run, err
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
	return run, nil
}
