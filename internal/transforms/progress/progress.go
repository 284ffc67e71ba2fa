// Package progress counts the work of a pipeline, for people who wait for it and for Beam's
// metrics.
//
// A [Counter] is a Beam counter that can also be read while the pipeline runs, where the workers
// share the process with the command (the direct runner, Prism, an embedded cluster). Counters are
// shown in logs, consoles and on terminals, so they count only public things: records read, kept
// or dropped, units of work done; never participations or batch sizes.
package progress

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

const namespace = "minsep"

var registry struct {
	sync.Mutex
	counters []*Counter
	phase    Phase
}

// Phase is a part of a stage. Rates and the time that is left belong to the phase.
type Phase struct {
	Text     string    // such as "verifying candidate 2 of 5"; "" if the stage has no parts
	Begin    time.Time // when it was entered
	Unit     string    // unit of Done and Expected; "" if the counters show the progress
	Done     int64     // at least 0
	Expected int64     // value of Done at the end of the phase; 0 if unknown

	// Limit is the approximate latest end of the phase; zero if nothing limits it.
	Limit time.Time
}

// Enter begins a phase of a stage, or updates it if its text is the current one. unit, done and
// expected describe work that has no counter.
func Enter(text, unit string, done, expected int64) {
	registry.Lock()
	defer registry.Unlock()
	if registry.phase.Text != text {
		registry.phase = Phase{Text: text, Begin: time.Now()}
		for _, c := range registry.counters {
			c.before.Store(c.total.Load())
		}
	}
	registry.phase.Unit, registry.phase.Done, registry.phase.Expected, registry.phase.Limit = unit, done, expected, time.Time{}
}

// Limit sets the approximate time that the current phase may still take. It holds until the next
// call of [Enter].
func Limit(left time.Duration) {
	registry.Lock()
	defer registry.Unlock()
	registry.phase.Limit = time.Now().Add(left)
}

// Now returns the current phase of this process. If its text is "", it is the whole stage.
func Now() Phase {
	registry.Lock()
	defer registry.Unlock()
	return registry.phase
}

// Counter counts one kind of public event. A package makes it with [New], in a package-level
// variable.
type Counter struct {
	name     string
	total    atomic.Int64
	expected atomic.Int64
	before   atomic.Int64 // value of total when the phase began
	beam     beam.Counter
}

// New returns the counter called name, such as "edges read". Call it once for a name, at package
// level.
func New(name string) *Counter {
	c := &Counter{name: name, beam: beam.NewCounter(namespace, name)}
	registry.Lock()
	defer registry.Unlock()
	registry.counters = append(registry.counters, c)
	return c
}

// Add adds n. ctx is the context of the DoFn's call.
func (c *Counter) Add(ctx context.Context, n int) {
	c.total.Add(int64(n))
	c.beam.Inc(ctx, int64(n))
}

// Expect sets the final value of a counter in the next stage. It affects this process only. Unknown
// names are ignored.
func Expect(name string, total int64) {
	registry.Lock()
	defer registry.Unlock()
	for _, c := range registry.counters {
		if c.name == name {
			c.expected.Store(total)
		}
	}
}

// Count is the state of a counter in this process.
type Count struct {
	Name     string // of the counter
	Total    int64  // so far, at least 0
	Expected int64  // value at the end of the stage; 0 if unknown
	Before   int64  // value of Total when the phase began
}

// Left estimates the remaining time from the average rate since the phase began, elapsed ago. ok is
// false if there is no rate or no expected total.
func (c Count) Left(elapsed time.Duration) (left time.Duration, ok bool) {
	if c.Total <= c.Before || c.Expected <= c.Total {
		return 0, false
	}
	return time.Duration(float64(elapsed) * float64(c.Expected-c.Total) / float64(c.Total-c.Before)), true
}

// Counts returns the counters made by [New] that are not zero, in the order in which they were
// made.
func Counts() []Count {
	registry.Lock()
	defer registry.Unlock()
	var out []Count
	for _, c := range registry.counters {
		if n := c.total.Load(); n != 0 {
			out = append(out, Count{c.name, n, c.expected.Load(), c.before.Load()})
		}
	}
	return out
}

// Reset sets every counter of this process to zero, before another stage begins.
func Reset() {
	registry.Lock()
	defer registry.Unlock()
	for _, c := range registry.counters {
		c.total.Store(0)
		c.expected.Store(0)
		c.before.Store(0)
	}
	registry.phase = Phase{}
}
