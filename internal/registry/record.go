package registry

import (
	"context"
	"encoding/json"
	"fmt"

	"minsep/internal/digest"
	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/store"
	"minsep/internal/stream"
	"minsep/internal/strictjson"
)

// recordFormat is the format of a [Record].
const recordFormat = "minsep-run-record/1"

// Record says which training run a run id serves, and in which directory.
type Record struct {
	Format    string         `json:"format"`    // of this file
	RunID     stream.RunID   `json:"run_id"`    // of the batches and the noise
	Training  noise.Training `json:"training"`  // its examples and sampler
	Directory string         `json:"directory"` // resolved path of the run directory

	// ParamsSHA256 is the SHA-256 of the recipe's parameters, which include the training. It is
	// zero as long as there are batches only.
	ParamsSHA256 digest.SHA256 `json:"params_sha256,omitzero"`
	// PlanSHA256 is the SHA-256 of the part of the plan that determines the training run. It tells
	// training runs apart before their examples and noise multiplier are known. It is zero for a
	// run without a plan.
	PlanSHA256 digest.SHA256 `json:"plan_sha256,omitzero"`
}

// HasNoise reports whether noise was made or begun. Before that the training of a run id may still
// change, but not its directory.
func (r *Record) HasNoise() bool { return r != nil && r.ParamsSHA256 != (digest.SHA256{}) }

// merged combines the two records of a run id. One may say less than the other, because it is older
// or because a command was stopped between writing the two. alike is false where the records
// contradict each other.
func (r Record) merged(other Record) (both Record, alike bool) {
	if other.HasNoise() && !r.HasNoise() {
		r, other = other, r
	}
	if !other.HasNoise() { // without noise its training is not fixed yet
		other.ParamsSHA256, other.Training, other.PlanSHA256 = r.ParamsSHA256, r.Training, r.PlanSHA256
	}
	if r.PlanSHA256 == (digest.SHA256{}) {
		r.PlanSHA256 = other.PlanSHA256
	} else if other.PlanSHA256 == (digest.SHA256{}) {
		other.PlanSHA256 = r.PlanSHA256
	}
	return r, r == other
}

// refuses returns a [*ClaimError] if the record contradicts a claim. files are the record's files,
// for the message.
func (r Record) refuses(want Record, files []string) error {
	differs := func(have, want string) bool { return want != "" && have != want }
	switch {
	case !r.HasNoise():
	case want.ParamsSHA256 != (digest.SHA256{}) && r.ParamsSHA256 != want.ParamsSHA256,
		want.PlanSHA256 != (digest.SHA256{}) && r.PlanSHA256 != (digest.SHA256{}) && r.PlanSHA256 != want.PlanSHA256,
		differs(r.Training.Examples, want.Training.Examples), differs(r.Training.Sampler, want.Training.Sampler):
		return &ClaimError{want.RunID, "training run", r.Directory, files}
	}
	if differs(r.Directory, want.Directory) {
		return &ClaimError{want.RunID, "directory", r.Directory, files}
	}
	return nil
}

func (r Record) encode() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("registry: record of a run id: %w", err)
	}
	return append(b, '\n'), nil
}

// maxRecord is the size of the largest record that is read, in bytes.
const maxRecord = 1 << 20

func readRecord(path string, id stream.RunID) (*Record, error) {
	b, err := store.ReadFile(context.Background(), path, maxRecord)
	if err != nil {
		return nil, fmt.Errorf("registry: record of a run id: %w", err)
	}
	var r Record
	err = strictjson.Unmarshal(b, &r)
	if err == nil && (r.Format != recordFormat || r.RunID != id) {
		err = fmt.Errorf("is of run %v in format %q: this version reads %q", r.RunID, r.Format, recordFormat)
	}
	if err != nil {
		return nil, manifest.Invalid(fmt.Errorf("registry: record of a run id %s: was changed or damaged: %w: put a copy of it back: the records beside the key and in the user's state folder are alike; "+
			"where none is whole, train with another run, which minsep run --again makes, or another --out", path, err))
	}
	return &r, nil
}
