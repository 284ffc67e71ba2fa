package pipelines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"

	"minsep/accounting"
	"minsep/internal/store"
	"minsep/manifest"
	"minsep/sampling"
)

// Inspection is what [Inspect] found in one folder of a run directory. Realized is secret.
type Inspection struct {
	Folder   string             `json:"folder"`
	Promises []sampling.Promise `json:"promises"`
	Notes    []string           `json:"notes,omitempty"` // what holds, and must be known
	Realized *sampling.Realized `json:"realized,omitempty"`

	kind        string                  // the folder's name in a run directory
	certificate *accounting.Certificate // of the certificate's inspection, if it can be read
}

// Inspect re-reads a run directory, or one of its folders, without trusting it. What cannot be read is a broken promise;
// it returns an error only where there is nothing to inspect, or when ctx ends, which it does not outlive: it changes nothing, so that
// what it computes can be left behind.
func Inspect(ctx context.Context, dir string) ([]Inspection, error) {
	type outcome struct {
		found []Inspection
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		found, err := inspect(ctx, dir)
		done <- outcome{found, err}
	}()
	select {
	case o := <-done:
		return o.found, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func inspect(ctx context.Context, dir string) (found []Inspection, err error) {
	if _, err := store.Stat(ctx, dir); err != nil {
		return nil, err
	}
	folders, err := foldersOf(ctx, dir)
	if err != nil {
		return nil, err
	}
	for _, f := range folders {
		one, err := f.inspect(ctx, f.path)
		if ctx.Err() != nil { // what was not read to its end is not broken
			return nil, ctx.Err()
		}
		one.Folder, one.kind = f.path, f.kind
		if err != nil {
			one.Promises = append(one.Promises, sampling.Promise{Name: "readable", Rule: err.Error(), Broken: 1})
		}
		found = append(found, one)
	}
	return found, nil
}

// Broken returns [ErrBrokenPromise] if any promise is broken.
func Broken(found []Inspection) error {
	for _, i := range found {
		for _, p := range i.Promises {
			if !p.Held {
				return ErrBrokenPromise
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

// inspectors are the stages' folders in the order of the stages.
var inspectors = []struct {
	folder, format string
	inspect        func(ctx context.Context, path string) (Inspection, error)
}{
	{manifest.RunName, manifest.RunFormat, inspectRun},
	{BoundedFolder, manifest.BoundedFormat, inspectBounded},
	{StrategyFolder, StrategyFormat, inspectStrategy},
	{BatchesFolder, manifest.BatchesFormat, inspectBatches},
	{NoiseFolder, NoiseFormat, inspectNoise},
	{CertificateFile, "minsep-certificate/1", inspectCertificate},
}

// foldersOf returns the folders of a run directory that are there, or dir itself if it is one of them.
func foldersOf(ctx context.Context, dir string) (folders []folder, err error) {
	if ix, err := manifest.Read(ctx, dir); err == nil {
		for _, i := range inspectors {
			if i.format == ix.Format {
				return []folder{{dir, i.folder, i.inspect}}, nil
			}
		}
	}
	of, err := store.Stat(ctx, dir)
	isFile := err == nil && !of.Dir // which has nothing in it; but an object store may have a folder of the same name
	for _, i := range inspectors {
		path := store.Join(dir, i.folder)
		switch _, err := store.Stat(ctx, path); {
		case i.folder == manifest.RunName: // a run directory has one, and to miss it is a fault
			folders = append(folders, folder{path, i.folder, i.inspect})
		case err == nil, !isFile && !errors.Is(err, fs.ErrNotExist): // what is wrong with it is found when it is read
			folders = append(folders, folder{path, i.folder, i.inspect})
		}
	}
	if _, err := store.Stat(ctx, folders[0].path); err != nil && len(folders) == 1 {
		return nil, &ParamError{Package: "pipelines", Param: "directory", Value: dir, Rule: "must be a run directory or a folder of one"}
	}
	return folders, nil
}

// filesPromise checks sizes and hashes.
func filesPromise(ctx context.Context, ix *manifest.Index, dir string) sampling.Promise {
	broken := brokenFiles(ctx, ix, dir)
	p := sampling.Promise{Name: "files", Rule: "every file has the size and SHA-256 of the index", Held: broken == nil, Broken: int64(len(broken))}
	if broken != nil {
		p.Rule += "; " + listed(broken) + " not"
	}
	return p
}

// brokenFiles names the files of a folder that are not what its index says. How large they are is not said: those of batches
// tell how large the batches are.
func brokenFiles(ctx context.Context, ix *manifest.Index, dir string) (names []string) {
	for _, f := range ix.Files {
		if f.Check(ctx, dir) != nil {
			names = append(names, store.Base(dir)+"/"+f.Name)
		}
	}
	return names
}

// listed is a subject with its verb: a is; a, b are; or, of many, a, b and 7 more are.
func listed(names []string) string {
	const most = 5
	text, verb := strings.Join(names[:min(most, len(names))], ", "), " are"
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	if len(names) == 1 {
		verb = " is"
	}
	return text + verb
}

// runPromise checks that a folder is of the run whose directory it lies in: the run id is a part of every key.
func runPromise(ctx context.Context, ix *manifest.Index, runDir string) sampling.Promise {
	p := sampling.Promise{Name: "run", Rule: "the run id is that of run.json beside the folder", Held: true}
	if run, err := manifest.ReadRun(ctx, runDir); err != nil || run.RunID != ix.RunID {
		p.Held, p.Broken = false, 1
	}
	return p
}

// factsPromise checks what readers take from the index against the scheme, the number of rows of the table, and what is public of it.
func factsPromise(b *manifest.Batches, scheme sampling.Spec, rows int64, public sampling.Population) sampling.Promise {
	padded := 0
	if t := scheme.Truncation; t != nil && t.Pad {
		padded = t.MaxBatchSize
	}
	_, ofTable := b.Index.Inputs[BoundedFolder]
	p := sampling.Promise{Name: "facts", Rule: "steps, examples, batch sizes and table of the index are those of its parameters and inputs"}
	p.Held = b.Facts.Steps == scheme.Scheme().NumSteps() && b.Facts.Examples == rows && b.Facts.BatchSize == padded &&
		ofTable == (b.Facts.RowsOf == manifest.RowsOfBounded)
	if got := b.Facts.ExpectedBatchSize; got != nil { // processors may differ in the last bits
		want := scheme.ExpectedBatchSize(public)
		p.Held = p.Held && math.Abs(*got-want) <= 1e-12*want
	}
	if !p.Held {
		p.Broken = 1
	}
	return p
}

func inspectBatches(ctx context.Context, dir string) (Inspection, error) {
	var found Inspection
	batches, err := manifest.OpenBatches(ctx, dir)
	if err != nil {
		return found, err
	}
	found.Promises = []sampling.Promise{filesPromise(ctx, batches.Index, dir)}
	unlistedPromise(ctx, &found, batches.Index, dir)
	var params formParams
	if err := json.Unmarshal(batches.Index.Params, &params); err != nil {
		return found, fmt.Errorf("pipelines: %s: params: %w", dir, err)
	}
	if err := params.Scheme.Validate(); err != nil {
		return found, err
	}
	found.Promises = append(found.Promises, runPromise(ctx, batches.Index, store.Dir(dir)), secretPromise(batches.Index))
	of := sampling.Audited{Examples: batches.Facts.Examples, Neighborhoods: sampling.Neighborhoods{1: batches.Facts.Examples}}
	public := sampling.Population{Examples: of.Examples, Neighborhoods: of.Neighborhoods}
	if batches.Facts.RowsOf == manifest.RowsOfBounded {
		table := store.Join(store.Dir(dir), BoundedFolder)
		matches := sampling.Promise{Name: "input", Rule: "the batches were formed of the bounded table beside them"}
		digest, err := manifest.DigestOf(ctx, table)
		if err != nil {
			return found, fmt.Errorf("the batches' rows are those of a bounded table, which must lie beside them: %w", err)
		}
		matches.Held = digest == batches.Index.Inputs[BoundedFolder]
		found.Promises = append(found.Promises, matches)
		if !matches.Held {
			matches.Broken = 1
			return found, nil
		}
		if of, err = auditedTable(ctx, table, params.Scheme.Kind().Owners != sampling.OwnersIgnored); err != nil {
			return found, err
		}
		opened, err := manifest.OpenBounded(ctx, table)
		if err != nil {
			return found, err
		}
		public = examples{bounded: opened}.population()
	}
	found.Promises = append(found.Promises, factsPromise(batches, params.Scheme, of.Examples, public))
	audit := sampling.NewAudit(params.Scheme, of)
	err = batches.Each(ctx, func(_ int, rows []int64) error { audit.Step(rows); return nil })
	if err != nil {
		return found, err
	}
	found.Promises = append(found.Promises, audit.Promises()...)
	realized := audit.Realized()
	found.Realized = &realized
	return found, nil
}
