// Package manifest is the format of a run directory: which files a stage leaves, how they appear
// whole or not at all, and how a reader knows that they are as the stage wrote them.
//
// Each stage owns a folder. Its files are written under temporary names, synced and renamed; its
// index.json comes last, with the size and SHA-256 of every file, the parameters that made them and
// the hashes of their sources. A folder without a matching index is refused by every
// reader. The package knows no Beam, and of object stores no more than package store does.
//
// Stability: stable.
package manifest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/internal/strictjson"
	"minsep/sampling/stream"
)

// Version is the version of the code, as files and certificates name it.
const Version = "0.1.0"

// Names of the files that every stage folder and run directory has.
const (
	IndexName      = "index.json"
	incompleteName = "incomplete.json"
)

// Index describes the files of a stage. A stage writes it last, beside them.
type Index struct {
	Format  string       `json:"format"`         // for example "minsep-batches/1"
	Version string       `json:"minsep_version"` // of minsep
	RunID   stream.RunID `json:"run_id"`         // of the training run
	// Secret is in the index of a secret folder: bytes that nobody can guess, so that the
	// SHA-256 of the index, which public files carry, does not tell its contents, such as the
	// hashes of batches.
	Secret       *Digest           `json:"secret,omitempty"`
	Params       json.RawMessage   `json:"params"`           // every parameter that changes the result, no other
	ParamsSHA256 Digest            `json:"params_sha256"`    // of Params as compact JSON
	Inputs       map[string]Digest `json:"inputs,omitempty"` // sources of the result: name → SHA-256 of its index
	Facts        json.RawMessage   `json:"facts,omitempty"`  // results of the stage
	Files        []File            `json:"files"`            // of the folder, by name; the index itself is not among them
}

// Params encodes the parameters of a stage and hashes them. The hash is part of every key of the
// stage, so that other parameters share no random word.
func Params(v any) (json.RawMessage, Digest, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, Digest{}, fmt.Errorf("manifest: parameters: %w", err)
	}
	return b, sha256.Sum256(b), nil
}

// Stage is a folder while its stage writes it.
type Stage struct {
	Dir    string // where the files are written
	Secret bool   // mode 0700 with files of 0600
	made   bool   // the folder was not there before
}

// ErrInvalid says that a file is not as this version writes it, or was changed since: the
// folder is at fault, and not the machine.
var ErrInvalid = errors.New("is not as this version of minsep writes it")

// nil stays nil.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return &invalidError{err}
}

// Invalid is for packages that read files beside this one.
func Invalid(err error) error { return invalid(err) }

type invalidError struct{ error }

func (e *invalidError) Unwrap() error        { return e.error }
func (e *invalidError) Is(target error) bool { return target == ErrInvalid }

// ErrExists says that a folder holds a finished result.
var ErrExists = errors.New("holds a finished result: nothing is overwritten without --overwrite")

// mark is the file that a folder has while its stage writes it. A reader refuses the folder as long
// as it is there.
type mark struct {
	What   string  `json:"what"`
	Resume *Digest `json:"resume_sha256,omitempty"` // the parameter of [Resume]
}

// Begin takes a folder for a stage: it makes it, or takes over the files that a killed run left in
// it. A folder with a finished result is refused with [ErrExists] unless overwrite, which removes
// that result and nothing else; a folder with files that are not the stage's is always refused.
func Begin(dir string, secret, overwrite bool) (*Stage, error) {
	return begin(dir, secret, overwrite, nil)
}

// Resume is Begin for a stage that can go on where it was stopped: the files that a killed or
// interrupted run left in the folder are kept if that run was given the same digest, and
// removed if not. The digest must cover everything that decides which files the stage writes;
// the stage must itself find out which of its files are whole.
func Resume(dir string, secret, overwrite bool, same Digest) (*Stage, error) {
	return begin(dir, secret, overwrite, &same)
}

func begin(dir string, secret, overwrite bool, same *Digest) (*Stage, error) {
	s := &Stage{Dir: dir, Secret: secret}
	_, err := store.Stat(background, dir)
	s.made = errors.Is(err, fs.ErrNotExist)
	if err := store.MkdirAll(background, dir, s.dirMode()); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	old, err := s.leftovers(overwrite)
	if errors.Is(err, ErrExists) { // of a run that was killed when it had just finished
		_ = RemoveTemporary(dir)
	}
	if err != nil {
		return nil, err
	}
	if secret { // a folder that was there may be open to others, who would see how large its files are
		if err := store.Chmod(dir, SecretDir); err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
	}
	resumes, err := s.marked(same)
	if err != nil {
		return nil, err
	}
	if resumes {
		if slices.Contains(old, IndexName) { // of a run that was killed just before it was done
			err = store.Remove(background, store.Join(dir, IndexName))
		}
		return s, err
	}
	// From the mark on no reader accepts the folder and every run clears it. It names the
	// digest of a run to resume only when no other files are left in the folder.
	if err := s.clear(old); err != nil {
		return nil, err
	}
	return s, s.mark(same)
}

