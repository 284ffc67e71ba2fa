// Package progress counts what a pipeline has done, for people who wait for it and for Beam's metrics.
//
// A [Counter] is a Beam counter that can also be read while the pipeline runs, where the workers share
// the process with the command (the direct runner, Prism, an embedded cluster). Counters are shown in logs,
// consoles and on terminals, so they count only what is public: records read, kept or dropped, units of work
// done; never participations or batch sizes.
package progress

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

const namespace = "minsep"

var registry struct {
	sync.Mutex
	counters []*Counter
}

// Counter counts one kind of public event. Make one a package with [New] and keep it in a variable.
type Counter struct {
	name  string
	total atomic.Int64
	beam  beam.Counter
}

// New returns the counter of a name such as "edges read". Call it once a name, at package level.
func New(name string) *Counter {
	c := &Counter{name: name, beam: beam.NewCounter(namespace, name)}
	registry.Lock()
	defer registry.Unlock()
	registry.counters = append(registry.counters, c)
	return c
}

// Add counts n more. ctx is that of the DoFn's call.
func (c *Counter) Add(ctx context.Context, n int) {
	c.total.Add(int64(n))
	c.beam.Inc(ctx, int64(n))
}

// Count is the state of a counter in this process.
type Count struct {
	Name  string
	Total int64
}

// Counts returns the counters of this process that are not zero, in the order in which they were made.
func Counts() []Count {
	registry.Lock()
	defer registry.Unlock()
	var out []Count
	for _, c := range registry.counters {
		if n := c.total.Load(); n != 0 {
			out = append(out, Count{c.name, n})
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
	}
}
