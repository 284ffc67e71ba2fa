package formation

import (
	"runtime"
	"sync"
)

// job is a part of the examples: a range of numbered ones, or encoded ownergraph.Rows.
type job struct {
	first, count int64
	rows         [][]byte
}

// output holds the draws of a job.
type output struct {
	events   []chunk // by shard of steps
	owners   []chunk // by bucket of owners
	examples int
	err      error
}

// workers draw jobs on all cores. Only the goroutine that submits jobs receives their results,
// since Beam's emitters are not safe for concurrent use.
type workers struct {
	jobs    chan job
	outputs chan output
	done    sync.WaitGroup
	pending int
}

// startWorkers starts n goroutines, or one a processor if n is 0.
func startWorkers(n int, newDrawer func() *drawer) *workers {
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
	}
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

// submit hands over a job. While it waits, it passes finished results to take.
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

// stop ends the goroutines and drops the results that are left.
func (w *workers) stop() {
	close(w.jobs)
	for ; w.pending > 0; w.pending-- {
		<-w.outputs
	}
	w.done.Wait()
}
