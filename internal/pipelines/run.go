package pipelines

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"minsep/internal/accounting"
	"minsep/internal/digest"
	"minsep/internal/graphio"
	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/param"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/stream"
)

// Settings says how far a plan runs, and who is told.
type Settings struct {
	Until string                           `flag:"until" help:"stop after this stage"`                                                                             // "" for all
	Again string                           `flag:"again" help:"new directory of another run, which takes over table, strategy and certificate if they still hold"` // a new directory, which takes over from the plan's own the table, the strategy and the certificate if they still hold; "" for none
	Watch func(stage string) (stop func()) // nil, or called when a stage begins; stop is called when it ends
}

// RunResult is the result of a run of a plan. All of it is public: sizes of batches, and of
// their files, are not in it.
type RunResult struct {
	RunID      string          `json:"run_id,omitempty"`
	Earlier    []stream.RunID  `json:"earlier_run_ids,omitempty"` // runs from which this one has taken over
	Out        string          `json:"out"`                       // run directory
	PlanSHA256 manifest.Digest `json:"plan_sha256"`               // of Plan
	Plan       json.RawMessage `json:"plan"`                      // as in run.json
	Stages     []StageRun      `json:"stages"`                    // in their order
	Seconds    float64         `json:"seconds"`                   // of time, at least 0

	Figures
}

// States of a stage.
const (
	StageDone    = "done"
	StageSkipped = "skipped"   // its result was there
	StageToDo    = "to do"     // of a dry run
	StageTaken   = "take over" // of a dry run: the earlier directory has the result
	StageResume  = "resume"    // of a dry run: part of the result is there, and is kept
)

// StageRun is a stage of a run.
type StageRun struct {
	Stage   string  `json:"stage"`           // its name
	State   string  `json:"state"`           // one of the States
	Path    string  `json:"path"`            // of its result
	Files   int     `json:"files,omitempty"` // that it wrote
	Seconds float64 `json:"seconds"`         // of time, at least 0

	Estimate *stages.PlanEstimate `json:"estimate,omitempty"`  // of a dry run
	Aside    []string             `json:"set_aside,omitempty"` // of a dry run: how unfinished work differs that would be set aside
}

// RunPlan runs the plan's stages in the run directory. A stage is skipped if its result is there and
// matches. A stopped stage goes on, or begins again if it cannot. A result that does not match is
// refused, with the differences, and so is another plan in the directory.
func RunPlan(ctx context.Context, p stages.Plan, o Options, how Settings) (RunResult, error) {
	p.Out = cmp.Or(o.Out, p.Out)
	from := ""
	if how.Again != "" {
		from, p.Out = p.Out, how.Again
	}
	if o.KeyFile == "" {
		o.KeyFile = p.Key
	}
	o.Out = p.Out
	if err := checkOut(o.Out); err != nil {
		return RunResult{}, err
	}
	// All that can be refused is refused before the first byte is written, and faults of single fields
	// before combinations: Preflight needs valid fields.
	names, inputs, err := check(ctx, p, o, how)
	if err != nil {
		return RunResult{}, err
	}
	// A claim that no analysis covers is refused now, and not after hours of bounding.
	if err := p.Preflight(); err != nil {
		return refused(p, err), err
	}
	var before *earlierRun
	if how.Again != "" {
		if before, err = openEarlier(ctx, from, p, o, inputs); err != nil {
			return RunResult{}, err
		}
		if err := refuseStrangers(ctx, from); err != nil {
			return RunResult{}, err
		}
	}
	// The record has the inputs' digests, so that other data under the same names are another plan.
	record, err := p.Record(inputs)
	if err != nil {
		return RunResult{}, err
	}
	// One lock for all stages: between two of them no other command may write to the directory.
	if !o.DryRun {
		release, err := manifest.TakeLock(o.Out)
		if err != nil {
			return RunResult{}, err
		}
		defer release()
		o.Held = true
	}
	// Under the lock: from here on nobody else changes the directory.
	if err := refuseStrangers(ctx, o.Out); err != nil {
		return RunResult{}, err
	}
	if err := fits(ctx, p, o, names); err != nil {
		return RunResult{}, err
	}
	t, err := take(ctx, p, o, record, before)
	if err != nil {
		return RunResult{}, err
	}
	r := &planRun{
		Directory: &stages.Directory{Out: o.Out, Plan: p, Inputs: inputs, Run: t.run, KeyFile: o.KeyFile},
		options:   o,
		how:       how,
		result: RunResult{
			RunID:      t.run.RunID.String(),
			Earlier:    t.run.Earlier,
			Out:        o.Out,
			PlanSHA256: t.run.Plan.SHA256,
			Plan:       t.run.Plan.Plan,
		},
	}
	if p.Noise.Grid == noise.NoGrid {
		r.result.Warning = stages.FloatingPointOpen
	}
	if o.DryRun && t.made {
		r.result.RunID = "" // the run will have another one
	}
	err = r.all(ctx, t, before, names)
	return r.result, err
}

