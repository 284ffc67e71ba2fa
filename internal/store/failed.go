package store

import (
	"context"
	"errors"
	"io/fs"
	"sync"
)

// requestError is the error of a request to an object store that failed for good. It says nothing
// about the object, which may or may not exist, and may or may not be sound.
type requestError struct{ error }

// Unwrap returns the cause.
func (e requestError) Unwrap() error { return e.error }

// Failed reports whether err comes from a request to an object store that failed or was given up,
// or from an object that was replaced while it was read. Such an error says nothing about the
// stored object.
func Failed(err error) bool {
	_, is := errors.AsType[requestError](err)
	return is
}

// Failures records the first request that failed for good under a context: see [WatchFailures].
type Failures struct {
	outer *Failures

	mutex sync.Mutex
	first error
}

// failuresKey is the key of the watchers in a context.
type failuresKey struct{}

// WatchFailures returns a context that records requests to object stores that fail for good. It is
// for callers that judge objects: they must not take an unreadable object for a missing or damaged
// one.
func WatchFailures(ctx context.Context) (context.Context, *Failures) {
	outer, _ := ctx.Value(failuresKey{}).(*Failures)
	f := &Failures{outer: outer}
	return context.WithValue(ctx, failuresKey{}, f), f
}

// Err returns the first failure, or nil.
func (f *Failures) Err() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.first
}

// failed marks and records the error of a request. Errors that are answers stay as they are, such
// as that an object does not exist, or already does.
func failed(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) ||
		errors.Is(err, ErrTooLarge) ||
		errors.Is(err, errBucket) {
		return err
	}
	err = requestError{err}
	note(ctx, err)
	return err
}

// note records a failed request with every watcher of the context.
func note(ctx context.Context, err error) {
	f, _ := ctx.Value(failuresKey{}).(*Failures)
	for ; f != nil; f = f.outer {
		f.mutex.Lock()
		if f.first == nil {
			f.first = err
		}
		f.mutex.Unlock()
	}
}

// unwatched returns ctx without its watchers, for requests with failures that are handled here.
func unwatched(ctx context.Context) context.Context {
	return context.WithValue(ctx, failuresKey{}, (*Failures)(nil))
}
