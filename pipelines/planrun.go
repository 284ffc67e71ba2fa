package pipelines

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/pipelines/manifest"
	"minsep/sampling/ownergraph/graphio"
	"minsep/sampling/stream"
)

// planPurpose is the purpose of the key whose commitment run.json holds. Nothing is drawn with it.
const planPurpose = "run: plan"

// PlanRun says how far a plan is run, and who is told.
type PlanRun struct {
	Until string                           // the last stage; "" for all
	Watch func(stage string) (stop func()) // nil, or called when a stage begins and, what it returned, when it ends
}

// PlanResult is what a run of a plan came to. All of it is public: sizes of batches, and of their files, are not in it.
type PlanResult struct {
	RunID      string          `json:"run_id,omitempty"`
	Out        string          `json:"out"`
	PlanSHA256 manifest.Digest `json:"plan_sha256"`
	Plan       json.RawMessage `json:"plan"` // as in run.json
	Stages     []PlanStage     `json:"stages"`
	Seconds    float64         `json:"seconds"`

	Examples          int64   `json:"examples,omitempty"` // kept
	Copies            int64   `json:"copies,omitempty"`   // of them
	ExpectedBatchSize float64 `json:"expected_batch_size,omitempty"`
	NoiseMultiplier   float64 `json:"noise_multiplier,omitempty"`
	Epsilon           float64 `json:"epsilon,omitempty"`
	Delta             float64 `json:"delta,omitempty"`
	Status            string  `json:"status,omitempty"` // of the certificate
	Reason            string  `json:"reason,omitempty"` // of a status that is not verified
}

// States of a stage.
const (
	StageDone    = "done"
	StageSkipped = "skipped" // its result was there
	StageToDo    = "to do"   // of a dry run
	StageReplace = "replace" // of a dry run: another result is there
)

