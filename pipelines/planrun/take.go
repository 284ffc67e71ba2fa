package planrun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/internal/strictjson"
	"minsep/internal/words"
	"minsep/manifest"
	"minsep/pipelines"
	"minsep/registry"
	"minsep/sampling/stream"
	"minsep/stages"
)

// taken describes a run directory after a plan has taken it.
type taken struct {
	run       manifest.Run
	made      bool              // with a new run id
	corrected bool              // the run id is kept, and run.json, which names another plan, is not written yet
	known     *registry.Record  // of the run id: its batches, or its noise too, were made before; nil for none
	before    *manifest.RunPlan // of a corrected one, that other plan
	after     *manifest.Run     // the run before, still in run.json: see goOn; nil without one
}

// take makes the directory the plan's, by a new run.json, or finds that it is. A plan may be
// corrected as long as there is no noise: the run id stays, and with it the stages that still
// match. Once there is noise, another training run needs another run id, by --overwrite: training
// runs share neither noise nor batches. With again, the directory goes to the plan's next run: see
// [nextRun].
func take(ctx context.Context, p stages.Plan, o pipelines.Options, record *manifest.RunPlan, again bool) (t taken, err error) {
	root, records, err := openRegistry(o)
	if err != nil {
		return t, err
	}
	// The commitment is for one run id: run.json is public, and does not tell which directories have
	// the same key.
	committed := func(id stream.RunID) *manifest.RunPlan {
		r := *record
		r.KeyCommitment = manifest.Digest(root.Key(id, [32]byte{}, planPurpose).Commitment())
		return &r
	}
	path := store.Join(o.Out, manifest.RunName)
	var old *manifest.Run
	run, err := manifest.ReadRun(ctx, o.Out)
	switch {
	case err == nil && o.RunID != run.RunID && slices.Contains(run.Used(), o.RunID):
		return t, &param.Error{Package: "planrun", Param: "run id", Value: o.RunID, Rule: "must be a new one, or left out: it served an earlier run of this directory"}
	case errors.Is(err, fs.ErrNotExist) && again:
		return t, &param.Error{Package: "planrun", Param: "again", Value: true, Rule: "is for a directory with a run of the plan, and there is none in " + o.Out + ": leave --again out for the first run"}
	case errors.Is(err, fs.ErrNotExist):
		// Results without a run.json could be of any plan and any key.
		there, err := stages.Holds(ctx, o.Out)
		if err != nil {
			return t, err
		}
		if there != "" && !o.Overwrite {
			return t, refuse(path, "is missing", []string{there + " is there"})
		}
	case err != nil:
		return t, stages.Unusable(path, err)
	case again:
		return nextRun(ctx, p, o, records, run, committed)
	default:
		want := committed(run.RunID)
		differs := differences(o, run, want)
		if differs == nil {
			return goesOn(ctx, p, o, records, run)
		}
		if may, err := mayCorrect(ctx, o, records, run, want); err != nil {
			return t, err
		} else if may {
			known, err := inPlace(ctx, o, records, run)
			before := run.Plan
			run.Plan, run.Name = want, p.Name
			return taken{run: run, corrected: true, before: before, known: known}, err
		}
		if !o.Overwrite {
			return t, &param.Error{Package: "planrun", Param: "out", Value: path, Rule: "belongs to another plan: " + some(differs) + wayOut(o.Out, differs)}
		}
		if o.RunID == run.RunID {
			return t, &param.Error{Package: "planrun", Param: "run id", Value: o.RunID, Rule: "must be a new one, or left out: it serves another plan already"}
		}
		old = &run
	}
	next := manifest.Run{Format: manifest.RunFormat, Version: manifest.Version, RunID: o.RunID, Name: p.Name}
	if old != nil {
		// The ids stay on record: none of them may serve again in this directory.
		next.Replaced = old.Used()
	}
	if next.RunID == (stream.RunID{}) {
		next.RunID = stream.NewRunID()
	} else if t.known, err = mayServe(ctx, p, records, o, record); err != nil {
		return t, err
	}
	next.Plan = committed(next.RunID)
	t = taken{run: next, made: true, known: t.known}
	if o.DryRun {
		return t, nil
	}
	return t, manifest.WriteRun(o.Out, next, old)
}

// goesOn takes the directory of the same plan, which may have another name now.
func goesOn(ctx context.Context, p stages.Plan, o pipelines.Options, records *registry.Registry, run manifest.Run) (taken, error) {
	known, err := inPlace(ctx, o, records, run)
	if err == nil && !o.DryRun && p.Name != "" && p.Name != run.Name {
		before := run
		run.Name = p.Name
		err = manifest.WriteRun(o.Out, run, &before)
	}
	return taken{run: run, known: known}, err
}

