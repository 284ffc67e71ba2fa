// Package inspect reads a run directory without trusting it: it checks every hash, repeats
// every computation that needs no key, holds the results against each other and against the
// plan, and comes to a verdict. It needs no key, changes nothing, and knows neither Beam nor
// the services of object stores: a program that inspects gs:// or s3:// imports their stores,
// as the command does.
//
// Stability: stable.
package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"minsep/accounting"
	"minsep/internal/leave"
	"minsep/internal/printable"
	"minsep/internal/store"
	"minsep/manifest"
	"minsep/mechanism"
	"minsep/planner"
	"minsep/sampling"
	"minsep/stages"
)

// Inspection has the findings of [Directory] in one folder of a run directory. Realized is secret.
type Inspection struct {
	Folder   string             `json:"folder"`             // path of the folder, or of the file
	Checks   []sampling.Check   `json:"promises"`           // in the order in which they were made; never empty
	Notes    []string           `json:"notes,omitempty"`    // facts that break no check, and must be known
	Realized *sampling.Realized `json:"realized,omitempty"` // of batches, secret; else nil

	kind        string                  // the folder's name in a run directory
	old         []string                // names of checks that fail since the bounded table is another than the one that the result is for
	certificate *accounting.Certificate // of the certificate's inspection, if it can be read
	stepNoise   *planner.StepNoise      // of the noise's, where a certificate is for it
	sampler     *sampling.Spec          // of the batches, if it can be read
	strategy    *mechanism.Strategy     // of the noise, if it can be read
	kept        int64                   // examples of the bounded table, if it can be read
	keptText    string                  // of them, see stages.KeptText
	owners      int64                   // with an example, in the bounded table or batches of numbers, if that can be read
}

// Directory re-reads a run directory, or one of its folders, without trusting it. An unreadable
// file is a broken check; it returns an error only where there is nothing to inspect, or when
// ctx ends, which it does not outlive: it changes nothing, so that its computation can be left
// behind.
func Directory(ctx context.Context, dir string) ([]Inspection, error) {
	return leave.Behind(ctx, func() ([]Inspection, error) { return inspect(ctx, dir) })
}

func inspect(ctx context.Context, dir string) (found []Inspection, err error) {
	ctx, failures := store.WatchFailures(ctx)
	if _, err := store.Stat(ctx, dir); errors.Is(err, fs.ErrNotExist) {
		return nil, &stages.ParamError{Package: "inspect", Param: "directory", Value: dir, Rule: "does not exist: name a run directory, as minsep run makes, or a folder of one"}
	} else if err != nil {
		return nil, err
	}
	if path := closedTo(dir); path != "" {
		return nil, &stages.ParamError{Package: "inspect", Param: "directory", Value: dir, Rule: path + " may not be read by this user, which says nothing of it: inspect as the user who made the run, since batches and noise are secret; certificate.json, ledger, strategy and bounded are public and may be copied"}
	}
	folders, err := foldersOf(ctx, dir)
	if failed := failures.Err(); failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	for _, f := range folders {
		one, err := f.inspect(ctx, f.path)
		if stopped := errors.Join(ctx.Err(), failures.Err()); stopped != nil { // a file that was not read to its end is not broken
			return nil, stopped
		}
		one.Folder, one.kind = f.path, f.kind
		if err != nil {
			check := sampling.Check{Name: "readable", Rule: err.Error(), Broken: 1}
			if many := (manifest.Faults)(nil); errors.As(err, &many) {
				check.Broken = int64(len(many))
			}
			one.Checks = append(one.Checks, check)
		}
		for k := range one.Checks {
			one.Checks[k].Rule = legible(one.Checks[k].Rule)
		}
		for k := range one.Notes {
			one.Notes[k] = printable.Line(legible(one.Notes[k]))
		}
		found = append(found, one)
	}
	return found, nil
}

// closedTo is the first folder or file of a local directory that the user of this process may not
// read; "" if there is none.
func closedTo(dir string) (path string) {
	if store.Shared(dir) {
		return ""
	}
	dir = strings.TrimPrefix(dir, "file://")
	filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && filepath.Dir(at) == filepath.Clean(dir) {
			var f *os.File
			if f, err = os.Open(at); err == nil {
				f.Close()
			}
		}
		if errors.Is(err, fs.ErrPermission) {
			path = at
			return fs.SkipAll
		}
		return nil
	})
	return path
}

// legible makes all of a text readable: it may have names and values that somebody else wrote
// into a file. Long lines have only their beginning and their end.
func legible(text string) string {
	const most, first, last = 800, 400, 200 // bytes
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if len(line) > most {
			line = fmt.Sprintf("%s … (%d bytes) … %s", line[:first], len(line)-first-last, line[len(line)-last:])
			lines[i] = strings.ToValidUTF8(line, "")
		}
	}
	return printable.Text(strings.Join(lines, "\n"))
}

// ErrFailedCheck says that a check of a run directory failed: a hash, a separation, a
// bound or a distribution.
var ErrFailedCheck = errors.New("inspect: a check failed")

// Broken returns [ErrFailedCheck] if any check is broken.
func Broken(found []Inspection) error {
	for _, i := range found {
		for _, p := range i.Checks {
			if !p.Held {
				return ErrFailedCheck
			}
		}
	}
	return nil
}

type folder struct {
	path    string
	kind    string // its name in a run directory
	inspect func(ctx context.Context, path string) (Inspection, error)
}

