package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"minsep/internal/param"
	"minsep/internal/pipelines"
)

// operation holds how a command runs, apart from its task: its logs, its temporary files, and the
// events that may end it early.
type operation struct {
	logFormat, logLevel string
	workDir             string
	timeout             time.Duration

	log *slog.Logger
	// resumeHint tells a user who stopped the command how to go on.
	resumeHint string

	mu      sync.Mutex
	temp    string       // folder for temporary files; "" if there is none
	records *slog.Logger // takes the messages to the user if logs are JSON; nil for plain text
}

// stopError is the cause of a context that a signal cancelled.
type stopError struct{ signal syscall.Signal }

func (e stopError) Error() string { return "stopped by " + e.signal.String() }

// code returns the exit code after the signal, by the convention of shells: 128 plus its number.
func (e stopError) code() int { return 128 + int(e.signal) }

// errTimeout is the cause of a context that --timeout cancelled.
var errTimeout = errors.New("timeout")

// onSignal returns a context that the first SIGINT or SIGTERM cancels. The second ends the process.
func (op *operation) onSignal(parent context.Context, stderr io.Writer) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals, done := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for first := true; ; first = false {
			select {
			case <-done:
				return
			case s := <-signals:
				e := stopError{s.(syscall.Signal)}
				if !first {
					op.removeTemp()
					// Deferred functions do not run: the folder was removed above, and locks end with the process.
					os.Exit(e.code())
				}
				op.say(stderr, slog.LevelWarn, "stopping; interrupt again to end at once")
				cancel(e)
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel(nil) }
}

// addLogFlags adds the flags for logs, which every command has.
func (op *operation) addLogFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&op.logFormat, "log-format", "text", "format of the logs on standard error: text or json")
	f.StringVar(&op.logLevel, "log-level", "warn", "lowest level that is logged: debug, info, warn, error, or off")
}

// addJobFlags adds the flags of commands that run Beam jobs. resumeHint tells the user how to go on
// after the command was stopped.
func (op *operation) addJobFlags(c *cobra.Command, resumeHint string) {
	f := c.Flags()
	f.StringVar(&op.workDir, "work-dir", "", "folder for temporary files, on every worker (default: the system's, $TMPDIR)")
	f.DurationVar(&op.timeout, "timeout", 0, "cancel the job and end after this time, such as 90m (default: never)")
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		op.resumeHint = resumeHint
		if err := op.begin(); err != nil {
			return err
		}
		if op.timeout > 0 {
			ctx, stop := context.WithTimeoutCause(cmd.Context(), op.timeout, errTimeout)
			defer stop()
			cmd.SetContext(ctx)
		}
		// The stage sees a cancelled context only, and its error says so in its own words.
		err := run(cmd, args)
		if err != nil && errors.Is(context.Cause(cmd.Context()), errTimeout) {
			return op.timedOut(cmd, errors.Is(err, pipelines.ErrLeft))
		}
		return err
	}
}

