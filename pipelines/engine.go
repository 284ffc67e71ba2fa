// Package pipelines assembles minsep's stages: graph in, directory out. Each stage is a parameter struct with
// Validate and Run. Parameters change the result and are hashed into its keys and index; [Options] say where and
// how to run and change nothing.
package pipelines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	beamlog "github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx" // every runner

	"minsep/internal/param"
	"minsep/pipelines/manifest"
	"minsep/sampling/stream"
)

// ParamError is a parameter that a stage refuses.
type ParamError = param.Error

// DefaultRunner runs pipelines in this process.
const DefaultRunner = "direct"

// Runners are the names of Beam's runners.
var Runners = []string{"direct", "prism", "flink", "dataflow", "spark", "universal"}

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
	Log       *slog.Logger // nil: no logs
}

func (o Options) logger() *slog.Logger {
	if o.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Log
}

// validate records the faults of the options that every stage with an output has.
func (o Options) validate(c *param.Checker) {
	c.Require(slices.Contains(Runners, o.runner()), "runner", o.runner(), "must be one of "+strings.Join(Runners, ", "))
	c.Require(o.Out != "", "out", `""`, "must name the run directory")
	if o.KeyFile == "" {
		c.Require(false, "key", `""`, "must name a key file; make one with `minsep keygen`")
	} else if _, err := stream.ReadKeyFile(o.KeyFile); err != nil {
		c.Add(err)
	}
}

// mayWrite returns the error that a stage would meet because its folder holds a result.
func (o Options) mayWrite(folder string) error {
	dir := filepath.Join(o.Out, folder)
	if _, err := manifest.Read(dir); err == nil && !o.Overwrite {
		return fmt.Errorf("pipelines: folder %s: %w", dir, manifest.ErrExists)
	}
	return nil
}

// run executes p and returns its metrics. Runners differ in what they return: some give no result for
// a job that was cancelled or not submitted, which is an error here, since the caller needs the job's output.
func (o Options) run(ctx context.Context, p *beam.Pipeline) (metrics.QueryResults, error) {
	runner := o.runner()
	beamlog.SetLogger(beamLogger{o.logger()})
	result, err := beam.Run(ctx, runner, p)
	if err != nil {
		return metrics.QueryResults{}, runnerError(runner, err)
	}
	if result == nil {
		return metrics.QueryResults{}, fmt.Errorf("pipelines: runner %s gave no result: the job was cancelled or only translated", runner)
	}
	return result.Metrics().AllMetrics(), ctx.Err()
}

// beamLogger passes Beam's warnings and errors on, and drops its chatter.
type beamLogger struct{ log *slog.Logger }

func (l beamLogger) Log(ctx context.Context, sev beamlog.Severity, _ int, msg string) {
	level := slog.LevelDebug
	if sev >= beamlog.SevError {
		level = slog.LevelError
	} else if sev >= beamlog.SevWarn {
		level = slog.LevelWarn
	}
	l.log.Log(ctx, level, msg, "from", "beam")
}

// write runs a stage's work in its folder of the run directory: begin, work, publish; after a failure
// the folder is as empty as before.
func (o Options) write(folder string, secret bool, work func(run manifest.Run, stage *manifest.Stage) (manifest.Index, error)) (err error) {
	run, made, err := manifest.OpenRun(o.Out, o.RunID)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && made {
			err = errors.Join(err, manifest.RemoveRun(o.Out))
		}
	}()
	stage, err := manifest.Begin(filepath.Join(o.Out, folder), secret, o.Overwrite)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
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