// inspectors are the functions that inspect the results of stages, by the names of these. Each is
// registered in the file of the stage.
var inspectors = map[string]func(ctx context.Context, path string) (Inspection, error){}

// places are the places of results in a run directory, in the order in which they are inspected:
// run.json, the folders in the order of the stages, and then files, which are held against all of
// them.
func places(dir string) (list []folder) {
	list = []folder{{store.Join(dir, manifest.RunName), manifest.RunName, inspectRun}}
	for _, files := range []bool{false, true} {
		for _, s := range stages.All {
			for _, name := range s.Results {
				if files == (s.Formats == nil) {
					list = append(list, folder{store.Join(dir, name), name, inspectors[s.Name]})
				}
			}
		}
	}
	return list
}

// foldersOf returns the folders of a run directory that are there, or dir itself if it is one of
// them.
func foldersOf(ctx context.Context, dir string) (folders []folder, err error) {
	if ix, err := manifest.Read(ctx, dir); err == nil {
		for _, s := range stages.All {
			if slices.Contains(s.Formats, ix.Format) {
				return []folder{{dir, s.ResultName(), inspectors[s.Name]}}, nil
			}
		}
	}
	of, err := store.Stat(ctx, dir)
	isFile := err == nil && !of.Dir // which has nothing in it; but an object store may have a folder of the same name
	for _, f := range places(dir) {
		switch _, err := store.Stat(ctx, f.path); {
		case f.kind == manifest.RunName: // a run directory has one, and to miss it is a fault
			folders = append(folders, f)
		case err == nil, !isFile && !errors.Is(err, fs.ErrNotExist): // its fault is found when it is read
			folders = append(folders, f)
		}
	}
	if _, err := store.Stat(ctx, folders[0].path); err != nil && len(folders) == 1 {
		return nil, &stages.ParamError{Package: "inspect", Param: "directory", Value: dir, Rule: notRun(ctx, dir, isFile)}
	}
	return folders, nil
}

// notRun says how a run directory is named where something else was.
func notRun(ctx context.Context, dir string, isFile bool) string {
	if isFile {
		return "is a file: name a run directory, as minsep run makes from a plan, or a folder of one"
	}
	var runs []string
	entries, _ := store.List(ctx, dir) // for a hint only
	for _, e := range entries[:min(len(entries), 50)] {
		if _, err := store.Stat(ctx, store.Join(dir, e.Name, manifest.RunName)); e.Dir && err == nil {
			runs = append(runs, strings.TrimPrefix(printable.Line(store.Join(dir, e.Name)), "./"))
		}
	}
	switch len(runs) {
	case 0:
		return "is no run directory: name one, as minsep run makes it from a plan, or a folder of one"
	case 1:
		return "is no run directory, but has one in it: name " + runs[0]
	}
	return "is no run directory, but has several in it: name one of them, such as " + runs[0]
}

// filesCheck checks sizes and hashes.
func filesCheck(ctx context.Context, ix *manifest.Index, dir string) sampling.Check {
	broken := stages.BrokenFiles(ctx, ix, dir)
	p := sampling.Check{Name: "files", Rule: "every file has the size and SHA-256 of the index", Held: broken == nil, Broken: int64(len(broken))}
	if broken != nil {
		p.Rule += "; " + stages.Listed(broken) + " not"
	}
	return p
}

// runCheck checks that a folder is of the run of its directory: the run id is a part of every
// key.
func runCheck(ctx context.Context, ix *manifest.Index, runDir string) sampling.Check {
	p := sampling.Check{Name: "run", Rule: "the run id is that of run.json beside the folder", Held: true}
	if run, err := manifest.ReadRun(ctx, runDir); err != nil || run.RunID != ix.RunID {
		p.Held, p.Broken = false, 1
	}
	return p
}

// sharedRunCheck is runCheck of a folder that serves all runs of a directory.
func sharedRunCheck(ctx context.Context, ix *manifest.Index, runDir string) sampling.Check {
	p := runCheck(ctx, ix, runDir)
	p.Rule += ", or of an earlier run of the same plan"
	if run, err := manifest.ReadRun(ctx, runDir); err == nil && slices.Contains(run.Earlier, ix.RunID) {
		p.Held, p.Broken = true, 0
	}
	return p
}

// secretCheck checks that the SHA-256 of a secret index, which public files carry, tells nothing of
// its contents.
func secretCheck(ix *manifest.Index) sampling.Check {
	p := sampling.Check{Name: "blinded", Rule: "the index holds 32 bytes that nobody can guess, so that its SHA-256 in public files does not tell its contents"}
	p.Held = ix.Secret != nil && !bytes.Equal(ix.Secret[:], make([]byte, len(ix.Secret)))
	if !p.Held {
		p.Broken = 1
	}
	return p
}

// unlistedCheck checks that a folder holds the files of its index and no others.
func unlistedCheck(ctx context.Context, found *Inspection, ix *manifest.Index, dir string) {
	names, err := stages.Unlisted(ctx, ix, dir)
	found.nothingElse("the folder holds nothing that its index does not list", "not in its index", names, err)
}

// nothingElse adds the check that there are no other files. fault names the fault of the extra
// files.
func (i *Inspection) nothingElse(rule, fault string, names []string, err error) {
	switch {
	case err != nil:
		rule += ": " + err.Error()
	case names != nil:
		rule = stages.Listed(names) + " " + fault + stages.MoveAway
	}
	i.check("unlisted files", rule, err == nil && names == nil)
}
