// Package pipelines assembles minsep's stages: graph in, directory out. Each stage is a parameter struct with
// Validate and Run. Parameters change the result and are hashed into its keys and index; [Options] say where and
// how to run and change nothing.
//
// A program that runs stages on another runner than [DefaultRunner] imports that runner, such as by Beam's package beamx; minsep's
// command imports all, and the object stores.
//
// Stability: may change with every release.
package pipelines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/manifest"
	"minsep/sampling/stream"
	"minsep/stages"
)

// ParamError is a parameter that a stage refuses.
type ParamError = param.Error

// DefaultRunner runs pipelines in this process.
const DefaultRunner = "direct"

// Runners are the names of Beam's runners.
var Runners = []string{"direct", "prism", "flink", "dataflow", "spark", "universal"}

// Untested are those of [Runners] that no test of this module runs.
var Untested = []string{"spark", "universal"}

func (o Options) runner() string {
	if o.Runner == "" {
		return DefaultRunner
	}
	return o.Runner
}

// Options are what a stage takes besides its parameters. They never change its result.
type Options struct {
	Runner    string       // a Beam runner; "" is DefaultRunner
	Out       string       // the run directory
	KeyFile   string       // the root key's file, readable by every worker
	RunID     stream.RunID // zero: the run directory's own, or a fresh one
	Overwrite bool         // replace a finished result
	DryRun    bool         // validate, look at the input, write nothing
	WorkDir   string       // of temporary files, on every worker; "" for the system's
	Log       *slog.Logger // nil: no logs. What is logged names no example, owner or key, and no size that is secret

	// Replaced are results in the run directory that a plan makes again after the stage that runs: they are not looked at.
	Replaced []string

	Faults error // of the command line, to be told with those of the parameters; nil for none

	locked bool // the run directory is this process's alone
}

// Validate records the faults of the options that every stage with an output has.
func (o Options) Validate(c *param.Checker) {
	o.validateJob(c)
	if o.KeyFile == "" {
		c.Require(false, "key", `""`, "must name a key file; make one with `minsep keygen`")
	} else if _, err := stream.ReadKeyFile(o.KeyFile); err != nil {
		if _, bad := errors.AsType[*param.Error](err); !bad && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
			err = &ParamError{Package: "pipelines", Param: "key", Value: o.KeyFile, Rule: "cannot be read: " + errors.Unwrap(err).Error()}
		}
		c.Add(err)
	}
}

// validateJob records the faults of where a job runs and where its results go.
func (o Options) validateJob(c *param.Checker) {
	c.Add(o.Faults)
	c.Require(slices.Contains(Runners, o.runner()), "runner", o.runner(), "must be one of "+strings.Join(Runners, ", "))
	switch o.runner() {
	case "flink", "spark", "universal":
		c.Require(o.DryRun || beamFlag("endpoint") != "", "endpoint", `""`, "must name the job server of runner "+o.runner()+", such as localhost:8099")
	}
	c.Require(o.Out != "", "out", `""`, "must name the run directory")
	for _, name := range strings.Split(o.Out, "/") {
		c.Require(len(name) <= maxName, "out", fmt.Sprintf("…/%.20s…", name), fmt.Sprintf("has a name of %d bytes: a file system takes %d", len(name), maxName))
	}
	c.Require(beamFlag("async") != "true", "async", true, "cannot be used: the command waits for the job, and then publishes what it made")
	c.Require(beamFlag("template_location") == "", "template_location", beamFlag("template_location"), "cannot be used: the command waits for the job, and then publishes what it made")
	if o.runner() == "dataflow" {
		c.Require(o.Translates() || o.DryRun || o.Out == "" || store.Shared(o.Out), "out", o.Out, "must be in an object store, such as gs://bucket/run: the workers of Dataflow do not see local files")
	} else {
		c.Require(beamFlag("dry_run") != "true", "dry_run", true, "is for --runner dataflow; --dry-run checks everything and writes nothing, with any runner")
	}
}

// maxName is how many bytes a file system takes in a name.
const maxName = 255

// validateInput records inputs that workers read and cannot reach.
func (o Options) validateInput(c *param.Checker, name string, paths ...string) {
	if o.runner() != "dataflow" || o.Translates() || o.DryRun {
		return
	}
	for _, path := range paths {
		c.Require(path == "" || store.Shared(path), name, path, "must be in an object store: the workers of Dataflow do not see local files")
	}
}

// mayWrite returns the error that a stage would meet because its folder holds a result.
func (o Options) mayWrite(folder string) error {
	dir := store.Join(o.Out, folder)
	if _, err := manifest.Read(context.Background(), dir); err == nil && !o.Overwrite {
		return fmt.Errorf("pipelines: folder %s: %w", dir, manifest.ErrExists)
	}
	return nil
}

// write runs a stage's work in its folder of the run directory: begin, work, publish; after a failure
// the folder is as empty as before.
func (o Options) write(folder string, secret bool, work func(run manifest.Run, stage *manifest.Stage) (manifest.Index, error)) (err error) {
	o, unlock, err := o.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	run, made, err := manifest.OpenRun(o.Out, o.RunID)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && made && !errors.Is(err, errLeft) {
			err = errors.Join(err, manifest.RemoveRun(o.Out))
		}
	}()
	stage, err := manifest.Begin(store.Join(o.Out, folder), secret, o.Overwrite)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && !errors.Is(err, errLeft) {
			err = withoutRoom(err, store.Join(o.Out, folder), "nothing is left of the result; make room, or give another --out, and repeat the command")
			err = errors.Join(err, stage.Abort())
		}
	}()
	index, err := work(run, stage)
	if err != nil {
		return err
	}
	index.RunID = run.RunID
	return stage.Publish(index)
}

// present reads what is in the run directory, but for own, which the command itself makes, and for what a plan makes again after it.
func (o Options) present(ctx context.Context, own string) (stages.Present, error) {
	if o.Translates() { // nothing is read or written there
		return stages.Present{}, nil
	}
	return stages.ReadPresent(ctx, o.Out, append(slices.Clone(o.Replaced), own)...)
}
