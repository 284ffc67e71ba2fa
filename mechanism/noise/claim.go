package noise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"minsep/internal/store"
	"minsep/sampling/stream"
)

// claimFormat is the format of a record of [Claim].
const claimFormat = "minsep-noise-claim/1"

// claim is what the record of a run id says.
type claim struct {
	Format       string       `json:"format"`
	RunID        stream.RunID `json:"run_id"`
	ParamsSHA256 Digest       `json:"params_sha256"`
	Directory    string       `json:"directory"`
}

// ClaimError is a run id that serves another training already.
type ClaimError struct {
	RunID     stream.RunID
	What      string // "directory" or "parameters"
	Directory string // where the run id serves
	Record    string // the file that says so
}

func (e *ClaimError) Error() string {
	return fmt.Sprintf("noise: run id %v: serves other %s already, in %s (says %s): one run id serves one training, since two trainings with the same noise reveal their difference; make a new run directory, or give a new --run-id",
		e.RunID, e.What, e.Directory, e.Record)
}

// ClaimDir is the folder beside a key file where [Claim] keeps its records.
func ClaimDir(keyFile string) string { return keyFile + ".runs" }

// Claim records in folder that the run id of r serves r's parameters in the run directory, which must exist, and nothing else.
// It makes the folder and the record (modes 0700 and 0600) where there is none, accepts the same claim again, so that a
// stopped run can go on, and returns a [*ClaimError] for another directory or other parameters. Of several
// processes that claim one run id at once only one succeeds.
//
// Trainings of different run ids or parameters share no word in any case, as both are part of the key. What the record is needed
// for is the one case left: the same run id and the same parameters for another directory. It knows
// of the trainings that were claimed in this folder only: a copy of the key file elsewhere has records of its own, and a record that is
// deleted is forgotten. A run directory that is moved counts as another.
func Claim(folder string, r *Recipe, directory string) error {
	ctx := context.Background()
	real, err := store.Real(directory)
	if err != nil {
		return fmt.Errorf("noise: run directory: %w", err)
	}
	want := claim{claimFormat, r.RunID, r.ParamsSHA256, real}
	if err := store.MkdirAll(ctx, folder, 0o700); err != nil {
		return fmt.Errorf("noise: records of run ids: %w", err)
	}
	record := store.Join(folder, r.RunID.String()+".json")
	err = want.create(ctx, record)
	if err == nil {
		return want.removeTemporary(ctx, folder)
	}
	// A temporary file that is gone was removed by the process whose claim came first.
	if !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b, err := store.ReadFile(ctx, record, 1<<20)
	if err != nil {
		return fmt.Errorf("noise: record of a run id: %w", err)
	}
	got, err := parseClaim(b)
	switch {
	case err != nil:
		return fmt.Errorf("noise: record of a run id %s: %w", record, err)
	case got.RunID != want.RunID:
		return fmt.Errorf("noise: record of a run id %s: is of run %v", record, got.RunID)
	case got.Directory != want.Directory:
		return &ClaimError{want.RunID, "directory", got.Directory, record}
	case got != want:
		return &ClaimError{want.RunID, "parameters", got.Directory, record}
	}
	return want.removeTemporary(ctx, folder)
}

// removeTemporary removes what killed processes have left of their claims of the run id, which is claimed.
func (c claim) removeTemporary(ctx context.Context, folder string) error {
	entries, err := store.List(ctx, folder)
	for _, e := range entries {
		if strings.HasPrefix(e.Name, store.TempPrefix+c.temporary()) {
			err = errors.Join(err, store.RemoveAll(ctx, store.Join(folder, e.Name)))
		}
	}
	if err != nil {
		return fmt.Errorf("noise: record of a run id: %w", err)
	}
	return nil
}

// temporary is a part of the names of unfinished records.
func (c claim) temporary() string { return "claim-" + c.RunID.String() + "-" }

// create makes the record, whole and only if there is none.
func (c claim) create(ctx context.Context, record string) error {
	b, err := json.MarshalIndent(c, "", "  ")
	if err == nil {
		err = store.WriteFile(ctx, record, store.Options{Mode: 0o600, New: true, Temp: c.temporary()}, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("noise: record of a run id: %w", err)
	}
	return nil
}

func parseClaim(b []byte) (c claim, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, err
	}
	if c.Format != claimFormat {
		return c, fmt.Errorf("format %q: this version reads %q", c.Format, claimFormat)
	}
	return c, nil
}
