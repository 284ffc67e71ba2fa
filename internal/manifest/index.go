// Package manifest defines the format of a run directory: the files that each stage leaves, how
// they appear whole or not at all, and how a reader knows that they are unchanged.
//
// Each stage owns a folder. Its files are written under temporary names, synced and renamed. Its
// index.json comes last, with the size and SHA-256 of every file, the parameters that made them,
// and the hashes of the indexes of its inputs. Every reader refuses a folder without a matching
// index. The package does not use Beam, and reaches object stores through package store only.
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
	"minsep/internal/stream"
	"minsep/internal/strictjson"
)

// Version is the version of minsep, as files and certificates record it.
const Version = "0.1.0"

// Names of the files that every stage folder and run directory has.
const (
	IndexName      = "index.json"
	incompleteName = "incomplete.json"
)

// Index describes the files of a stage. It is written last, beside them.
type Index struct {
	Format  string       `json:"format"`         // for example "minsep-batches/1"
	Version string       `json:"minsep_version"` // of minsep
	RunID   stream.RunID `json:"run_id"`         // of the training run
	// Secret is set in the index of a secret folder. It is random, so that the SHA-256 of the
	// index, which public files contain, tells nothing about its contents, such as the hashes of
	// batches.
	Secret       *Digest           `json:"secret,omitempty"`
	Params       json.RawMessage   `json:"params"`           // every parameter that changes the result, and no other
	ParamsSHA256 Digest            `json:"params_sha256"`    // of Params as compact JSON
	Inputs       map[string]Digest `json:"inputs,omitempty"` // inputs of the stage: name → SHA-256 of the input's index
	Facts        json.RawMessage   `json:"facts,omitempty"`  // results of the stage
	Files        []File            `json:"files"`            // files of the folder, sorted by name, without the index itself
}

// Params encodes the parameters of a stage and returns their hash. The hash goes into every key of
// the stage, so that a stage with other parameters shares no random numbers with it.
func Params(v any) (json.RawMessage, Digest, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, Digest{}, fmt.Errorf("parameters: %w", err)
	}
	return b, sha256.Sum256(b), nil
}

// Stage is a folder that a stage is writing.
type Stage struct {
	Dir    string // where the files are written
	Secret bool   // mode 0700 with files of 0600
	made   bool   // whether Begin made the folder
}

// ErrInvalid means that a file is not as this version writes it, or was changed since. The folder
// is at fault, not the machine.
var ErrInvalid = errors.New("does not have the form that this version of minsep writes")

// Invalid wraps err so that it is [ErrInvalid]; nil stays nil.
func Invalid(err error) error {
	if err == nil {
		return nil
	}
	return &invalidError{err}
}

type invalidError struct{ error }

func (e *invalidError) Unwrap() error        { return e.error }
func (e *invalidError) Is(target error) bool { return target == ErrInvalid }

// ErrExists means that a folder holds a finished result.
var ErrExists = errors.New("holds a finished result: nothing is overwritten: give another --out")

// mark is the content of the file that marks a folder as unfinished while its stage writes it.
// Readers refuse a folder with this file.
type mark struct {
	What   string  `json:"what"`
	Resume *Digest `json:"resume_sha256,omitempty"` // the argument same of [Resume]
}

// Begin takes a folder for a stage. It makes the folder, or clears the files that a killed run left
// in it. A folder with a finished result is refused with [ErrExists], and one with
// files that are not the stage's is refused too.
func Begin(dir string, secret bool) (*Stage, error) {
	return begin(dir, secret, nil)
}

// Resume is [Begin] for a stage that can continue an interrupted run. It keeps the files that such
// a run left if that run had the same digest; otherwise it removes them. The digest must cover
// everything that decides which files the stage writes. The stage itself must find out which files
// are whole.
func Resume(dir string, secret bool, same Digest) (*Stage, error) {
	return begin(dir, secret, &same)
}

func begin(dir string, secret bool, same *Digest) (*Stage, error) {
	s := &Stage{Dir: dir, Secret: secret}
	_, err := store.Stat(background, dir)
	s.made = errors.Is(err, fs.ErrNotExist)
	if err := store.MkdirAll(background, dir, s.dirMode()); err != nil {
		return nil, err
	}
	old, err := s.leftovers()
	if errors.Is(err, ErrExists) { // the mark of a run that was killed just after it published its index
		_ = RemoveTemporary(dir)
	}
	if err != nil {
		return nil, err
	}
	if secret { // others could see the sizes of the files in a folder that existed before
		if err := store.Chmod(dir, SecretDir); err != nil {
			return nil, err
		}
	}
	resumes, err := s.marked(same)
	if err != nil {
		return nil, err
	}
	if resumes {
		if slices.Contains(old, IndexName) { // left by a run that was killed just before it was done
			err = store.Remove(background, store.Join(dir, IndexName))
		}
		return s, err
	}
	// Once it is marked, every reader refuses the folder and every run clears it. The mark has a
	// digest for Resume only after all other files are gone.
	if err := s.clear(old); err != nil {
		return nil, err
	}
	return s, s.mark(same)
}

func (s *Stage) mark(same *Digest) error {
	_, err := WriteFile(s.Dir, incompleteName, s.fileMode(), func(w io.Writer) error {
		return json.NewEncoder(w).
			Encode(mark{"a stage that writes this folder, or was stopped while it did", same})
	})
	return err
}

// marked reports whether the folder has the mark of a run with the same digest. A mark of another
// version counts as none; one that cannot be read is an error.
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
		return false, err
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

