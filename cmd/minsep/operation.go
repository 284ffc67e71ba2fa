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
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/pipelines"
)

// operation is the way a command is run, whatever it does: its logs, its temporary files, and the
// events that may end it early.
type operation struct {
	logFormat, logLevel string
	workDir             string
	timeout             time.Duration

	log *slog.Logger
	// resumeHint is a line for a user who stopped the command.
	resumeHint string

	mu      sync.Mutex
	temp    *tempFolder  // nil if there is none
	records *slog.Logger // for messages to the user, where logs are JSON; nil for plain text
	shown   []shownPath
}

// stopError is the cause of a context that a signal ended.
type stopError struct{ signal syscall.Signal }

func (e stopError) Error() string { return "stopped by " + e.signal.String() }

// code is the exit code of a command that the signal ended, as shells have it.
func (e stopError) code() int { return 128 + int(e.signal) }

// errTimeout is the cause of a context that --timeout ended.
var errTimeout = errors.New("timeout")

// onSignal returns a context that the first SIGINT or SIGTERM ends. The second ends the process.
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
					os.Exit(e.code())
				}
				op.say(stderr, slog.LevelWarn, "stopping; interrupt again to end at once")
				cancel(e)
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel(nil) }
}

// addLogFlags adds the flags of every command.
func (op *operation) addLogFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&op.logFormat, "log-format", "text", "format of the logs on standard error: text or json")
	f.StringVar(&op.logLevel, "log-level", "warn", "what is logged: debug, info, warn, error, or off")
}

// addJobFlags adds the flags of the commands that run jobs. resumeHint says how to go on after the
// command was stopped.
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
		err := run(cmd, args)
		if err != nil && errors.Is(context.Cause(cmd.Context()), errTimeout) {
			return op.timedOut(cmd)
		}
		return err
	}
}

// begin makes a folder for the temporary files of this process, ours and Beam's.
func (op *operation) begin() error {
	c := param.Checker{Package: "minsep"}
	c.Require(op.timeout >= 0, "timeout", op.timeout, "must be above 0")
	var err error
	if op.workDir != "" {
		op.workDir, err = filepath.Abs(op.workDir)
		c.Add(err)
	}
	clearTempFolders(op.workDir, op.log)
	temp, err := newTempFolder(op.workDir)
	if err != nil {
		c.Add(&param.Error{Package: "minsep", Param: "work-dir", Value: op.workDir, Rule: "must be a folder that can be written to"})
		return c.Err()
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	op.temp = temp
	c.Add(pipelines.SetTempDir(temp.path))
	return c.Err()
}

func (op *operation) removeTemp() {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.temp != nil {
		op.temp.remove()
		op.temp = nil
	}
}

// timedOut names the things to look at.
func (op *operation) timedOut(cmd *cobra.Command) error {
	runner, endpoint := cmd.Flag("runner").Value.String(), cmd.Flag("endpoint").Value.String()
	text := fmt.Sprintf("not done after the --timeout of %v, with runner %s", op.timeout, runner)
	switch runner {
	case pipelines.DefaultRunner, "prism":
		text += ": look at the memory of this machine, and at --log-level info for how far it came"
	case "dataflow":
		text += ": look at the job in Dataflow's console, where it may still run"
	default:
		text += fmt.Sprintf(", job server %s; the job was cancelled there. Look at:\n"+
			"- the logs of the job server and of the TaskManagers: workers that do not start, or that die\n"+
			"- memory of TaskManagers and workers, and --parallelism, which is 1 if it is not set\n"+
			"- a task that hangs near its end: Flink's runner deadlocks at bundles of about 400 MB of output\n"+
			"See docs/clusters.md", endpoint)
	}
	return errors.New(text + "\n" + op.resumeHint)
}

// makeLog sets up the logs. Beam and Prism log there too.
func (op *operation) makeLog(stderr io.Writer) error {
	c := param.Checker{Package: "minsep"}
	var level slog.Level
	off := op.logLevel == "off"
	c.Require(off || level.UnmarshalText([]byte(op.logLevel)) == nil, "log-level", op.logLevel, "must be debug, info, warn, error or off")
	var h slog.Handler = slog.DiscardHandler
	switch {
	case op.logFormat != "text" && op.logFormat != "json":
		c.Require(false, "log-format", op.logFormat, "must be text or json")
	case off:
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

// people writes the warnings and errors of stages as the command's own, in place of records. Those
// who ask for more than warnings get records of everything.
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

// WithAttrs serves loggers of Beam, as WithGroup does, which leaves the group out.
func (p people) WithAttrs(attrs []slog.Attr) slog.Handler {
	p.attrs = slices.Concat(p.attrs, attrs)
	return p
}

func (p people) WithGroup(string) slog.Handler { return p }

// showAs has messages show these paths as they were given, where the stages have made them
// absolute. Of a pattern it is the folder.
func (op *operation) showAs(paths ...string) {
	for _, path := range paths {
		if i := strings.IndexAny(path, "*?["); i >= 0 {
			path = filepath.Dir(path[:i])
		}
		if abs, err := store.Abs(path); err == nil && path != "" && abs != path {
			op.replace(abs, path)
		}
	}
}

// replace has messages show one path for another.
func (op *operation) replace(path, shown string) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.shown = append(op.shown, shownPath{regexp.MustCompile(regexp.QuoteMeta(path) + `([/:;,")\s]|$)`), strings.ReplaceAll(shown, "$", "$$") + "$1"})
}

// shownPath is a path, the text after it, and the text that is shown in its place.
type shownPath struct {
	path  *regexp.Regexp
	shown string
}

// asGiven is a text with paths as they were given.
func (op *operation) asGiven(text string) string {
	op.mu.Lock()
	defer op.mu.Unlock()
	for _, s := range op.shown {
		text = s.path.ReplaceAllString(text, s.shown)
	}
	return text
}

// say tells the user something: one message with one prefix and its further lines indented, or
// a log record where logs are JSON.
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
