package planrun

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"

	"minsep/internal/digest"
	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/manifest"
)

// planPurpose is the purpose of the key for the commitment in run.json. Nothing is drawn with it.
const planPurpose = "run: plan"

// fileDigest returns the SHA-256 of a file.
func fileDigest(ctx context.Context, path string) (d manifest.Digest, err error) {
	f, err := store.Open(ctx, path)
	if err != nil {
		return d, err
	}
	defer f.Close()
	return digest.Of(store.Reader(f))
}

// refuse returns the error for a result that is not the plan's. differs may be empty.
func refuse(path, what string, differs []string) error {
	if len(differs) > 0 {
		what += ": " + strings.Join(differs, "; ")
	}
	return &param.Error{Package: "planrun", Param: "out", Value: path, Rule: what + "; give another --out, or --overwrite"}
}

// removeEmptyRun removes a run directory that has only run.json and the lock. A run.json that lists
// earlier run ids stays: nothing else says that they must not be used again.
func (r *planRun) removeEmptyRun() error {
	if len(r.Run.Used()) > 1 {
		return nil
	}
	entries, err := store.List(context.Background(), r.Out)
	entries = slices.DeleteFunc(entries, func(e store.Entry) bool { return e.Name == manifest.LockName })
	if err != nil || len(entries) > 1 {
		return err
	}
	return manifest.RemoveRun(r.Out)
}

// removePages removes the pages that minsep report made of the directory, before anything in it
// changes: a page does not say that it shows earlier results. Other files with these names stay.
func (r *planRun) removePages(ctx context.Context) error {
	for _, name := range []string{manifest.ReportPage, manifest.SecretReportPage} {
		path := store.Join(r.options.Out, name)
		is, err := isPage(ctx, path)
		if err == nil && is {
			err = store.Remove(ctx, path)
			r.result.Removed = append(r.result.Removed, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isPage reports whether a file is a page of minsep report.
func isPage(ctx context.Context, path string) (bool, error) {
	info, err := store.Stat(ctx, path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Dir {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	f, err := store.Open(ctx, path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	start := make([]byte, min(f.Size(), 1024))
	_, err = f.ReadAt(start, 0)
	if err == io.EOF {
		err = nil
	}
	return bytes.Contains(start, []byte(manifest.ReportMark)), err
}

// keep writes the result of a finished stage to run.json.
func (r *planRun) keep(ctx context.Context, s planStage) error {
	now, err := r.Finished(ctx, s.Result)
	if err != nil {
		return err
	}
	was, there := r.Run.Stages[s.Name]
	if there && reflect.DeepEqual(was, now) {
		return nil
	}
	again := was.ParamsSHA256 == now.ParamsSHA256 && maps.Equal(was.Inputs, now.Inputs) // and not by a corrected plan
	if there && again && !r.options.Overwrite {
		return refuse(s.Path(), "is not the result that run.json names", nil)
	}
	all := maps.Clone(r.Run.Stages)
	if all == nil {
		all = map[string]manifest.RunStage{}
	}
	all[s.Name] = now
	r.Run.Stages = all
	if err := ctx.Err(); err != nil {
		return err
	}
	onDisk, err := manifest.ReadRun(ctx, r.options.Out)
	if err != nil {
		return err
	}
	// The stage may have written more than this run knows: only its own entry is added.
	r.Run.Examples = onDisk.Examples // which the stage has written
	return manifest.WriteRun(r.options.Out, r.Run, &manifest.Run{RunID: r.Run.RunID})
}
