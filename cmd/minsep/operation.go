package main

import (
	"context"
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

	"github.com/spf13/cobra"

	"minsep/internal/param"
	"minsep/internal/pipelines"
)

// operation holds how a command runs, apart from its task: its logs, its temporary files, and the
// signals that may end it early.
type operation struct {
	logLevel string
	workDir  string

	args   []string  // the command line
	stderr io.Writer // escapes control characters
	log    *slog.Logger
	// resumeHint tells a user who stopped the command how to go on.
	resumeHint string

	mu   sync.Mutex
	temp string // folder for temporary files; "" if there is none
}

// stopError is the cause of a context that a signal cancelled.
type stopError struct{ signal syscall.Signal }

func (e stopError) Error() string { return "stopped by " + e.signal.String() }

// code returns the exit code after the signal, by the convention of shells: 128 plus its number.
func (e stopError) code() int { return 128 + int(e.signal) }

// onSignal returns a context that the first SIGINT or SIGTERM cancels. The second ends the process.
func (op *operation) onSignal(parent context.Context) (ctx context.Context, stop func()) {
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
				op.say("stopping; interrupt again to end at once")
				cancel(e)
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel(nil) }
}

// addJobFlags adds the flags of commands that run Beam jobs. resumeHint tells the user how to go on
// after the command was stopped.
func (op *operation) addJobFlags(c *cobra.Command, resumeHint string) {
	c.Flags().StringVar(&op.workDir, "work-dir", "", "folder for temporary files, on every worker (default: the system's, $TMPDIR)")
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		op.resumeHint = resumeHint
		if err := op.begin(); err != nil {
			return err
		}
		return run(cmd, args)
	}
}

// begin makes the folder for all temporary files of this process, Beam's included.
func (op *operation) begin() error {
	var err error
	if op.workDir != "" {
		if op.workDir, err = filepath.Abs(op.workDir); err != nil {
			return err
		}
	}
	temp, err := os.MkdirTemp(op.workDir, "minsep-")
	if err != nil {
		name, folder, rule := "work-dir", op.workDir, "must be a folder that can be written to"
		if folder == "" {
			name, folder, rule = "TMPDIR", os.TempDir(), rule+": set it to one, or give --work-dir"
		}
		return &param.Error{Param: name, Value: folder, Rule: rule}
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	op.temp = temp
	// Beam and its runners know no other way to be told than the environment of the process.
	return os.Setenv("TMPDIR", temp)
}

func (op *operation) removeTemp() {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.temp != "" {
		os.RemoveAll(op.temp)
		op.temp = ""
	}
}

// makeLog sets up the logs, also for Beam and Prism.
func (op *operation) makeLog() error {
	var level slog.Level
	var h slog.Handler
	switch {
	case op.logLevel == "off":
		h = slog.DiscardHandler
	case level.UnmarshalText([]byte(op.logLevel)) != nil:
		return &param.Error{Param: "log-level", Value: op.logLevel, Rule: "must be debug, info, warn, error or off"}
	case level >= slog.LevelWarn:
		h = people{op: op, level: level}
	default: // who asks for more gets records with their attributes
		h = slog.NewTextHandler(op.stderr, &slog.HandlerOptions{Level: level})
	}
	op.log = slog.New(h)
	pipelines.SetLog(h)
	return nil
}

// people shows warnings and errors of stages as messages of the command, not as log records.
type people struct {
	op    *operation
	level slog.Level
	attrs []slog.Attr
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
	p.op.say(text)
	return nil
}

// WithAttrs and WithGroup serve Beam's loggers; the name of a group is left out.
func (p people) WithAttrs(attrs []slog.Attr) slog.Handler {
	p.attrs = slices.Concat(p.attrs, attrs)
	return p
}

func (p people) WithGroup(string) slog.Handler { return p }

// say shows a message to the user: one prefix, further lines indented.
func (op *operation) say(text string) {
	fmt.Fprintln(op.stderr, "minsep: "+strings.ReplaceAll(text, "\n", "\n  "))
}

// asGiven returns the text of an error with paths below the current folder as the user gave them.
// Workers, which may run in another folder, get absolute paths, and name these in their errors.
func (op *operation) asGiven(text string) string {
	here, err := os.Getwd()
	if err != nil || slices.ContainsFunc(op.args, func(arg string) bool { return strings.Contains(arg, here) }) {
		return text
	}
	return regexp.MustCompile(`(^|[^\w/.-])`+regexp.QuoteMeta(here+"/")).ReplaceAllString(text, "$1")
}
