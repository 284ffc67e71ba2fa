// Package pipelines runs minsep's stages, from a graph to a run directory. Each stage is a
// parameter struct with Validate and Run. Parameters change the result, and are hashed into its
// keys and its index. [Options] say where and how a stage runs, and change nothing. [RunPlan] runs
// all stages of a plan.
//
// Inside, an engine runs the Beam jobs of a stage, and a directory is the run directory in which
// the stage writes.
//
// A program that runs stages on another runner than [DefaultRunner] imports that runner, such as by
// Beam's package beamx; minsep's command imports all, and the object stores.
package pipelines

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"minsep/internal/param"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/stream"
)

// DefaultRunner runs pipelines in this process.
const DefaultRunner = "direct"

// Runners are the names of Beam's runners.
var Runners = []string{"direct", "prism", "flink", "dataflow", "spark", "universal"}

// Untested are the [Runners] that no test of this module runs.
var Untested = []string{"spark", "universal"}

// Options are the settings of a stage besides its parameters. They never change its result.
type Options struct {
	Runner  string       // a Beam runner; "" is DefaultRunner
	Out     string       // the run directory
	KeyFile string       // the root key's file, readable by every worker
	DryRun  bool         // validate, look at the input, write nothing
	WorkDir string       // of temporary files, on every worker; "" for the system's
	Log     *slog.Logger // nil: no logs. Logs name no example, owner or key, and no size that is secret

	Held bool // the caller holds the lock of Out, while several stages run; else the stage takes it
}

// Validate records the faults of the options of every stage with a key.
func (o Options) Validate(c *param.Checker) {
	o.validateJob(c)
	const wayOut = "give the key with which the run directory was made, by a whole path or one from the folder in which the command runs, or make one for a new directory by `minsep keygen`"
	_, err := stream.ReadKeyFile(o.KeyFile)
	switch {
	case o.KeyFile == "":
		err = param.Fault("key", `""`, "must name a key file: "+wayOut)
	case errors.As(err, new(*param.Error)):
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		err = param.Fault("key", o.KeyFile, "cannot be read: %v; "+wayOut, errors.Unwrap(err))
	}
	c.Add(err)
}

// validateJob records the faults of the runner and of the place of results.
func (o Options) validateJob(c *param.Checker) {
	e := o.engine()
	c.Require(
		slices.Contains(Runners, e.runner),
		"runner",
		e.runner,
		"must be one of "+strings.Join(Runners, ", "),
	)
	c.Require(
		!e.portable() || o.DryRun || beamFlag("endpoint") != "",
		"endpoint",
		`""`,
		"must name the job server of runner "+e.runner+", such as localhost:8099",
	)
	c.Require(o.Out != "", "out", `""`, "must name the run directory")
	c.Require(!strings.HasPrefix(o.Out, "~"), "out", o.Out, "must be a whole path, or one from the folder in which the command runs: only shells replace ~")
	c.Require(!isFile(o.Out), "out", o.Out, "must be a run directory, and is a file")
	for _, s := range stages.All {
		folder := s.Folder()
		c.Require(
			!isLink(o.Out, folder),
			"out",
			store.Join(o.Out, folder),
			"is a link, where a folder must be: what is written there would be outside of the run directory; put the whole run directory on the other disk, and remove the link",
		)
	}
	// A result is published by this process, so it must outlive the job.
	c.Require(
		beamFlag("async") != "true",
		"async",
		true,
		"cannot be used: the command waits for the job, and then publishes what it made",
	)
	c.Require(
		beamFlag("template_location") == "",
		"template_location",
		beamFlag("template_location"),
		"cannot be used: the command waits for the job, and then publishes what it made; let a schedule start the command itself, as in deploy/dataflow and deploy/airflow",
	)
	if e.runner == "dataflow" {
		c.Require(
			e.translates || o.DryRun || o.Out == "" || store.Shared(o.Out),
			"out",
			o.Out,
			"must be in an object store, such as gs://bucket/run: the workers of Dataflow do not see local files",
		)
	} else {
		c.Require(
			beamFlag("dry_run") != "true",
			"dry_run",
			true,
			"is for --runner dataflow; --dry-run checks everything and writes nothing, with any runner",
		)
	}
}

// isLink reports whether a folder of a run directory on this machine is a link.
func isLink(out, folder string) bool {
	if out == "" || store.Shared(out) {
		return false
	}
	info, err := os.Lstat(store.Join(out, folder))
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// isFile reports whether a path leads to a file on this machine.
func isFile(path string) bool {
	if path == "" || store.Shared(path) {
		return false
	}
	info, err := store.Stat(context.Background(), path)
	return err == nil && !info.Dir
}

// validateInput records inputs that workers must read and cannot reach.
func (o Options) validateInput(c *param.Checker, name string, paths ...string) {
	if e := o.engine(); e.runner != "dataflow" || e.translates || o.DryRun {
		return
	}
	for _, path := range paths {
		c.Require(
			path == "" || store.Shared(path),
			name,
			path,
			"must be in an object store: the workers of Dataflow do not see local files",
		)
	}
}

// Translates reports whether jobs are translated for Dataflow and do not run.
func (o Options) Translates() bool { return o.engine().translates }