func (s *Stage) mark(same *Digest) error {
	_, err := WriteFile(s.Dir, incompleteName, s.fileMode(), func(w io.Writer) error {
		return json.NewEncoder(w).Encode(mark{"a stage that writes this folder, or was stopped while it did", same})
	})
	return err
}

// marked reports whether the folder has the mark of a run with the same digest, if there is one: a
// mark that is not one of this version is none, and one that cannot be read is an error.
func (s *Stage) marked(same *Digest) (bool, error) {
	if same == nil {
		return false, nil
	}
	var m mark
	b, err := store.ReadFile(background, store.Join(s.Dir, incompleteName), maxIndex)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrNotRegular) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("manifest: %w", err)
	}
	return json.Unmarshal(b, &m) == nil && m.Resume != nil && *m.Resume == *same, nil
}

func (s *Stage) dirMode() fs.FileMode {
	if s.Secret {
		return SecretDir
	}
	return PublicDir
}

func (s *Stage) fileMode() fs.FileMode {
	if s.Secret {
		return SecretFile
	}
	return PublicFile
}

// leftovers returns the names of files that an earlier run left in the folder, except for its mark,
// or says why that must stay.
func (s *Stage) leftovers(overwrite bool) ([]string, error) {
	entries, err := store.List(background, s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // an object store has no empty folders
		return nil, fmt.Errorf("manifest: %w", err)
	}
	var names []string
	marked, finished, foreign := false, false, false
	for _, e := range entries {
		switch n := e.Name; n {
		case incompleteName:
			marked = true
		case IndexName:
			finished = true
			names = append(names, n)
		default:
			foreign = foreign || !strings.HasPrefix(n, store.TempPrefix)
			names = append(names, n)
		}
	}
	switch {
	case marked: // a killed run's: all of it is the stage's own
		return names, nil
	case !finished && foreign:
		return nil, &param.Error{Package: "manifest", Param: "folder", Value: s.Dir, Rule: "holds files and no " + IndexName + ": they are not minsep's and are left alone; give another --out"}
	case !finished: // a run that was killed before it made the mark
		return names, nil
	case !overwrite:
		return nil, fmt.Errorf("manifest: folder %s: %w", s.Dir, ErrExists)
	}
	if _, err := Read(background, s.Dir); err != nil {
		return nil, fmt.Errorf("%w: only a readable result can be overwritten", err)
	}
	return names, nil
}

// clear removes the files that an earlier run left, if all of it is a stage's: see [Removable].
func (s *Stage) clear(names []string) error {
	if len(names) == 0 {
		return nil
	}
	if err := Removable(background, s.Dir); err != nil {
		return err
	}
	if err := s.mark(nil); err != nil {
		return err
	}
	for _, n := range names {
		if err := store.RemoveAll(background, store.Join(s.Dir, n)); err != nil {
			return fmt.Errorf("manifest: %w", err)
		}
	}
	return nil
}

// Discard removes the folder of a stage, if all that is in it is the stage's: see [Removable]. It
// is marked as unfinished before anything is removed: after an interruption no reader accepts it,
// and a stage makes its result again.
func Discard(dir string, secret bool) error {
	entries, err := store.List(background, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.Name != incompleteName {
			names = append(names, e.Name)
		}
	}
	if err := (&Stage{Dir: dir, Secret: secret}).clear(names); err != nil {
		return err
	}
	return store.RemoveAll(background, dir)
}

// Write writes one file of the stage. See [WriteFile].
func (s *Stage) Write(name string, write func(io.Writer) error) (File, error) {
	return WriteFile(s.Dir, name, s.fileMode(), write)
}

// Publish finishes the stage: it sorts and checks the listed files, writes the index, and removes
// temporary files: those that a repeated task has left, and those from which a stage that is killed
// goes on, which must last until the folder is a result.
func (s *Stage) Publish(ix Index) error {
	slices.SortFunc(ix.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	for i, f := range ix.Files {
		if i > 0 && ix.Files[i-1].Name == f.Name {
			return fmt.Errorf("manifest: file %s is listed twice", f.Name)
		}
	}
	if err := store.Parallel(len(ix.Files), func(i int) error { return ix.Files[i].CheckSize(background, s.Dir) }); err != nil {
		return err
	}
	ix.Version = Version
	b, err := json.MarshalIndent(ix, "", "  ")
	if err != nil {
		return fmt.Errorf("manifest: index: %w", err)
	}
	return s.finish(append(b, '\n'))
}

// finish writes the encoded index.
func (s *Stage) finish(index []byte) error {
	// The mark of an unfinished folder goes last: a crash between the two leaves a folder that the
	// next run clears, never one that is taken for finished without being so. Of several writers at
	// once, which nothing else keeps apart in an object store, only one can create the index.
	_, err := writeFile(s.Dir, IndexName, store.Options{Mode: s.fileMode(), New: true}, func(w io.Writer) error { _, err := w.Write(index); return err })
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("manifest: folder %s: another run has published a result here meanwhile: %w", s.Dir, err)
	}
	if err != nil {
		return err
	}
	if err := store.Remove(background, store.Join(s.Dir, incompleteName)); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	_ = RemoveTemporary(s.Dir) // the folder is a result by now; readers ignore files that are left
	return nil
}

