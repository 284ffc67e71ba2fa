// Package leave runs a function that may be abandoned when a context ends.
package leave

import "context"

// Behind returns the result of f, or ctx's error as soon as ctx ends. f then continues with nobody
// waiting, so it must not change anything that outlives the process.
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
