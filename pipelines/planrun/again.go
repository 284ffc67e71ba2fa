package planrun

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/manifest"
	"minsep/pipelines"
	"minsep/registry"
	"minsep/sampling/stream"
	"minsep/stages"
)

// nextRun returns the plan's next run in a directory with batches or noise. It has a run id of its
// own, and neither batches nor noise; goOn writes it. The table, the strategy and the certificate
// stay, because nothing in them is for one run only: the certificate is for a mechanism, and every
// run of the plan begins with the table. A run with neither batches nor noise is the next run
// already.
func nextRun(ctx context.Context, p stages.Plan, o pipelines.Options, records *registry.Registry, run manifest.Run, committed func(stream.RunID) *manifest.RunPlan) (t taken, err error) {
	asked := o.RunID
	o.RunID = stream.RunID{}
	if differs := differences(o, run, committed(run.RunID)); differs != nil {
		return t, &param.Error{Package: "planrun", Param: "out", Value: store.Join(o.Out, manifest.RunName),
			Rule: "belongs to another plan: " + some(differs) + "; --again is for the same plan: give another --out for this one"}
	}
	served, err := hasServed(ctx, records, o.Out, run)
	if err != nil {
		return t, err
	}
	// Nothing was drawn under this id, so it can still serve.
	if !served && (asked == run.RunID || asked == (stream.RunID{})) {
		return taken{run: run}, nil
	}
	next := run
	next.RunID = asked
	switch asked {
	case run.RunID:
		return t, &param.Error{Package: "planrun", Param: "run id", Value: asked, Rule: "must be a new one, or left out: it serves the run that is there"}
	case stream.RunID{}:
		next.RunID = stream.NewRunID()
	default:
		o.RunID = asked
		if _, err := mayServe(ctx, p, records, o, committed(asked)); err != nil {
			return t, err
		}
	}
	next.Plan = committed(next.RunID)
	next.Earlier = append(next.Earlier, run.RunID)
	next.Stages = map[string]manifest.RunStage{}
	for name, stage := range run.Stages {
		// Results that all runs of the plan share stay on record, with their digests: goOn compares them.
		if !stages.Named(name).OneRun {
			next.Stages[name] = stage
		}
	}
	return taken{run: next, made: true, after: &run}, nil
}

// goOn gives the directory to the next run, after it has checked that the results shared with
// earlier runs are there and are the plan's. It removes files before it writes the new run id.
// After an interruption the directory thus has the old run id, and the command can be repeated. A
// run without --again then makes the same batches and noise again.
func (r *planRun) goOn(ctx context.Context, t taken) error {
	if t.after == nil {
		return nil
	}
	for _, name := range stages.Names() { // none of them is of one run: see nextRun
		if _, finished := r.Run.Stages[name]; !finished {
			continue
		}
		s := r.stageOf(name)
		there, differs, err := r.Compare(ctx, s.Result)
		switch {
		case err != nil:
			return stages.InPlan(s.Group, err)
		case differs != nil:
			return refuse(s.Path(), "holds another result", differs)
		case !there:
			if err := r.canMake(s); err != nil {
				return err
			}
		default:
			r.compared = append(r.compared, name)
		}
	}
	var folders []string
	for _, name := range slices.Backward(stages.Names()) { // those that are made from others first
		s := stages.Named(name)
		if !s.OneRun {
			continue
		}
		folder := store.Join(r.options.Out, s.Folder())
		if err := manifest.Removable(ctx, folder); err != nil {
			return err
		}
		folders = append(folders, folder)
	}
	if r.options.DryRun {
		return nil
	}
	// Pages first: a page of the run before, beside the files of this one, would be believed.
	if err := r.removePages(ctx); err != nil {
		return err
	}
	for _, folder := range folders {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := manifest.Discard(folder, true); err != nil {
			return err
		}
	}
	return manifest.WriteRun(r.options.Out, t.run, t.after)
}

// canMake refuses to make a result again that earlier runs of the directory have shared. Under the
// present run id it would be another result, and the certificate and the batches would not belong
// to it.
func (r *planRun) canMake(s planStage) error {
	_, finished := r.Run.Stages[s.Name]
	if !finished || len(r.Run.Earlier) == 0 || s.OneRun || s.Formats == nil {
		return nil
	}
	return &param.Error{Package: "planrun", Param: "out", Value: s.Path(), Rule: "is missing or damaged, and cannot be made again as it was, since an earlier run of this directory made it: put it back, or give another --out"}
}

// hasServed reports whether a run has anything that a training may have used.
func hasServed(ctx context.Context, records *registry.Registry, out string, run manifest.Run) (bool, error) {
	record, _, err := records.Find(run.RunID)
	if err != nil || record != nil {
		return true, err
	}
	for _, s := range stages.All {
		if !s.OneRun {
			continue
		}
		_, finished := run.Stages[s.Name]
		_, err := store.Stat(ctx, store.Join(out, s.Folder()))
		if finished || err == nil {
			return true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return true, err
		}
	}
	return false, nil
}