// openRegistry opens the registry of a plan's root key.
func openRegistry(o pipelines.Options) (root stream.Root, records *registry.Registry, err error) {
	if root, err = stream.ReadKeyFile(o.KeyFile); err != nil {
		return root, nil, err
	}
	if records, err = registry.Open(root, o.KeyFile); err == nil {
		err = records.Writable(o.DryRun)
	}
	return root, records, err
}

// mayServe refuses a requested run id that serves another plan's training, or another directory.
// For a training without a plan it compares only the facts that are known before the first stage:
// the sampler and the examples of a graph are not known, and the stages refuse others. known is the
// record of a run id that has served this plan in this directory; it must not belong to another run
// now.
func mayServe(ctx context.Context, p stages.Plan, records *registry.Registry, o pipelines.Options, record *manifest.RunPlan) (known *registry.Record, err error) {
	training, err := stages.TrainingDigest(record.Plan)
	if err != nil {
		return nil, err
	}
	want := registry.Record{RunID: o.RunID, Directory: store.Resolved(o.Out), PlanSHA256: training}
	// Numbered examples are known before any stage.
	if p.Table() == "" {
		formed, source, err := p.FormParams().Planned(ctx)
		if err != nil {
			return nil, err
		}
		want.Training.Examples = source.Examples().Identity
		if want.Training.Sampler, err = stages.SamplerText(formed.Scheme); err != nil {
			return nil, err
		}
	}
	known, _, err = records.Find(o.RunID)
	if err != nil || known == nil {
		return nil, err
	}
	if err := records.Check(want); err != nil {
		return known, err
	}
	if other := registry.OtherRun(ctx, o.Out, o.RunID); other != (stream.RunID{}) {
		return known, &param.Error{Package: "planrun", Param: "run id", Value: o.RunID, Rule: registry.ServedBefore(other)}
	}
	return known, nil
}

// inPlace refuses a copy of the directory that a run id serves: see [pipelines.InPlace]. known is
// the record of the run id.
func inPlace(ctx context.Context, o pipelines.Options, records *registry.Registry, run manifest.Run) (known *registry.Record, err error) {
	known, _, err = records.Find(run.RunID)
	if err != nil || known == nil {
		return nil, err
	}
	_, err = pipelines.InPlace(ctx, records, *known, o)
	return known, err
}

// differences returns the parts of a run directory that are not this plan's, nil if there are none.
func differences(o pipelines.Options, run manifest.Run, want *manifest.RunPlan) (list []string) {
	if o.RunID != (stream.RunID{}) && o.RunID != run.RunID {
		list = append(list, fmt.Sprintf("its run id is %v", run.RunID))
	}
	if run.Plan == nil {
		return append(list, "its stages were run one by one")
	}
	if run.Plan.KeyCommitment != want.KeyCommitment {
		list = append(list, "its root key differs")
	}
	if run.Plan.SHA256 != want.SHA256 {
		for _, text := range stages.JSONDifferences(run.Plan.Plan, want.Plan) {
			if strings.HasPrefix(text, inputsGraph) {
				text = "the data in the graph's files have changed (" + text + ")"
			}
			list = append(list, text)
		}
	}
	return list
}

// some joins the first differences, and says how many more there are.
func some(differs []string) string {
	const most = 4
	text := strings.Join(differs[:min(most, len(differs))], "; ")
	if more := len(differs) - most; more > 0 {
		text += "; and " + words.Count(more, "other difference")
	}
	return text
}

// inputsGraph begins a difference in the contents of the graph's files.
const inputsGraph = "inputs.graph is "

// wayOut says how to go on if a directory belongs to another plan. A certificate does not depend on
// the data if the sampler does not.
func wayOut(out string, differs []string) string {
	text := "; give another --out, "
	if slices.ContainsFunc(differs, func(d string) bool { return strings.Contains(d, inputsGraph) }) {
		text += fmt.Sprintf("with which \"from\": %q in privacy reuses the certificate if the sampler stays the same, ", out)
	}
	return text + "or --overwrite, which makes everything again under a new run id, batches and noise too"
}

// mayCorrect reports whether a run id may stay when the plan of its directory is replaced. It may
// if the run id serves no training, and does not belong to a later run of a plan that has served
// one; and if the training stays the same.
func mayCorrect(ctx context.Context, o pipelines.Options, records *registry.Registry, run manifest.Run, want *manifest.RunPlan) (bool, error) {
	if run.Plan == nil || run.Plan.KeyCommitment != want.KeyCommitment || o.RunID != (stream.RunID{}) && o.RunID != run.RunID {
		return false, nil
	}
	record, _, err := records.Find(run.RunID)
	if err != nil {
		return false, err
	}
	dir := store.Join(o.Out, manifest.NoiseFolder)
	finished, errFinished := manifest.Finished(ctx, dir)
	interrupted, errInterrupted := manifest.Interrupted(ctx, dir)
	if err := errors.Join(errFinished, errInterrupted); err != nil {
		return false, err
	}
	if !record.HasNoise() && len(run.Earlier) == 0 && !finished && !interrupted {
		return true, nil
	}
	// Once there may be noise, a corrected plan must be of the same training: its files may be laid
	// out in another way, and no more.
	was, err := stages.TrainingOfPlan(run.Plan.Plan)
	if err != nil {
		return false, err
	}
	is, err := stages.TrainingOfPlan(want.Plan)
	return bytes.Equal(was, is), err
}

