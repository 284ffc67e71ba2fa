// Package registry records which training run each run id serves, and in which run directory.
//
// Different training runs never share a random word, since the run id and the parameters are part
// of every key. The remaining danger is a second training run with the same run id and the same
// parameters: it would have the same batches and the same noise, and the difference of two sums
// with the same noise reveals what the noise must hide. So each run id has a record, kept both
// beside the key file and in the user's state folder; either copy can refuse a claim.
//
// Records of other machines and other users are not seen, and a deleted record is forgotten.
package registry

import (
	"context"
	"encoding/hex"
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

// ClaimError is the refusal of a run id that already serves another training run or directory.
type ClaimError struct {
	RunID     stream.RunID // that was claimed
	What      string       // "directory", "copy" of the directory, or "training run"
	Directory string       // that the run id serves
	Records   []string     // the files of the record, for a user who must delete them
}

func (e *ClaimError) Error() string {
	if e.What == "copy" {
		return fmt.Sprintf("run id %v: serves another directory already, %s, of which this one is a copy, with the same batches and the same noise: two training runs with the "+
			"same noise reveal their difference; go on in that directory; or give this one batches and noise of its own, with minsep run --again and the plan; or remove that directory, if no training run has used it, and keep this one",
			e.RunID, e.Directory)
	}
	text := fmt.Sprintf("run id %v: serves another %s already, in %s: one run id serves one training run, since two training runs with the "+
		"same noise reveal their difference; give another --out", e.RunID, e.What, e.Directory)
	if e.What == "directory" {
		text += fmt.Sprintf("; if that directory was moved as a whole, and only this training run uses its noise, delete %s first", strings.Join(e.Records, " and "))
	}
	return text
}

// Registry holds the records of the run ids of one root key. It identifies the key by a commitment
// to its content, so that copies, links and new names of the key file count as the same key.
// Records are in two folders: one beside the key file, seen by everybody who uses that file, and
// one in the user's state folder, which covers copies of the key elsewhere on this machine.
type Registry struct {
	folders []recordFolder
}

// Open returns the registry of a root key that was read from keyFile. It writes nothing. A relative
// path in XDG_STATE_HOME is a *param.Error.
func Open(root stream.Root, keyFile string) (*Registry, error) {
	commitment := root.Commitment()
	name := hex.EncodeToString(commitment[:16])
	key, err := store.Real(keyFile)
	if err != nil {
		return nil, fmt.Errorf("registry: key file: %w", err)
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
// to. With dry it leaves nothing behind and does not probe object stores.
func (g *Registry) Writable(dry bool) error {
	for _, f := range g.folders {
		if err := f.writable(dry); err != nil {
			return f.faulty(err)
		}
	}
	return nil
}

// Find returns the record of a run id and the files that hold it, or nil if there is none. Files
// that contradict each other are a [*ClaimError].
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
		both, alike := found.merged(*r)
		if !alike {
			what := "training run"
			r.Directory = found.Directory
			if _, alike := found.merged(*r); alike { // as after a Move that was stopped between the two files
				what = "directory"
			}
			return nil, nil, &ClaimError{id, what, found.Directory, files}
		}
		found = &both
	}
	return found, files, nil
}

// Check returns a [*ClaimError] if the run id of want serves another training run, or this one in
// another directory. Empty fields of want are unknown, and are not compared.
func (g *Registry) Check(want Record) error {
	got, files, err := g.Find(want.RunID)
	if err != nil || got == nil {
		return err
	}
	return got.refuses(want, files)
}

// Claim records that the run id of want serves want.Training in want.Directory, and nothing else.
// The directory must exist; Format is filled in. Claim writes missing records (modes 0700 and 0600)
// and adds missing facts, such as the parameters of the noise. It accepts the same claim again, so
// that a stopped run can go on, and returns a [*ClaimError] for another directory or another
// training run. Of several processes that claim one run id at once, only one succeeds.
func (g *Registry) Claim(want Record) error {
	real, err := store.Real(want.Directory)
	if err != nil {
		return fmt.Errorf("registry: run directory: %w", err)
	}
	want.Format, want.Directory = recordFormat, real
	found, files, err := g.Find(want.RunID)
	if err != nil {
		return err
	}
	if found != nil {
		if err := found.refuses(want, files); err != nil { // before anything is written
			return err
		}
	}
	if _, known := lastRun(real); found == nil || !known { // before the records: a stopped claim repeats it
		if err := settle(real, want.RunID); err != nil {
			return err
		}
	}
	for _, f := range g.folders {
		if err := f.claim(want); err != nil {
			return err
		}
	}
	return g.complete(want)
}

// complete adds the facts of want to records that were written without them.
func (g *Registry) complete(want Record) error {
	for _, f := range g.folders {
		r, err := readRecord(f.record(want.RunID), want.RunID)
		if err != nil {
			return err
		}
		if r.HasNoise() || *r == want {
			continue
		}
		return g.change(want.RunID, func(now *Record, files []string) error {
			if err := now.refuses(want, files); err != nil || now.HasNoise() {
				return err
			}
			*now = want
			return nil
		})
	}
	g.removeLock(want.RunID)
	return nil
}

// lockName is the name of the file that a process locks while it changes a record.
func lockName(id stream.RunID) string { return "lock-" + id.String() }

// removeLock removes the lock file left by a process that was killed after it changed a record. The
// lock of a running process is kept.
func (g *Registry) removeLock(id stream.RunID) {
	own := g.folders[len(g.folders)-1]
	if _, err := os.Lstat(store.Join(own.path, lockName(id))); err != nil {
		return
	}
	if unlock, err := store.LockFolder(own.path, lockName(id), 0o700, 0o600); err == nil {
		unlock()
	}
}

// Move records that the directory found.Directory was moved as a whole to directory. If another
// process has changed the record since found was read, Move returns a [*ClaimError].
func (g *Registry) Move(found Record, directory string) error {
	real, err := store.Real(directory)
	if err != nil {
		return fmt.Errorf("registry: run directory: %w", err)
	}
	err = g.change(found.RunID, func(now *Record, _ []string) error {
		if *now != found {
			return &ClaimError{found.RunID, "directory", real, nil}
		}
		now.Directory = real
		return nil
	})
	if err != nil {
		return err
	}
	return settle(real, found.RunID)
}

// change edits the existing record of a run id under its lock, and rewrites all of its files.
func (g *Registry) change(id stream.RunID, edit func(now *Record, files []string) error) error {
	own := g.folders[len(g.folders)-1]
	unlock, err := store.LockFolder(own.path, lockName(id), 0o700, 0o600)
	if err != nil {
		return own.faulty(err)
	}
	defer unlock()
	now, files, err := g.Find(id)
	if err != nil {
		return err
	}
	if now == nil {
		return fmt.Errorf("registry: run id %v: its record was removed meanwhile", id)
	}
	if err := edit(now, files); err != nil {
		return err
	}
	b, err := now.encode()
	if err != nil {
		return err
	}
	for _, path := range files {
		if err := store.WriteFile(context.Background(), path, store.Options{Mode: 0o600, Temp: now.temporary()}, b); err != nil {
			return fmt.Errorf("registry: record of a run id: %w", err)
		}
	}
	return nil
}