// PlanStage is a stage of a run.
type PlanStage struct {
	Stage   string  `json:"stage"`
	State   string  `json:"state"`
	Path    string  `json:"path"`
	Files   int     `json:"files,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Run runs the plan's stages in the run directory. A stage whose result is there and matches is skipped; one that was stopped
// goes on, or begins again where it cannot. A result that does not match is refused, with what differs, unless it may be overwritten. Another
// plan in the directory is refused too; overwritten, it loses the run id: no two plans share a random number.
func (p Plan) Run(ctx context.Context, o Options, how PlanRun) (PlanResult, error) {
	if o.Out != "" {
		p.Out = o.Out
	}
	if o.KeyFile == "" {
		o.KeyFile = p.Key
	}
	o.Out = p.Out
	names, record, err := p.look(ctx, o, how.Until)
	if err != nil {
		return PlanResult{}, err
	}
	if !o.DryRun {
		var unlock func()
		if o, unlock, err = o.lock(); err != nil {
			return PlanResult{}, err
		}
		defer unlock()
	}
	run, made, err := o.take(record)
	if err != nil {
		return PlanResult{}, err
	}
	r := &planRun{plan: p, options: o, run: run, how: how,
		result: PlanResult{RunID: run.RunID.String(), Out: o.Out, PlanSHA256: run.Plan.SHA256, Plan: run.Plan.Plan}}
	if o.DryRun && made {
		r.result.RunID = "" // that of the run will be another
	}
	if !o.DryRun {
		if err := manifest.RemoveTemporary(o.Out); err != nil {
			return r.result, err
		}
	}
	begin := time.Now()
	for i, name := range names {
		if err := r.stage(ctx, name); err != nil {
			if made && i == 0 && !o.DryRun && ctx.Err() == nil {
				err = errors.Join(err, removeEmptyRun(o.Out))
			}
			return r.result, err
		}
	}
	r.result.Seconds = time.Since(begin).Seconds()
	return r.result, nil
}

// look checks everything that can be seen before the first stage, and hashes the inputs.
func (p Plan) look(ctx context.Context, o Options, until string) ([]string, *manifest.RunPlan, error) {
	c := param.Checker{Package: "pipelines"}
	names, err := p.stages(until)
	c.Add(err)
	c.Require(err != nil || len(names) > 0, "until", until, "must be a later stage: numbered examples are not bounded")
	c.Add(p.Validate())
	o.validate(&c)
	c.Require(!o.translates(), "dry_run", true, "translates the job of one stage: give it to the commands of the stages")
	inputs := map[string]manifest.Digest{}
	if p.Graph != nil && len(p.Graph.Paths) > 0 && p.bound().Validate() == nil {
		source, err := graphio.Open(ctx, p.Graph.Paths, p.Graph.options())
		c.Add(err)
		if err == nil {
			inputs["graph"], err = graphDigest(source)
			c.Add(err)
		}
	}
	if p.Strategy.fromFile() {
		inputs["workload"], err = fileDigest(p.Strategy.Workload)
		c.Add(err)
	}
	if err := once(c.Err()); err != nil {
		return nil, nil, err
	}
	record, err := p.record(inputs)
	return names, record, err
}

// record is the plan as run.json has it: without the places of key, directory and inputs, and with the inputs' hashes.
func (p Plan) record(inputs map[string]manifest.Digest) (*manifest.RunPlan, error) {
	p.Key, p.Out = "", ""
	if p.Graph != nil {
		g := *p.Graph
		g.Paths = nil
		p.Graph = &g
	}
	var r manifest.RunPlan
	var err error
	r.Plan, r.SHA256, err = manifest.Params(struct {
		Plan
		Inputs map[string]manifest.Digest `json:"inputs,omitempty"`
	}{p, inputs})
	return &r, err
}

// graphDigest hashes the hashes of a graph's files, in their order.
func graphDigest(source *graphio.Source) (manifest.Digest, error) {
	all := sha256.New()
	last := ""
	for _, split := range source.Splits() {
		if split.Path == last {
			continue
		}
		last = split.Path
		one, err := fileDigest(split.Path)
		if err != nil {
			return one, err
		}
		all.Write(one[:])
	}
	return manifest.Digest(all.Sum(nil)), nil
}

func fileDigest(path string) (d manifest.Digest, err error) {
	f, err := store.Open(context.Background(), path)
	if err != nil {
		return d, err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, store.Reader(f))
	return manifest.Digest(sum.Sum(nil)), err
}

// take makes the directory the plan's, with a new run.json, or finds that it is.
func (o Options) take(record *manifest.RunPlan) (run manifest.Run, made bool, err error) {
	root, err := stream.ReadKeyFile(o.KeyFile)
	if err != nil {
		return run, false, err
	}
	committed := func(id stream.RunID) *manifest.RunPlan {
		r := *record
		r.KeyCommitment = manifest.Digest(root.Key(id, r.SHA256, planPurpose).Commitment())
		return &r
	}
	var old *manifest.Run
	run, err = manifest.ReadRun(o.Out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return run, false, err
	}
	if err == nil {
		differs := o.differences(run, committed(run.RunID))
		if differs == nil {
			return run, false, nil
		}
		if !o.Overwrite {
			return run, false, refuse(o.Out, "is of another plan", differs)
		}
		if o.RunID == run.RunID {
			return run, false, &ParamError{Package: "pipelines", Param: "run id", Value: o.RunID, Rule: "must be another one, or left out: it serves another plan already"}
		}
		old = &manifest.Run{RunID: run.RunID}
	}
	run = manifest.Run{Format: manifest.RunFormat, Version: manifest.Version, RunID: o.RunID}
	if run.RunID == (stream.RunID{}) {
		run.RunID = stream.NewRunID()
	}
	run.Plan = committed(run.RunID)
	if o.DryRun {
		return run, true, nil
	}
	return run, true, manifest.WriteRun(o.Out, run, old)
}

// differences says what of a run directory is not this plan's; nil is nothing.
func (o Options) differences(run manifest.Run, want *manifest.RunPlan) (list []string) {
	if o.RunID != (stream.RunID{}) && o.RunID != run.RunID {
		list = append(list, fmt.Sprintf("its run id is %v", run.RunID))
	}
	switch {
	case run.Plan == nil:
		list = append(list, "its stages were run one by one")
	case run.Plan.SHA256 != want.SHA256:
		list = append(list, jsonDifferences(run.Plan.Plan, want.Plan)...)
	case run.Plan.KeyCommitment != want.KeyCommitment:
		list = append(list, "its root key is another one")
	}
	return list
}

// refuse is the error for a result that is not the plan's.
func refuse(path, what string, differs []string) error {
	return &ParamError{Package: "pipelines", Param: "out", Value: path, Rule: what + ": " + strings.Join(differs, "; ") + "; give another --out, or --overwrite"}
}

// removeEmptyRun removes a run directory in which nothing is but run.json and the lock.
func removeEmptyRun(dir string) error {
	entries, err := store.List(context.Background(), dir)
	entries = slices.DeleteFunc(entries, func(e store.Entry) bool { return e.Name == LockName })
	if err != nil || len(entries) > 1 {
		return err
	}
	return manifest.RemoveRun(dir)
}

// planRun is a plan while it runs.
type planRun struct {
	plan    Plan
	options Options
	run     manifest.Run
	how     PlanRun
	result  PlanResult

	pending bool // in a dry run: a stage before this one is not done, so that no more can be said
}

// stage runs a stage, or skips it.
func (r *planRun) stage(ctx context.Context, name string) error {
	begin := time.Now()
	if r.how.Watch != nil {
		defer r.how.Watch(name)()
	}
	s := r.stageOf(name)
	state, err := r.advance(ctx, s)
	if err != nil {
		return err
	}
	done := PlanStage{Stage: name, State: state, Path: s.path}
	if state == StageDone || state == StageSkipped {
		if done.Files, err = s.report(ctx); err != nil {
			return err
		}
	}
	done.Seconds = time.Since(begin).Seconds()
	r.result.Stages = append(r.result.Stages, done)
	return nil
}

func (r *planRun) advance(ctx context.Context, s planStage) (state string, err error) {
	if r.pending {
		return StageToDo, nil
	}
	there, differs, err := s.look(ctx)
	switch {
	case err != nil:
		return "", err
	case there && differs == nil:
		return StageSkipped, nil
	case there && !r.options.Overwrite:
		return "", refuse(s.path, "holds another result", differs)
	case r.options.DryRun:
		r.pending = true
		if there {
			return StageReplace, nil
		}
		return StageToDo, nil
	}
	o := r.options
	o.RunID = r.run.RunID
	if err := s.run(ctx, o); err != nil {
		return "", err
	}
	there, differs, err = s.look(ctx)
	if err == nil && (!there || differs != nil) {
		err = fmt.Errorf("pipelines: %s: what was just made does not match: %s", s.path, strings.Join(slices.Concat(differs, []string{"was it changed meanwhile?"}), "; "))
	}
	return StageDone, err
}