// refused is the result of a plan with a claim that cannot be certified.
func refused(p stages.Plan, err error) RunResult {
	result := RunResult{Out: p.Out}
	if errors.As(err, new(*accounting.RefusedError)) {
		result.NotCertified = &AccountResult{
			Out:     p.Out,
			Epsilon: p.Privacy.Epsilon,
			Delta:   p.Privacy.Delta,
		}
	}
	return result
}

// checkOut checks where a run directory is to be; "" where a plan must say it.
func checkOut(out string) error {
	if out == "" {
		return nil
	}
	err := store.Check(out) // each file in it would have the same fault
	var bad *param.Error
	if errors.As(err, &bad) {
		bad.Param, bad.Field = "out", "out"
	}
	return err
}

// all runs the stages of a plan in order.
func (r *planRun) all(ctx context.Context, t taken, before *earlierRun, names []string) error {
	o, begin := r.options, time.Now()
	if err := r.takeOver(ctx, before, names); err != nil {
		return err
	}
	for i, name := range names {
		if err := r.stage(ctx, name); err != nil {
			err = stages.InPlan(stages.Named(name).Group, err)
			// A plan that failed at its first stage leaves nothing: a corrected plan may use the same
			// directory.
			if t.made && i == 0 && !o.DryRun && ctx.Err() == nil {
				err = errors.Join(err, r.removeEmptyRun())
			}
			return err
		}
	}
	// Before the last stage is done, a stopped stage may go on from some temporary files.
	if all, err := r.Plan.Stages(""); err == nil && !o.DryRun && len(names) > 0 && names[len(names)-1] == all[len(all)-1] {
		if err := manifest.RemoveTemporary(o.Out); err != nil {
			return err
		}
	}
	r.result.Seconds = time.Since(begin).Seconds()
	return nil
}

// fits refuses a plan with more batches and noise than the free space holds, before the first
// stage.
func fits(ctx context.Context, p stages.Plan, o Options, names []string) error {
	if o.DryRun { // which may be for another machine
		return nil
	}
	bytes, folders := int64(0), []string(nil)
	for _, s := range stages.All {
		if s.Sized && slices.Contains(names, s.Name) {
			bytes += p.Estimate(s.Name).Bytes
			folders = append(folders, s.Folder())
		}
	}
	return stages.InPlan("", HasRoom(ctx, o.Out, bytes, folders...))
}

// refuseStrangers refuses a run directory with files that could be taken for a part of the run.
func refuseStrangers(ctx context.Context, out string) error {
	names, err := stages.Strangers(ctx, out)
	if err == nil && names != nil {
		err = &param.Error{
			Param: "out",
			Value: out,
			Rule:  stages.Listed(names) + " " + stages.NotOfRun + stages.MoveAway,
		}
	}
	return err
}

// check checks everything that can be checked before the first stage, and hashes the inputs.
func check(
	ctx context.Context,
	p stages.Plan,
	o Options,
	how Settings,
) (names []string, inputs map[string]manifest.Digest, err error) {
	c := param.Checker{}
	names, err = p.Stages(how.Until)
	c.Add(err)
	c.Require(
		err != nil || len(names) > 0,
		"until",
		how.Until,
		"must be a later stage: numbered examples are not bounded",
	)
	c.Add(p.Validate())
	o.Validate(&c)
	c.Require(
		!o.Translates(),
		"dry_run",
		true,
		"translates the job of one stage: give it to the commands of the stages",
	)
	inputs = map[string]manifest.Digest{}
	if p.Graph != nil && len(p.Graph.Paths) > 0 && stages.BoundOf(p).Validate() == nil {
		source, err := graphio.Open(ctx, p.Graph.Paths, p.Graph.Options)
		c.Add(inPlanWords(err))
		if err == nil {
			p.Graph.SetStamp(source.Stamp()) // the stage refuses a graph that was changed after the check
			inputs["graph"], err = source.Digest(ctx)
			c.Add(inPlanWords(err))
		}
	}
	if path := p.Strategy.WorkloadFile(); path != "" {
		if err = stages.FindWorkloadFile(ctx, p.Strategy); err == nil {
			inputs["workload"], err = fileDigest(ctx, path)
		}
		c.Add(err)
	}
	return names, inputs, stages.EachOnce(stages.InPlan("", c.Err()))
}

