package planrun

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"

	"minsep/internal/digest"
	"minsep/internal/manifest"
	"minsep/internal/param"
	"minsep/internal/store"
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
	return &param.Error{Param: "out", Value: path, Rule: what + "; give another --out"}
}

// removeEmptyRun removes a run directory that has only what every run directory has.
func (r *planRun) removeEmptyRun() error {
	entries, err := store.List(context.Background(), r.Out)
	entries = slices.DeleteFunc(entries, func(e store.Entry) bool {
		return slices.Contains([]string{manifest.RunName, manifest.LockName, manifest.IgnoreName}, e.Name)
	})
	if err != nil || len(entries) > 0 {
		return err
	}
	return manifest.RemoveRun(r.Out)
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
	// Noise that was lost is made anew, with random bytes of its own.
	if there && s.Name != "noise" {
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
