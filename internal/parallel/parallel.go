// Package parallel calls a function for the items of a list on several goroutines.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Each begins calls of f for 0 to n-1 in this order, with at most so many workers at once, or one for
// each processor where workers is not above 0. After an error it begins no further call. It returns
// the errors by index: the first of them does not depend on the number of workers.
func Each(n, workers int, f func(i int) error) (errs []error) {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	errs = make([]error, n)
	var next atomic.Int64
	var failed atomic.Bool
	var group sync.WaitGroup
	for range min(n, workers) {
		group.Go(func() {
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[i] = f(i); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	group.Wait()
	return errs
}