// begin makes the folder for all temporary files of this process, Beam's included.
func (op *operation) begin() error {
	c := param.Checker{}
	c.Require(op.timeout >= 0, "timeout", op.timeout, "must be above 0")
	var err error
	if op.workDir != "" {
		op.workDir, err = filepath.Abs(op.workDir)
		c.Add(err)
	}
	temp, err := os.MkdirTemp(op.workDir, "minsep-")
	if err != nil {
		name, folder, rule := "work-dir", op.workDir, "must be a folder that can be written to"
		if folder == "" {
			name, folder, rule = "TMPDIR", os.TempDir(), rule+": set it to one, or give --work-dir"
		}
		c.Require(false, name, folder, rule)
		return c.Err()
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	op.temp = temp
	// Beam and its runners know no other way to be told than the environment of the process.
	c.Add(os.Setenv("TMPDIR", temp))
	return c.Err()
}

func (op *operation) removeTemp() {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.temp != "" {
		os.RemoveAll(op.temp)
		op.temp = ""
	}
}

// timedOut returns the error after --timeout, with the places to look at on that runner. left says
// that the job may still run.
func (op *operation) timedOut(cmd *cobra.Command, left bool) error {
	runner, endpoint := cmd.Flag("runner").Value.String(), cmd.Flag("endpoint").Value.String()
	text := fmt.Sprintf("not done after the --timeout of %v, with runner %s", op.timeout, runner)
	switch runner {
	case pipelines.DefaultRunner, "prism":
		text += ": look at the memory of this machine, and at --log-level info for how far it came"
	case "dataflow":
		text += ": look at the job in Dataflow's console, where it may still run"
	default:
		// The places to look at depend on the runner: this one has a job server and workers.
		state := "was cancelled there"
		if left {
			state = "may still run there"
		}
		text += fmt.Sprintf(", job server %s; the job %s. Look at:\n"+
			"- the logs of the job server and of the TaskManagers: workers that do not start, or that die\n"+
			"- memory of TaskManagers and workers, and --parallelism, which is 1 if it is not set\n"+
			"- a task that hangs near its end: Flink's runner deadlocks at bundles of about 400 MB of output\n"+
			"See docs/clusters.md", endpoint, state)
	}
	return errors.New(text + "\n" + op.resumeHint)
}

// makeLog sets up the logs, also for Beam and Prism.
func (op *operation) makeLog(stderr io.Writer) error {
	c := param.Checker{}
	var level slog.Level
	off := op.logLevel == "off"
	c.Require(
		off || level.UnmarshalText([]byte(op.logLevel)) == nil,
		"log-level",
		op.logLevel,
		"must be debug, info, warn, error or off",
	)
	var h slog.Handler = slog.DiscardHandler
	switch {
	case op.logFormat != "text" && op.logFormat != "json":
		c.Require(false, "log-format", op.logFormat, "must be text or json")
	case off:
	// At the default level the user sees sentences; who asks for more gets records with their
	// attributes.
	case op.logFormat == "text" && level >= slog.LevelWarn:
		h = people{op: op, stderr: stderr, level: level}
	case op.logFormat == "text":
		h = slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})
	default:
		h = slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: level})
	}
	op.log = slog.New(h)
	pipelines.SetLog(h)
	if op.logFormat == "json" && !off {
		op.mu.Lock()
		defer op.mu.Unlock()
		op.records = op.log
	}
	return c.Err()
}

// people shows warnings and errors of stages as messages of the command, not as log records. With a
// more detailed log level the user gets records of everything instead.
type people struct {
	op     *operation
	stderr io.Writer
	level  slog.Level
	attrs  []slog.Attr
}

func (p people) Enabled(_ context.Context, level slog.Level) bool { return level >= p.level }

func (p people) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	add := func(a slog.Attr) bool { text += fmt.Sprintf("; %s %s", a.Key, a.Value); return true }
	for _, a := range p.attrs {
		add(a)
	}
	r.Attrs(add)
	if r.Level < slog.LevelError {
		text = "warning: " + text
	}
	p.op.say(p.stderr, r.Level, text)
	return nil
}

// WithAttrs and WithGroup serve Beam's loggers; the name of a group is left out.
func (p people) WithAttrs(attrs []slog.Attr) slog.Handler {
	p.attrs = slices.Concat(p.attrs, attrs)
	return p
}

func (p people) WithGroup(string) slog.Handler { return p }

// standardInput is the name of the copy of standard input in the folder for temporary files.
const standardInput = "standard-input"

// asGiven returns text with the name of standard input in place of that of its copy.
func (op *operation) asGiven(text string) string {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.temp == "" {
		return text
	}
	return strings.ReplaceAll(text, filepath.Join(op.temp, standardInput), "- (standard input)")
}

// say shows a message to the user: one prefix, further lines indented. If logs are JSON, the
// message is a log record.
func (op *operation) say(stderr io.Writer, level slog.Level, text string) {
	text = op.asGiven(text)
	op.mu.Lock()
	records := op.records
	op.mu.Unlock()
	if records != nil {
		records.Log(context.Background(), level, text)
		return
	}
	fmt.Fprintln(stderr, "minsep: "+strings.ReplaceAll(text, "\n", "\n  "))
}
