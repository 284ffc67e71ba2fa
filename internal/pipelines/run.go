package pipelines

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
)

// StageRun is a stage of a run.
type StageRun struct {
	Stage   string  `json:"stage"`           // its name
	State   string  `json:"state"`           // one of the States
	Path    string  `json:"path"`            // of its result
	Files   int     `json:"files,omitempty"` // that it wrote
	Seconds float64 `json:"seconds"`         // of time, at least 0

	Estimate *stages.PlanEstimate `json:"estimate,omitempty"` // of a dry run
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
	run, made, err := take(ctx, p, o, record, how.Again != "", from)
	if err != nil {
		return RunResult{}, err
	}
	r := &planRun{
		Directory: &stages.Directory{Out: o.Out, Plan: p, Run: run},
		options:   o,
		made:      made,
		result: RunResult{
			RunID:      run.RunID.String(),
			Earlier:    run.Earlier,
			Out:        o.Out,
			PlanSHA256: run.Plan.SHA256,
			Plan:       run.Plan.Plan,
		},
	}
	if p.Noise.Grid == noise.NoGrid {
		r.result.Warning = stages.FloatingPointOpen
	}
	if o.DryRun && made {
		r.result.RunID = "" // the run will have another one
	}
	err = r.all(ctx, names, how.Watch)
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

// planRun is a plan while it runs.
type planRun struct {
	*stages.Directory
	options Options
	made    bool // the run is a new one
	result  RunResult
	pending bool // in a dry run: a stage before this one is not done, so that no more can be said
}

// all runs the stages of a plan in order.
func (r *planRun) all(ctx context.Context, names []string, watch func(stage string) (stop func())) error {
	begin := time.Now()
	for i, name := range names {
		stop := func() {}
		if watch != nil {
			stop = watch(name)
		}
		err := r.stage(ctx, stages.Named(name))
		stop()
		if err != nil {
			err = stages.InPlan(stages.Named(name).Group, err)
			// A plan that failed at its first stage leaves nothing: a corrected plan may use the same
			// directory.
			if r.made && i == 0 && !r.options.DryRun && ctx.Err() == nil {
				err = errors.Join(err, r.removeEmptyRun())
			}
			return err
		}
	}
	// Before the last stage is done, a stopped stage may go on from some temporary files.
	if all, err := r.Plan.Stages(""); err == nil && !r.options.DryRun && len(names) == len(all) {
		if err := manifest.RemoveTemporary(r.Out); err != nil {
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
		if s.Secret && slices.Contains(names, s.Name) {
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
	if path := p.Strategy.ScheduleFile(); path != "" {
		if err = stages.FindScheduleFile(ctx, p.Strategy); err == nil {
			inputs["schedule"], err = fileDigest(ctx, path)
		}
		c.Add(err)
	}
	return names, inputs, stages.EachOnce(stages.InPlan("", c.Err()))
}

// stage runs a stage, or skips it. A dry run says what would be done.
func (r *planRun) stage(ctx context.Context, s *stages.Stage) (err error) {
	begin, inPlan := time.Now(), inPlans[s.Name]
	done := StageRun{Stage: s.Name}
	if done.State, err = r.advance(ctx, s, inPlan); err != nil {
		return err
	}
	done.Path = r.Path(s)
	if r.options.DryRun {
		e := r.Plan.Estimate(s.Name)
		if inPlan.Forecast != nil && done.State == StageToDo {
			if err := inPlan.Forecast(ctx, r.Plan, &e); err != nil {
				return err
			}
		}
		done.Estimate = &e
	} else if err := r.keep(ctx, s); err != nil {
		return err
	}
	if done.State == StageDone || done.State == StageSkipped {
		if done.Files, err = r.report(ctx, s, inPlan); err != nil {
			return err
		}
	}
	done.Seconds = time.Since(begin).Seconds()
	r.result.Stages = append(r.result.Stages, done)
	return nil
}

// advance skips, runs or refuses a stage, or in a dry run says which, and returns the stage's state.
func (r *planRun) advance(ctx context.Context, s *stages.Stage, inPlan InPlan) (state string, err error) {
	dry := r.options.DryRun
	_, named := r.Run.Stages[s.Name]
	switch {
	case dry && r.made && named:
		return StageTaken, nil
	case dry && (r.made || r.pending): // nothing is made, so this stage has no inputs to compare with
		return StageToDo, nil
	}
	there, differs, err := r.Compare(ctx, s)
	switch {
	case err != nil:
		return "", err
	case there && differs == nil:
		return StageSkipped, nil
	case there:
		return "", refuse(r.Path(s), "holds another result", differs)
	case dry:
		r.pending = true
		return StageToDo, nil
	case named && len(r.Run.Earlier) > 0 && s.Formats != nil && !s.Secret:
		// Under the present run id it would be another result, and the certificate and the batches would
		// not belong to it.
		return "", param.Fault(
			"out",
			r.Path(s),
			"is missing or damaged, and cannot be made again as it was, since it was taken over from an earlier run: put it back, or give another --out",
		)
	}
	return StageDone, inPlanWords(inPlan.Run(ctx, r.Plan, r.options, &r.result.Figures))
}

// report takes the figures of a finished result, and returns the number of its files.
func (r *planRun) report(ctx context.Context, s *stages.Stage, inPlan InPlan) (files int, err error) {
	if inPlan.Report != nil {
		if err := inPlan.Report(ctx, r.Plan, &r.result.Figures); err != nil {
			return 0, err
		}
	}
	if s.Formats == nil {
		return 1, nil
	}
	ix, err := manifest.Read(ctx, r.Path(s))
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
func (r *planRun) keep(ctx context.Context, s *stages.Stage) error {
	now, err := r.Vouching(ctx, s)
	if err != nil {
		return err
	}
	was, there := r.Run.Stages[s.Name]
	if there && maps.Equal(was, now) {
		return nil
	}
	// Noise that was lost is made anew, with random bytes of its own.
	if there && s.Name != "noise" {
		return refuse(r.Path(s), "is not the result that run.json names", nil)
	}
	// The stage may have written the run's examples.
	before, err := manifest.ReadRun(ctx, r.Out)
	if err != nil {
		return err
	}
	r.Run = before
	r.Run.Stages = map[string]map[string]manifest.Digest{s.Name: now}
	for name, files := range before.Stages {
		if name != s.Name {
			r.Run.Stages[name] = files
		}
	}
	return manifest.WriteRun(r.Out, r.Run, &before)
}
