package pipelines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"minsep/internal/manifest"
	"minsep/internal/param"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/stream"
	"minsep/internal/strictjson"
)

// earlierRun is a run directory of which a new one takes over what still holds: the table, the
// strategy and the certificate. Batches and noise serve one training, and are made anew.
type earlierRun struct {
	of  *stages.Directory // compared with the new plan
	was stages.PlanRecord // its own plan
}

// openEarlier opens the directory that --again names, for the plan p of a new directory.
func openEarlier(
	ctx context.Context,
	dir string,
	p stages.Plan,
	o Options,
	inputs map[string]manifest.Digest,
) (*earlierRun, error) {
	refuse := func(rule string) error {
		return &param.Error{Param: "out", Value: dir, Rule: rule}
	}
	switch {
	case dir == "" || o.Out == "":
		return nil, refuse("must name the run directory from which --again NEW takes over, and NEW the new one")
	case store.Resolved(dir) == store.Resolved(o.Out):
		return nil, &param.Error{
			Param: "again",
			Value: o.Out,
			Rule:  "must be another directory than the one that is there, " + dir + ": nothing is overwritten",
		}
	}
	run, err := manifest.ReadRun(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refuse("has no run to take over from: leave --again out, and name the new directory by --out")
	}
	if err != nil {
		return nil, stages.Unusable(dir, err)
	}
	if run.Plan == nil || run.TakingOver {
		return nil, refuse(
			"has no finished stage of a plan to take over: leave --again out, and name the new directory by --out",
		)
	}
	root, err := stream.ReadKeyFile(o.KeyFile)
	if err != nil {
		return nil, err
	}
	// Tables and certificates tell nothing of the key, but for this commitment.
	if committed(root, run.RunID, run.Plan).KeyCommitment != run.Plan.KeyCommitment {
		return nil, refuse("was made with another root key: give that key")
	}
	e := &earlierRun{}
	if err := strictjson.Loose(run.Plan.Plan, &e.was); err != nil {
		return nil, fmt.Errorf("%s: plan: %w", store.Join(dir, manifest.RunName), err)
	}
	p.Out = dir
	e.of = &stages.Directory{Out: dir, Plan: p, Inputs: inputs, Run: run, KeyFile: o.KeyFile}
	return e, nil
}

// begunFor refuses a directory whose run takes nothing over from this one; a nil e asks for a run
// of which nothing is left to take over.
func (e *earlierRun) begunFor(out string, run manifest.Run) error {
	switch {
	case e != nil && !slices.Contains(run.Earlier, e.of.Run.RunID):
		return &param.Error{
			Param: "again",
			Value: out,
			Rule:  "holds a run that takes nothing over from " + e.of.Out + ": give the name of a new directory",
		}
	case e == nil && run.TakingOver:
		return param.Fault(
			"out",
			out,
			"was begun by minsep run --again, which was stopped: repeat that command, or give another --out",
		)
	}
	return nil
}

// takeOver copies from an earlier run's directory the results that still hold. No stage has begun
// in the new directory, and each compares what was copied before it counts it as its own, so the
// copy can be repeated after it was stopped.
func (r *planRun) takeOver(ctx context.Context, e *earlierRun, names []string) error {
	if e == nil || !r.Run.TakingOver {
		return nil
	}
	if !r.options.DryRun { // nothing may change there while it is compared and copied
		release, err := manifest.TakeLock(e.of.Out)
		if err != nil {
			return err
		}
		defer release()
	}
	var err error
	held := map[string]bool{}
	for _, name := range names {
		result := e.of.Result(name)
		if result.OneRun {
			continue
		}
		if held[name], err = e.holds(ctx, result, held); err != nil {
			return stages.InPlan(result.Group, err)
		}
		if held[name] {
			r.taken = append(r.taken, name)
		}
		if r.options.DryRun {
			continue
		}
		if err := r.copyResult(ctx, e, result, held[name]); err != nil {
			return err
		}
	}
	if r.options.DryRun {
		return nil
	}
	r.Run.TakingOver = false
	return manifest.WriteRun(r.options.Out, r.Run, &manifest.Run{RunID: r.Run.RunID})
}

// holds reports whether a result of the earlier run is the new plan's. held has the stages before.
func (e *earlierRun) holds(ctx context.Context, result stages.Result, held map[string]bool) (bool, error) {
	for _, from := range result.From {
		if holds, there := held[from]; there && !holds {
			return false, nil
		}
	}
	// The index of a table names neither its graph nor how it was read.
	if result.Name == "bound" {
		same, err := e.sameReading()
		if err != nil || !same {
			return false, err
		}
	}
	there, differs, err := e.of.Compare(ctx, result)
	return there && differs == nil && err == nil, err
}

// sameReading reports whether the graph of the earlier run has the same contents, and was read as
// the new plan reads it.
func (e *earlierRun) sameReading() (bool, error) {
	if e.was.Graph == nil || e.of.Plan.Graph == nil || e.was.Inputs["graph"] != e.of.Inputs["graph"] {
		return false, nil
	}
	is := *e.of.Plan.Graph
	is.Paths = nil
	was, errWas := json.Marshal(e.was.Graph)
	now, errNow := json.Marshal(is)
	return string(was) == string(now), errors.Join(errWas, errNow)
}

// copyResult copies a result of an earlier run that holds. The ledger of a certificate is copied in
// any case: its protocols had their chance to be accepted, and count.
func (r *planRun) copyResult(ctx context.Context, e *earlierRun, result stages.Result, holds bool) error {
	if result.Name != "account" {
		to := store.Join(r.options.Out, result.ResultName())
		finished, err := manifest.Finished(ctx, to)
		if err != nil || finished || !holds {
			return err
		}
		return manifest.CopyFolder(ctx, result.Path(), to)
	}
	if err := r.copyTree(ctx, e.of.Out, manifest.LedgerFolder); err != nil || !holds {
		return err
	}
	return r.copyFile(ctx, e.of.Out, store.Base(result.Path())) // last: a directory with a certificate is done
}

// copyTree copies a public folder of a run directory, if it is there.
func (r *planRun) copyTree(ctx context.Context, from, folder string) error {
	entries, err := store.List(ctx, store.Join(from, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if err != nil {
			break
		}
		name := folder + "/" + e.Name
		switch {
		case strings.HasPrefix(e.Name, store.TempPrefix):
		case e.Dir:
			err = r.copyTree(ctx, from, name)
		default:
			err = r.copyFile(ctx, from, name)
		}
	}
	return err
}

// copyFile copies a public file of a run directory.
func (r *planRun) copyFile(ctx context.Context, from, name string) error {
	to := store.Join(r.options.Out, name)
	if err := store.MkdirAll(ctx, store.Dir(to), manifest.PublicDir); err != nil {
		return err
	}
	return store.Write(ctx, to, store.Options{Mode: manifest.PublicFile}, func(w io.Writer) error {
		return store.CopyTo(ctx, w, store.Join(from, name))
	})
}

// canMake refuses to make again a result that was taken over. Under the present run id it would be
// another result, and the certificate and the batches would not belong to it.
func (r *planRun) canMake(s planStage) error {
	_, finished := r.Run.Stages[s.Name]
	if !finished || len(r.Run.Earlier) == 0 || s.OneRun || s.Formats == nil {
		return nil
	}
	return param.Fault(
		"out",
		s.Path(),
		"is missing or damaged, and cannot be made again as it was, since it was taken over from an earlier run: put it back, or give another --out",
	)
}
