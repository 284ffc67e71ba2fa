package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"time"
)

// Limits bound the requests for one piece of work, such as a range of a file or an object that is
// written: 0 is the default of each.
type Limits struct {
	Attempts int           // requests at most; 8
	Attempt  time.Duration // for one of them; a minute
	Total    time.Duration // for all of them and the waits between; five minutes
	Wait     time.Duration // before the second; 200 ms. It doubles each time, up to 10 s, and half of it is random
}

// WithDefaults replaces zeros by defaults.
func (l Limits) WithDefaults() Limits {
	return Limits{
		Attempts: cmp.Or(l.Attempts, 8),
		Attempt:  cmp.Or(l.Attempt, time.Minute),
		Total:    cmp.Or(l.Total, 5*time.Minute),
		Wait:     cmp.Or(l.Wait, 200*time.Millisecond),
	}
}

// repeat calls attempt until it succeeds, fails for good or reaches a limit.
func (l Limits) repeat(ctx context.Context, temporary func(error) bool, attempt func(ctx context.Context, n int) error) error {
	l = l.WithDefaults()
	all, cancel := context.WithTimeout(ctx, l.Total)
	defer cancel()
	begin, wait := time.Now(), l.Wait
	for n := 1; ; n++ {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := l.once(all, n, attempt)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			continue
		case isFinal(err) || !Passing(err) && !temporary(err):
			return err
		case n == l.Attempts || all.Err() != nil:
			return fmt.Errorf("%w (given up after %d attempts in %v)", err, n, time.Since(begin).Round(time.Millisecond))
		}
		select {
		case <-all.Done():
		case <-time.After(wait/2 + rand.N(wait/2+1)):
		}
		wait = min(2*wait, 10*time.Second)
	}
}

func (l Limits) once(ctx context.Context, n int, attempt func(ctx context.Context, n int) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.Attempt)
	defer cancel()
	err := attempt(ctx, n)
	if err != nil && ctx.Err() != nil && !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return err
}

// Passing reports faults of a connection, which any request may have.
func Passing(err error) bool {
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return true
	}
	for _, kind := range []error{io.ErrUnexpectedEOF, context.DeadlineExceeded, io.EOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed, errCorrupt, errVersion} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// Final marks an error after which nothing is repeated, such as the error of a client that has
// repeated its requests itself.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return finalError{err}
}

type finalError struct{ error }

func (f finalError) Unwrap() error { return f.error }

func isFinal(err error) bool {
	_, is := errors.AsType[finalError](err)
	return is
}