// leftovers returns the names of the files that an earlier run left, without its mark. It returns
// an error if the files must stay.
func (s *Stage) leftovers() ([]string, error) {
	entries, err := store.List(background, s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // an object store has no empty folders
		return nil, err
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
	case marked: // left by a killed run: every file is the stage's own
		return names, nil
	case !finished && foreign:
		return nil, &param.Error{
			Param: "folder",
			Value: s.Dir,
			Rule:  "holds files and no " + IndexName + ": they are not minsep's and are left alone; give another --out",
		}
	case !finished: // a run was killed before it wrote the mark
		return names, nil
	}
	return nil, fmt.Errorf("folder %s: %w", s.Dir, ErrExists)
}

// clear removes the files of an earlier run, if all of them are a stage's: see [removable].
func (s *Stage) clear(names []string) error {
	if len(names) == 0 {
		return nil
	}
	if err := removable(background, s.Dir); err != nil {
		return err
	}
	if err := s.mark(nil); err != nil {
		return err
	}
	for _, n := range names {
		if err := store.RemoveAll(background, store.Join(s.Dir, n)); err != nil {
			return err
		}
	}
	return nil
}

// Write writes one file of the stage: see [WriteFile].
func (s *Stage) Write(name string, write func(io.Writer) error) (File, error) {
	return WriteFile(s.Dir, name, s.fileMode(), write)
}

// Encode returns the bytes of the index, whose files it sorts.
func (ix *Index) Encode() ([]byte, error) {
	slices.SortFunc(ix.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	ix.Version = Version
	b, err := json.MarshalIndent(ix, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	return append(b, '\n'), nil
}

// Publish finishes the stage. It checks the listed files and writes the index. Then it
// removes temporary files: those that repeated tasks left, and those with which a killed stage
// continues, which must last until the folder is a result.
func (s *Stage) Publish(ix Index) error {
	b, err := ix.Encode()
	if err != nil {
		return err
	}
	for i, f := range ix.Files {
		if i > 0 && ix.Files[i-1].Name == f.Name {
			return fmt.Errorf("file %s is listed twice", f.Name)
		}
	}
	if err := store.Parallel(len(ix.Files), func(i int) error { return ix.Files[i].CheckSize(background, s.Dir) }); err != nil {
		return err
	}
	return s.finish(b)
}

// finish writes the encoded index, then removes the mark.
func (s *Stage) finish(index []byte) error {
	// The mark goes last. A crash between the two steps leaves a folder that the next run clears,
	// never one that looks finished and is not. Of several writers at once, which an object store
	// does not lock out, only one can create the index.
	_, err := writeFile(
		s.Dir,
		IndexName,
		store.Options{Mode: s.fileMode(), New: true},
		func(w io.Writer) error { _, err := w.Write(index); return err },
	)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("folder %s: another run has published a result here meanwhile: %w", s.Dir, err)
	}
	if err != nil {
		return err
	}
	if err := store.Remove(background, store.Join(s.Dir, incompleteName)); err != nil {
		return err
	}
	_ = RemoveTemporary(s.Dir) // the folder is a result already, and readers ignore temporary files
	return nil
}

// Abort removes everything that the stage wrote, the mark last. It removes the folder too if Begin
// made it.
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

// RemoveTemporary removes the temporary files of killed writers in a folder and all folders below
// it. Nobody may be writing there.
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

// maxIndex is the largest size, in bytes, of an index that Read accepts.
const maxIndex = 64 << 20

// Read reads the index of a finished folder. It refuses an unfinished folder, unknown fields, a
// hash that does not match the parameters, and file names that lead out of the folder. It does not
// look at the files.
func Read(ctx context.Context, dir string) (*Index, error) {
	path := store.Join(dir, IndexName)
	if interrupted, err := Interrupted(ctx, dir); err != nil {
		return nil, err
	} else if interrupted {
		return nil, Invalid(
			fmt.Errorf("folder %s: the stage that writes this folder was stopped: run it again", dir),
		)
	}
	b, err := store.ReadFile(ctx, path, maxIndex)
	if err != nil {
		return nil, err
	}
	ix, err := parseIndex(b)
	if err != nil {
		return nil, Invalid(fmt.Errorf("%s: %w", path, err))
	}
	return ix, nil
}

// ReadFinished reads the index of a folder as [Read] does. It returns nil where no stage has left a
// result.
func ReadFinished(ctx context.Context, dir string) (*Index, error) {
	if finished, err := Finished(ctx, dir); err != nil || !finished {
		return nil, err
	}
	return Read(ctx, dir)
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

// Open reads the index of a finished folder, which must have one of the given formats, and checks
// the size of every file. [Index.Verify] also checks their contents.
func Open(ctx context.Context, dir string, formats ...string) (*Index, error) {
	ix, err := Read(ctx, dir)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(formats, ix.Format) {
		return nil, Invalid(
			fmt.Errorf(
				"%s: has format %q, and this version reads %q",
				dir,
				ix.Format,
				strings.Join(formats, " or "),
			),
		)
	}
	errs := make([]error, len(ix.Files)) // one for each file: all are reported
	err = store.Parallel(len(errs), func(i int) error { errs[i] = ix.Files[i].CheckSize(ctx, dir); return nil })
	if err != nil {
		return nil, err
	}
	var faults Faults
	faults.add(errs...)
	return ix, faults.err()
}

// Verify compares the size and SHA-256 of every file with the index, and reports every mismatch.
func (ix *Index) Verify(ctx context.Context, dir string) error {
	var faults Faults
	for _, f := range ix.Files {
		faults.add(f.Check(ctx, dir))
	}
	return faults.err()
}

// DigestOf returns the SHA-256 of a folder's index, by which a stage records the folder as an
// input.
func DigestOf(ctx context.Context, dir string) (Digest, error) {
	b, err := store.ReadFile(ctx, store.Join(dir, IndexName), maxIndex)
	if err != nil {
		return Digest{}, err
	}
	return sha256.Sum256(b), nil
}
