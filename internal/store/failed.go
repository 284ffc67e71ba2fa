package store

import (
	"context"
	"errors"
	"io/fs"
	"sync"
)

// requestError is a request to an object store that failed for good: its object may be there or
// not, and may be sound or not.
type requestError struct{ error }

func (e requestError) Unwrap() error { return e.error }

// Failed reports whether an error is of a request to an object store that failed or was given
// up, or of an object that was replaced while it was read: it says nothing about the stored
// object.
func Failed(err error) bool {
	_, is := errors.AsType[requestError](err)
	return is
}

// Failures are the requests that failed for good under a context: see [WatchFailures].
type Failures struct {
	outer *Failures

	mutex sync.Mutex
	first error
}

type failuresKey struct{}

// WatchFailures returns a context under which requests to object stores that fail for good are
// noted. It is for callers that judge objects, and must not take an unreadable object for one
// that is missing or not sound.
func WatchFailures(ctx context.Context) (context.Context, *Failures) {
	outer, _ := ctx.Value(failuresKey{}).(*Failures)
	f := &Failures{outer: outer}
	return context.WithValue(ctx, failuresKey{}, f), f
}

// Err is the first of them; nil without one.
func (f *Failures) Err() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.first
}

// failed marks and notes an error of a request. It leaves alone errors that are answers: that
// an object is not there, or is there already.
func failed(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) || errors.Is(err, ErrTooLarge) || errors.Is(err, errBucket) {
		return err
	}
	err = requestError{err}
	note(ctx, err)
	return err
}

// note tells those who watch a context of a request that failed.
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

// unwatched is ctx without those who watch it.
func unwatched(ctx context.Context) context.Context {
	return context.WithValue(ctx, failuresKey{}, (*Failures)(nil))
}
