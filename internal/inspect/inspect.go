// Package inspect reads a run directory without trusting it. It checks every hash, repeats every
// computation that needs no key, compares the results with each other and with the plan, and comes
// to a verdict.
//
// It needs no key and changes nothing. It does not import Beam or the clients of object stores: a
// program that inspects gs:// or s3:// imports these stores itself, as the command does.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/leave"
	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/ownergraph"
	"minsep/internal/param"
	"minsep/internal/planner"
	"minsep/internal/printable"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/privacy"
	"minsep/sampling"
)

// Options say what an inspection does beyond reading the files.
type Options struct {
	// OwnSamples is the time for fresh samples of a certificate that rests on samples, in seconds of
	// processors; 0 for none. They are drawn under a key of the reader's own, and bound δ of every
	// certified point. Unlike the ledger's samples nobody could choose them: they find a ledger that was
	// forged, and one that was repeated until it was accepted.
	OwnSamples float64
	// Recheck is the number of blocks of the ledger that are computed again; 0 for none.
	Recheck int
	// ShowSecret keeps realised values, such as batch sizes, in the report.
	ShowSecret bool
}

// Inspection is what was found in one folder of a run directory. Realized is secret.
type Inspection struct {
	Folder   string             `json:"folder"`             // path of the inspected folder or file
	Checks   []sampling.Check   `json:"promises"`           // in the order in which they were made; never empty
	Notes    []string           `json:"notes,omitempty"`    // facts that break no check but matter to a reader
	Realized *sampling.Realized `json:"realized,omitempty"` // of batches, secret; nil for other folders

	kind string // name of the folder or file in a run directory
	all  *Contents
}

// Contents has what an inspection read of a run directory. A field is nil if its source is not there
// or could not be read.
type Contents struct {
	Info        *manifest.Run           // run.json
	Certificate *accounting.Certificate // of certificate.json, or of accounting.json, with a status that says that nothing is proven
	Bounded     *ownergraph.Summary
	Batches     *manifest.BatchesFacts
	Scheme      *sampling.Spec    // of the batches or, else, of the certificate
	Noise       *noise.Params     // of the recipe
	Statistics  []privacy.Release // released beside the training

	stepNoise *planner.StepNoise      // of noise that has a certificate
	kept      string                  // describes the bounded table, see stages.KeptText
	ledger    *ledger.Ledger          // beside the certificate
	own       *calibration.OwnSamples // of a certificate whose samples were drawn anew
	rechecked string                  // says which blocks of a ledger were computed again; "" for none
	locked    bool                    // a command held the run directory when it was read
}

// Directory re-reads a run directory, or one of its folders, without trusting it, and comes to a
// verdict. An unreadable file is a failed check. Directory returns an error only where there is nothing
// to inspect, where a store fails, where blocks of the ledger cannot be rechecked on this machine, or
// when ctx ends. It then returns at once and leaves its reading to end by itself, which is safe as it
// changes nothing.
func Directory(ctx context.Context, dir string, o Options) (Report, error) {
	return leave.Behind(ctx, func() (Report, error) { return inspect(ctx, dir, o) })
}

func inspect(ctx context.Context, dir string, o Options) (r Report, err error) {
	ctx, failures := store.WatchFailures(ctx)
	if _, err := store.Stat(ctx, dir); errors.Is(err, fs.ErrNotExist) {
		return r, param.Fault(
			"directory",
			dir,
			"does not exist: name a run directory, as minsep run makes, or a folder of one",
		)
	} else if err != nil {
		return r, err
	}
	if path := closedTo(dir); path != "" {
		return r, param.Fault(
			"directory",
			dir,
			"%s may not be read by this user, which says nothing of it: inspect as the user who made the run, since batches and noise are secret; certificate.json, ledger, strategy and bounded are public and may be copied",
			path,
		)
	}
	folders, err := foldersOf(ctx, dir)
	if failed := failures.Err(); failed != nil {
		return r, failed
	}
	if err != nil {
		return r, err
	}
	if r, err = read(ctx, dir, folders, o); err != nil {
		return Report{}, err
	}
	r.Exposed, r.Taken = exposedModes(ctx, dir), readTaken(ctx, dir)
	return r, errors.Join(ctx.Err(), failures.Err())
}

// read inspects folders of a run directory, and judges what is found.
func read(ctx context.Context, dir string, folders []folder, o Options) (r Report, err error) {
	ctx, failures := store.WatchFailures(ctx)
	r.locked = store.IsLocked(dir, manifest.LockName)
	for _, f := range folders {
		one := f.read(ctx, &r.Contents)
		if err := errors.Join(ctx.Err(), failures.Err()); err != nil { // a file that was read in part is not broken
			return r, err
		}
		r.Folders = append(r.Folders, one)
	}
	inLedger := Inspection{Folder: store.Join(dir, manifest.LedgerFolder), all: &r.Contents}
	if o.OwnSamples > 0 {
		if err := inLedger.resample(ctx, o.OwnSamples); err != nil {
			return r, err
		}
	}
	if o.Recheck > 0 {
		if err := inLedger.recheck(ctx, o.Recheck); err != nil {
			return r, err
		}
	}
	if inLedger.Checks != nil {
		r.Folders = append(r.Folders, inLedger)
	}
	// Realised values are taken out before anything is judged or printed, so that no form of the output
	// can show them.
	for i := range r.Folders {
		if !o.ShowSecret {
			r.Folders[i].Realized = nil
		}
	}
	r.locked = r.locked || store.IsLocked(dir, manifest.LockName)
	r.judge()
	return r, nil
}