// outdated returns the stages with a finished result that is not the plan's, or that was made from
// one that is not. It ends at the first stage without a result: later stages cannot be judged.
func (r *planRun) outdated(ctx context.Context, t taken) (again []planStage, differs []string, err error) {
	names, err := r.Plan.Stages("")
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		s := r.stageOf(name)
		from := slices.ContainsFunc(again, func(before planStage) bool {
			return name == "noise" || s.Sources()[before.Source()] != "" // the noise is for the batches too
		})
		if from {
			there, err := isThere(ctx, s)
			if err != nil {
				return nil, nil, err
			}
			if there {
				again = append(again, s)
			}
			continue
		}
		there, d, err := r.Compare(ctx, s.Result)
		if err != nil {
			return nil, nil, err
		}
		if there && d == nil && name == "bound" { // its index does not say how the graph was read, and run.json may not name the table yet
			if d, err = r.ofAnotherGraph(t.before); err != nil {
				return nil, nil, err
			}
		}
		// Nothing later can be finished, unless an earlier one is made again.
		if !there && len(again) == 0 {
			break
		}
		if there && d != nil {
			again = append(again, s)
			for _, one := range d {
				differs = append(differs, store.Base(s.Path())+": "+one)
			}
		}
	}
	return again, differs, nil
}

// ofAnotherGraph reports whether a bounded table was made from another graph than the plan's. The
// graph may have been read differently, such as with another column of owners. Or it has other
// files, and run.json does not name the table, since the stage was stopped when it had finished.
func (r *planRun) ofAnotherGraph(before *manifest.RunPlan) (differs []string, err error) {
	if before == nil {
		return nil, nil
	}
	var was stages.PlanRecord
	if err := strictjson.Loose(before.Plan, &was); err != nil {
		return nil, fmt.Errorf("planrun: %w", err)
	}
	if was.Graph != nil {
		is := *r.Plan.Graph
		is.Paths = nil
		there, errThere := json.Marshal(was.Graph)
		here, errHere := json.Marshal(is)
		if err := errors.Join(errThere, errHere); err != nil {
			return nil, fmt.Errorf("planrun: %w", err)
		}
		for _, text := range stages.JSONDifferences(there, here) {
			differs = append(differs, "graph."+text)
		}
	}
	if _, named := r.Run.Stages["bound"]; !named && was.Inputs["graph"] != r.Inputs["graph"] {
		differs = append(differs, "it was made from another graph")
	}
	return differs, nil
}

// correct names the results of the run directory that a corrected plan, or --overwrite, makes
// again, and refuses that without --overwrite. Then run.json is the plan's.
func (r *planRun) correct(ctx context.Context, t taken) error {
	if !t.corrected && !r.options.Overwrite {
		return nil
	}
	again, differs, err := r.outdated(ctx, t)
	if err != nil {
		return err
	}
	// An --overwrite that was stopped has left them; the stages refuse results that cannot be
	// read.
	if here, err := stages.ReadPresent(ctx, r.options.Out, manifest.BoundedFolder, manifest.CertificateFile); err == nil {
		r.options.Replaced = append(r.options.Replaced, here.Of(r.Run.Replaced)...)
	}
	var names []string
	for _, s := range again {
		names = append(names, s.Name)
		r.options.Replaced = append(r.options.Replaced, s.ResultName())
	}
	if t.corrected && len(again) > 0 && !r.options.Overwrite {
		return &param.Error{Package: "planrun", Param: "out", Value: r.options.Out, Rule: "holds results that no longer follow from the plan: " + strings.Join(differs, "; ") +
			"; give --overwrite to make these stages again: " + strings.Join(names, ", ") + "; or give another --out"}
	}
	r.result.Again = names
	if !t.corrected || r.options.DryRun {
		return nil
	}
	for _, s := range again {
		if s.Name == "bound" { // nothing but its record in run.json says which graph it was made from
			if err := manifest.Discard(s.Path(), false); err != nil {
				return err
			}
		}
		delete(r.Run.Stages, s.Name)
	}
	return manifest.WriteRun(r.options.Out, r.Run, &manifest.Run{RunID: r.Run.RunID})
}