// Abort removes everything that the stage has written, the mark last, and the folder itself if
// Begin made it.
func (s *Stage) Abort() error {
	entries, err := store.List(background, s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.Name != incompleteName {
			err = errors.Join(err, store.RemoveAll(background, store.Join(s.Dir, e.Name)))
		}
	}
	if err != nil {
		return err
	}
	if s.made {
		return store.RemoveAll(background, s.Dir)
	}
	return store.RemoveAll(background, store.Join(s.Dir, incompleteName))
}

// RemoveTemporary removes the temporary files of killed writers in a folder and all below it.
// Nothing must be writing there.
func RemoveTemporary(dir string) error {
	entries, err := store.ListMade(background, dir)
	for _, e := range entries {
		if err != nil {
			break
		}
		switch {
		case strings.HasPrefix(e.Name, store.TempPrefix):
			err = store.RemoveAll(background, store.Join(dir, e.Name))
		case e.Dir:
			err = RemoveTemporary(store.Join(dir, e.Name))
		}
	}
	return err
}

// maxIndex bounds the size of an index that Read accepts, in bytes.
const maxIndex = 64 << 20

// Read reads the index of a finished folder. It refuses a folder that is unfinished, an unknown
// field, a parameter hash that does not match, and file names that lead out of the folder. It does
// not look at the files.
func Read(ctx context.Context, dir string) (*Index, error) {
	path := store.Join(dir, IndexName)
	if interrupted, err := Interrupted(ctx, dir); err != nil {
		return nil, err
	} else if interrupted {
		return nil, invalid(fmt.Errorf("manifest: folder %s: a stage was stopped before it finished here: run it again", dir))
	}
	b, err := store.ReadFile(ctx, path, maxIndex)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	ix, err := parseIndex(b)
	if err != nil {
		return nil, invalid(fmt.Errorf("manifest: %s: %w", path, err))
	}
	return ix, nil
}

func parseIndex(b []byte) (*Index, error) {
	if len(b) > maxIndex {
		return nil, fmt.Errorf("more than %d bytes", maxIndex)
	}
	ix := new(Index)
	if err := strictjson.Unmarshal(b, ix); err != nil {
		return nil, err
	}
	if ix.Format == "" {
		return nil, errors.New("has no format")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, ix.Params); err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	if got := Digest(sha256.Sum256(compact.Bytes())); got != ix.ParamsSHA256 {
		return nil, &MismatchError{"params", "SHA-256"}
	}
	ix.Params = compact.Bytes()
	seen := make(map[string]bool, len(ix.Files))
	for _, f := range ix.Files {
		if !localName(f.Name) {
			return nil, fmt.Errorf("file name %q leads out of the folder", f.Name)
		}
		if seen[f.Name] {
			return nil, fmt.Errorf("file %q is listed twice", f.Name)
		}
		seen[f.Name] = true
	}
	return ix, nil
}

// Open reads the index of a finished folder, which must be of one of the given formats, and checks
// the size of every file. Use [Index.Verify] to check the contents as well.
func Open(ctx context.Context, dir string, formats ...string) (*Index, error) {
	ix, err := Read(ctx, dir)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(formats, ix.Format) {
		return nil, invalid(fmt.Errorf("manifest: %s: format %q: this version reads %q", dir, ix.Format, strings.Join(formats, " or ")))
	}
	errs := make([]error, len(ix.Files)) // of all files: each is reported
	err = store.Parallel(len(errs), func(i int) error { errs[i] = ix.Files[i].CheckSize(ctx, dir); return nil })
	if err != nil {
		return nil, err
	}
	var faults Faults
	faults.add(errs...)
	return ix, faults.err()
}

// Verify compares every file with its size and SHA-256, and reports every mismatch.
func (ix *Index) Verify(ctx context.Context, dir string) error {
	var faults Faults
	for _, f := range ix.Files {
		faults.add(f.Check(ctx, dir))
	}
	return faults.err()
}

// DigestOf is the SHA-256 of a folder's index. A stage that reads the folder names it as its
// input.
func DigestOf(ctx context.Context, dir string) (Digest, error) {
	b, err := store.ReadFile(ctx, store.Join(dir, IndexName), maxIndex)
	if err != nil {
		return Digest{}, fmt.Errorf("manifest: %w", err)
	}
	return sha256.Sum256(b), nil
}
