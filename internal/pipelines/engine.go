package pipelines

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec/optimized" // functions without reflection
	beamlog "github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	//lint:ignore SA1019 deprecated, and still the fastest local runner
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct" // DefaultRunner
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
)

// ErrTranslated says that a job was translated for Dataflow, as --dry_run asks, and did not run.
// Nothing was written.
var ErrTranslated = errors.New("translated, not run")

// ErrLeft marks an error after which tasks of the job may still be writing: their output stays,
// marked as unfinished.
var ErrLeft = errors.New("the runner did not stop in time")

// stopTime is the time that a runner has to end after its job is told to stop. A runner in this
// process may not look before a task is done; the command then ends without it.
const (
	stopTime      = 5 * time.Second
	stopTimeLocal = 500 * time.Millisecond
)

// engine runs the Beam jobs of a stage.
type engine struct {
	runner     string       // one of Runners
	translates bool         // jobs are translated for Dataflow and not run
	workDir    string       // of temporary files, on every worker; "" for the system's
	log        *slog.Logger // not nil
}

// engine returns the engine of the options.
func (o Options) engine() engine {
	e := engine{cmp.Or(o.Runner, DefaultRunner), false, o.WorkDir, o.Log}
	e.translates = e.runner == "dataflow" && beamFlag("dry_run") == "true"
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	return e
}

// portable reports whether the runner is behind a job server, which the user must name.
func (e engine) portable() bool {
	switch e.runner {
	case "flink", "spark", "universal":
		return true
	}
	return false
}

// run executes p. When ctx ends, the job is cancelled, and run returns ctx's error.
//
// Runners differ in their results: some give no result for a job that was cancelled or not
// submitted, which is an error here, since the caller needs the job's output.
func (e engine) run(ctx context.Context, p *beam.Pipeline) error {
	job := &jobLog{log: e.log}
	ctxLog, end := beamLog.begin(ctx, job)
	defer end()
	e.log.Info("job begins", "runner", e.runner)
	begin := time.Now()
	type outcome struct {
		result beam.PipelineResult
		err    error
	}
	// The job's context has no deadline, and ends after the job: Prism panics when a worker meets
	// its deadline, or is gone too soon.
	within, cancel := context.WithCancel(context.WithoutCancel(ctxLog))
	defer cancel()
	ended := make(chan outcome, 1)
	go func() {
		result, err := beam.Run(within, e.runner, p)
		ended <- outcome{result, err}
	}()
	var got outcome
	var left error
	select {
	case got = <-ended:
	case <-ctx.Done():
		if err := job.cancel(e.runner); err != nil {
			e.log.Error(
				"job could not be cancelled, and may still write: end it there before the command is repeated",
				"runner",
				e.runner,
				"job",
				job.id(),
				"error",
				err,
			)
			left = ErrLeft
		}
		cancel()
		select {
		case got = <-ended:
		case <-time.After(patience(e.runner)): // not every runner looks at it
			left = ErrLeft
		}
	}
	switch {
	case ctx.Err() != nil:
		return stopped(ctx, left)
	case got.err != nil:
		return runnerError(e.runner, got.err)
	case got.result == nil && e.translates:
		return ErrTranslated
	case got.result == nil:
		return fmt.Errorf("runner %s: gave no result, because the job was cancelled there", e.runner)
	}
	e.log.Info("job ended", "runner", e.runner, "seconds", time.Since(begin).Seconds())
	for _, c := range got.result.Metrics().AllMetrics().Counters() {
		if c.Key.Namespace == "minsep" {
			e.log.Info("counter", "name", c.Key.Name, "total", c.Result())
		}
	}
	return nil
}

// patience returns the stopTime of a runner.
func patience(runner string) time.Duration {
	if runner == DefaultRunner {
		return stopTimeLocal
	}
	return stopTime
}

// stopped returns the error of a job that ended because ctx did.
func stopped(ctx context.Context, left error) error {
	if left == nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", ctx.Err(), left)
}

// jobLog passes on Beam's log, and takes from it the name of the job at the runner.
type jobLog struct {
	log *slog.Logger

	sync.Mutex
	submitted string
}

// record passes on a record of level info and above.
func (l *jobLog) record(ctx context.Context, sev beamlog.Severity, msg string) {
	if id, found := strings.CutPrefix(msg, "Submitted job: "); found {
		l.Lock()
		l.submitted = id
		l.Unlock()
	}
	var level slog.Level
	switch {
	case sev >= beamlog.SevError:
		level = slog.LevelError
	case sev >= beamlog.SevWarn:
		level = slog.LevelWarn
	case sev >= beamlog.SevInfo:
		level = slog.LevelInfo
	default: // workers write whole messages at level debug, with the data in them
		return
	}
	l.log.Log(ctx, level, msg, "from", "beam")
}

// id returns the name of the job at the runner, "" before it is known.
func (l *jobLog) id() string {
	l.Lock()
	defer l.Unlock()
	return l.submitted
}

// cancel cancels the job at a job service, and waits for its end there. A job in this process ends
// with the process.
func (l *jobLog) cancel(runner string) error {
	id := l.id()
	switch {
	case id == "" || runner == "direct":
		return nil
	case runner == "dataflow":
		return fmt.Errorf("it goes on at Dataflow: gcloud dataflow jobs cancel %s", id)
	}
	conn, err := grpcx.Dial(context.Background(), *jobopts.Endpoint, stopTime)
	if err != nil {
		return err
	}
	defer conn.Close()
	service := jobpb.NewJobServiceClient(conn)
	if runner == "flink" {
		if err := cancelAtFlink(service, id); err != nil {
			return err
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), stopTime)
	defer stop()
	if _, err := service.Cancel(ctx, &jobpb.CancelJobRequest{JobId: id}); err != nil {
		return err
	}
	for tick := time.Tick(100 * time.Millisecond); ; <-tick {
		state, err := service.GetState(ctx, &jobpb.GetJobStateRequest{JobId: id})
		if err != nil || ended(state) {
			return err
		}
	}
}
