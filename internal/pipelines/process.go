package pipelines

import (
	"context"
	"flag"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	beamlog "github.com/apache/beam/sdks/v2/go/pkg/beam/log"
)

// This file has the state that Beam and Go keep once for a process, and which all jobs of a process
// therefore share:
//
//   - The options of runners are flags of flag.CommandLine: jobs that run at once have the same
//     ones.
//   - There is one logger. beamLog hands each record on to the job that it is of, as far as the
//     record tells.
//   - Prism logs to slog's default logger.
//   - The garbage collector leaves as much garbage as it is told to for the whole process.
//   - Runners and their workers in this process make their temporary files in TMPDIR.
//
// Counters are shared too, see package progress: they show the sum over the jobs that run
// at once.

// VisitBeamFlags calls visit for every flag that Beam's runners define.
func VisitBeamFlags(visit func(*flag.Flag)) {
	own := []string{
		"runner",
		"worker",
		"id",
		"options",
		"logging_endpoint",
		"control_endpoint",
		"semi_persist_dir",
	} // of workers
	flag.CommandLine.VisitAll(func(f *flag.Flag) {
		if !slices.Contains(own, f.Name) && !strings.HasPrefix(f.Name, "test.") {
			visit(f)
		}
	})
}

// SetBeamFlag sets one of these flags for all later jobs of this process. Beam passes on to the
// runner the flags that were set.
func SetBeamFlag(name, value string) error { return flag.CommandLine.Set(name, value) }

// beamFlag returns the value of one of these flags, "" if there is no flag of this name.
func beamFlag(name string) string {
	if f := flag.Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// limitGarbage limits the garbage of this process to about more bytes; by default there may be as
// much as is in use. It is for a stage that has allocated all that it keeps. restore ends the
// limit.
func limitGarbage(more int64) (restore func()) {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	limit := debug.SetMemoryLimit(-1)
	percent := debug.SetGCPercent(-1)
	held := int64(m.Sys - m.HeapReleased)
	debug.SetMemoryLimit(min(limit, held+held/32+more)) // the collector begins a 33rd of the heap earlier
	return func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	}
}

// SetLog makes h the handler of the records that Prism and other packages log to slog's default
// logger. Records of level debug are dropped: Prism's may hold data.
func SetLog(h slog.Handler) { slog.SetDefault(slog.New(withoutDebug{h})) }

// withoutDebug drops records below level info.
type withoutDebug struct{ slog.Handler }

// Enabled implements [slog.Handler].
func (h withoutDebug) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo && h.Handler.Enabled(ctx, level)
}

// WithAttrs implements [slog.Handler].
func (h withoutDebug) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutDebug{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h withoutDebug) WithGroup(name string) slog.Handler {
	return withoutDebug{h.Handler.WithGroup(name)}
}

// beamLog is Beam's logger: it passes records on to the jobs that run.
var beamLog sharedLog

// sharedLog passes a record on to the job of its context. Records of workers come without a
// context: they go to the job that began last.
type sharedLog struct {
	mu   sync.Mutex
	jobs []*jobLog // that run, in the order in which they began
}

// jobKey is the key of a job's log in its context.
type jobKey struct{}

// begin returns the context of a job that logs to l, and a function to call after its end.
func (s *sharedLog) begin(ctx context.Context, l *jobLog) (of context.Context, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs = append(s.jobs, l)
	beamlog.SetLogger(s) // each time: a worker in this process sets one of its own
	return context.WithValue(ctx, jobKey{}, l), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.jobs = slices.DeleteFunc(s.jobs, func(other *jobLog) bool { return other == l })
	}
}

// Log implements Beam's logger.
func (s *sharedLog) Log(ctx context.Context, severity beamlog.Severity, _ int, message string) {
	l, ok := ctx.Value(jobKey{}).(*jobLog)
	if !ok {
		s.mu.Lock()
		if n := len(s.jobs); n > 0 {
			l = s.jobs[n-1]
		}
		s.mu.Unlock()
	}
	if l != nil {
		l.record(ctx, severity, message)
	}
}