// planRun is a plan while it runs.
type planRun struct {
	*stages.Directory
	options Options
	how     Settings
	result  RunResult

	taken []string // stages with results that the earlier run's directory has

	pending bool // in a dry run: a stage before this one is not done, so that no more can be said
}

// stage runs a stage, or skips it.
func (r *planRun) stage(ctx context.Context, name string) error {
	begin := time.Now()
	if r.how.Watch != nil {
		defer r.how.Watch(name)()
	}
	s := r.stageOf(name)
	done := StageRun{Stage: name}
	state, err := r.advance(ctx, s, &done)
	if err != nil {
		return err
	}
	if !r.options.DryRun {
		if err := r.keep(ctx, s); err != nil {
			return err
		}
	}
	done.State, done.Path = state, s.Path()
	if r.options.DryRun {
		e := r.Plan.Estimate(name)
		if s.inPlan.Forecast != nil && state != StageSkipped && state != StageTaken {
			if err := s.inPlan.Forecast(ctx, r.Plan, &e); err != nil {
				return err
			}
		}
		done.Estimate = &e
	}
	if state == StageDone || state == StageSkipped {
		if done.Files, err = r.report(ctx, s); err != nil {
			return err
		}
	}
	done.Seconds = time.Since(begin).Seconds()
	r.result.Stages = append(r.result.Stages, done)
	return nil
}

// foresee returns the state of a stage in a dry run, where the stage has no result, and how
// unfinished work differs that it would set aside.
func (r *planRun) foresee(ctx context.Context, s planStage) (state string, aside []string, err error) {
	r.pending = true
	resumes, differs, err := s.Unfinished(ctx)
	if resumes && differs == nil {
		return StageResume, nil, err
	}
	return StageToDo, differs, err
}

// advance does the next thing for a stage: it skips, runs or refuses it, or in a dry run says
// which. A dry run also sets Aside of done.
func (r *planRun) advance(ctx context.Context, s planStage, done *StageRun) (state string, err error) {
	// In a dry run nothing is made, so a stage after an unfinished one has no inputs to compare with.
	if slices.Contains(r.taken, s.Name) && r.options.DryRun {
		return StageTaken, nil
	}
	if r.pending {
		return StageToDo, nil // whether a part of it can be kept is known when those before it are done
	}
	there, differs, err := r.Compare(ctx, s.Result)
	switch {
	case err != nil:
		return "", err
	case there && differs == nil:
		return StageSkipped, nil
	case there:
		return "", refuse(s.Path(), "holds another result", differs)
	case r.options.DryRun:
		state, done.Aside, err = r.foresee(ctx, s)
		return state, err
	}
	if err := r.canMake(s); err != nil {
		return "", err
	}
	if err := s.inPlan.Run(ctx, r.Directory, r.options, &r.result.Figures); err != nil {
		return "", inPlanWords(err)
	}
	watched, failures := store.WatchFailures(ctx)
	// The result is compared as any later command will compare it: a stage that writes something else
	// than the plan asks for must not be taken for done.
	there, differs, err = s.Compare(watched)
	if failed := failures.Err(); failed != nil {
		err = fmt.Errorf(
			"%s: it was made, but could not be read again: repeat the command, which goes on from there: %w",
			s.Path(),
			failed,
		)
	}
	if err == nil && (!there || differs != nil) {
		err = fmt.Errorf(
			"%s: the result just made does not match: %s",
			s.Path(),
			strings.Join(slices.Concat(differs, []string{"was it changed meanwhile?"}), "; "),
		)
	}
	return StageDone, err
}

// planStage is a stage of the plan with its result.
type planStage struct {
	stages.Result
	inPlan InPlan
}

// stageOf returns the stage of a name.
func (r *planRun) stageOf(name string) planStage {
	return planStage{r.Result(name), inPlans[name]}
}

// report takes the figures of a finished result, and returns the number of its files.
func (r *planRun) report(ctx context.Context, s planStage) (files int, err error) {
	if s.inPlan.Report != nil {
		if err := s.inPlan.Report(ctx, r.Directory, &r.result.Figures); err != nil {
			return 0, err
		}
	}
	if s.Formats == nil {
		return 1, nil
	}
	ix, err := manifest.Read(ctx, s.Path())
	if err != nil {
		return 0, err
	}
	return len(ix.Files), nil
}

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
	now, err := r.Vouching(ctx, s.Result)
	if err != nil {
		return err
	}
	was, there := r.Run.Stages[s.Name]
	if there && maps.Equal(was, now) {
		return nil
	}
	// Noise that was lost is made anew, with random bytes of its own.
	if there && s.Name != "noise" {
		return refuse(s.Path(), "is not the result that run.json names", nil)
	}
	all := maps.Clone(r.Run.Stages)
	if all == nil {
		all = map[string]map[string]manifest.Digest{}
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
