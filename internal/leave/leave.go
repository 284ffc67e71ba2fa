// Package leave runs a function that changes nothing, and so can be left behind.
package leave

import "context"

// Behind returns the result of f, or ctx's error as soon as ctx ends: f then goes on, and
// nobody waits for it. f must change nothing that outlives the process.
func Behind[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type outcome struct {
		result T
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := f()
		done <- outcome{result, err}
	}()
	select {
	case o := <-done:
		return o.result, o.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
