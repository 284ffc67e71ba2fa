package formation

import (
	"runtime"
	"sync"
)

// job is a part of the examples: a range of rows that are their own ids, or encoded
// ownergraph.Rows.
type job struct {
	first, count int64
	rows         [][]byte
}

// output holds the draws of a job.
type output struct {
	events   []chunk // by shard of steps
	coins    []chunk // by bucket of owners
	examples int
	err      error
}

// workers draw jobs on all cores of the machine. Results come back through the one goroutine that
// submits, so that emitters, which are not safe for concurrent use, are called from there only.
type workers struct {
	jobs    chan job
	outputs chan output
	done    sync.WaitGroup
	pending int
}

func startWorkers(newDrawer func() *drawer) *workers {
	n := runtime.GOMAXPROCS(0)
	w := &workers{jobs: make(chan job), outputs: make(chan output, n)}
	for range n {
		w.done.Go(func() {
			d := newDrawer()
			for j := range w.jobs {
				w.outputs <- d.draw(j)
			}
		})
	}
	return w
}

// submit hands j over and passes the jobs finished in the meantime to take.
func (w *workers) submit(j job, take func(output) error) error {
	for {
		select {
		case w.jobs <- j:
			w.pending++
			return nil
		case out := <-w.outputs:
			w.pending--
			if err := take(out); err != nil {
				return err
			}
		}
	}
}

// drain waits for all jobs and passes their results to take.
func (w *workers) drain(take func(output) error) error {
	for w.pending > 0 {
		out := <-w.outputs
		w.pending--
		if err := take(out); err != nil {
			return err
		}
	}
	return nil
}

// stop ends the goroutines. Results that nobody took are dropped.
func (w *workers) stop() {
	close(w.jobs)
	for ; w.pending > 0; w.pending-- {
		<-w.outputs
	}
	w.done.Wait()
}
