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

// Limits bounds the requests for one piece of work: a range of a file that is read, or a part of an
// object that is written. 0 means the default of each field.
type Limits struct {
	Attempts int           // largest number of attempts; default 8
	Attempt  time.Duration // time of one attempt; default a minute
	Total    time.Duration // time of all attempts and the waits between them; default five minutes
	Wait     time.Duration // before the second attempt; default 200 ms. Doubles each time, up to 10 s; half of it is random
}

// WithDefaults replaces zeros by the defaults.
func (l Limits) WithDefaults() Limits {
	return Limits{
		Attempts: cmp.Or(l.Attempts, 8),
		Attempt:  cmp.Or(l.Attempt, time.Minute),
		Total:    cmp.Or(l.Total, 5*time.Minute),
		Wait:     cmp.Or(l.Wait, 200*time.Millisecond),
	}
}

// repeat calls attempt until it succeeds, fails with an error that is not temporary, or reaches a
// limit.
func (l Limits) repeat(
	ctx context.Context,
	temporary func(error) bool,
	attempt func(ctx context.Context, n int) error,
) error {
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
			return fmt.Errorf(
				"%w (given up after %d attempts in %v)",
				err,
				n,
				time.Since(begin).Round(time.Millisecond),
			)
		}
		select {
		case <-all.Done():
		case <-time.After(wait/2 + rand.N(wait/2+1)):
		}
		wait = min(2*wait, 10*time.Second)
	}
}

// once makes one attempt within its time. An attempt that ran out of time gets an error that says
// so, whatever its library reports.
func (l Limits) once(ctx context.Context, n int, attempt func(ctx context.Context, n int) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.Attempt)
	defer cancel()
	err := attempt(ctx, n)
	if err != nil && ctx.Err() != nil && !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return err
}

// Passing reports temporary faults of a connection, which any request may meet.
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

// Final marks an error as not worth repeating, such as the error of a client library that has
// retried already. nil stays nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return finalError{err}
}

// finalError marks the error of a request that is not repeated.
type finalError struct{ error }

// Unwrap returns the cause.
func (f finalError) Unwrap() error { return f.error }

func isFinal(err error) bool {
	_, is := errors.AsType[finalError](err)
	return is
}