// read inspects a folder. A fault of the folder is a failed check.
func (f folder) read(ctx context.Context, all *Contents) Inspection {
	one := Inspection{Folder: f.path, kind: f.kind, all: all}
	if err := f.inspect(ctx, f.path, &one); err != nil {
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
	return one
}

// closedTo returns the first of a local directory's folders, at any depth, and of the files
// directly in it that this process may not read, or "" if it may read them all.
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

// legible makes a text safe to print: it may hold names and values that somebody else wrote into a
// file. Lines of more than 800 bytes lose their middle.
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

// ErrFailedCheck says that some check of a run directory failed, such as a hash, a separation, a
// bound or a distribution.
var ErrFailedCheck = errors.New("a check failed")

// folder is a result that can be inspected.
type folder struct {
	path    string
	kind    string // its name in a run directory
	inspect func(ctx context.Context, path string, found *Inspection) error
}

// inspectors holds the functions that inspect the contents of the results of stages, by the stage's name: a
// folder with its index, or a file, which has none. The file of a stage registers its function.
var inspectors = map[string]func(ctx context.Context, path string, ix *manifest.Index, found *Inspection) error{}

// folderOf returns the result of a stage at a path. Of a folder with an index it checks the files,
// and of a result of one run the run id.
func folderOf(s *stages.Stage, path, kind string) folder {
	return folder{path, kind, func(ctx context.Context, path string, found *Inspection) error {
		var ix *manifest.Index
		if s.Formats != nil {
			var err error
			if ix, err = manifest.Open(ctx, path, s.Formats...); err != nil {
				return err
			}
			found.files(ctx, ix, path)
		}
		if s.Secret {
			run, err := manifest.ReadRun(ctx, store.Dir(path))
			found.check("run", "the run id is that of run.json beside the folder", err == nil && run.RunID == ix.RunID)
			found.check(
				"blinded",
				"the index holds 32 bytes that nobody can guess, so that its SHA-256 in public files does not tell its contents",
				ix.Secret != nil && *ix.Secret != manifest.Digest{},
			)
		}
		if contents := inspectors[s.Name]; contents != nil {
			return contents(ctx, path, ix, found)
		}
		return nil
	}}
}

// places returns the places of results in a run directory, in the order of inspection: run.json,
// the folders in the order of the stages, then single files, which are compared with all of them, and
// private statistics.
func places(dir string) (list []folder) {
	list = []folder{{store.Join(dir, manifest.RunName), manifest.RunName, inspectRun}}
	for _, files := range []bool{false, true} {
		for _, s := range stages.All {
			for _, name := range s.Results {
				if files == (s.Formats == nil) {
					list = append(list, folderOf(s, store.Join(dir, name), name))
				}
			}
		}
	}
	return append(list, folder{store.Join(dir, manifest.StatisticsFolder), manifest.StatisticsFolder, inspectStatistics})
}

// foldersOf returns the results that exist in a run directory, or dir itself if it is the folder of
// one result.
func foldersOf(ctx context.Context, dir string) (folders []folder, err error) {
	if ix, err := manifest.Read(ctx, dir); err == nil {
		for _, s := range stages.All {
			if slices.Contains(s.Formats, ix.Format) {
				return []folder{folderOf(s, dir, s.ResultName())}, nil
			}
		}
	}
	of, err := store.Stat(ctx, dir)
	isFile := err == nil && !of.Dir // an object store may have a folder of the same name
	for _, f := range places(dir) {
		switch _, err := store.Stat(ctx, f.path); {
		case f.kind == manifest.RunName: // every run directory has one: if it is missing, reading it reports the fault
			folders = append(folders, f)
		case err == nil, !isFile && !errors.Is(err, fs.ErrNotExist): // the fault is reported when it is read
			folders = append(folders, f)
		}
	}
	if _, err := store.Stat(ctx, folders[0].path); err != nil && len(folders) == 1 {
		rule := "is no run directory: name one, as minsep run makes it from a plan, or a folder of one"
		if isFile {
			rule = "is a file: name a run directory, as minsep run makes from a plan, or a folder of one"
		}
		return nil, &stages.ParamError{Param: "directory", Value: dir, Rule: rule}
	}
	return folders, nil
}

// files checks that the files of a folder are as in its index, and that it holds no others.
func (i *Inspection) files(ctx context.Context, ix *manifest.Index, dir string) {
	broken := stages.BrokenFiles(ctx, ix, dir)
	rule := "every file has the size and SHA-256 of the index"
	if broken != nil {
		rule += "; " + stages.Listed(broken) + " not"
	}
	i.count("files", rule, int64(len(broken)))
	names, err := stages.Unlisted(ctx, ix, dir)
	i.nothingElse("the folder holds nothing that its index does not list", "not in its index", names, err)
}

// nothingElse records the check that there are no extra files. names are the extra files, and fault
// says what is wrong with them.
func (i *Inspection) nothingElse(rule, fault string, names []string, err error) {
	switch {
	case err != nil:
		rule += ": " + err.Error()
	case names != nil:
		rule = stages.Listed(names) + " " + fault + stages.MoveAway
	}
	i.check("unlisted files", rule, err == nil && names == nil)
}

// check records a check that either holds or fails in one place.
func (i *Inspection) check(name, rule string, held bool) {
	failed := int64(0)
	if !held {
		failed = 1
	}
	i.count(name, rule, failed)
}

// count records a check that fails in a number of places.
func (i *Inspection) count(name, rule string, failed int64) {
	i.Checks = append(i.Checks, sampling.Check{Name: name, Rule: rule, Held: failed == 0, Broken: failed})
}
