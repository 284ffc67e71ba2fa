package store

import (
	"context"
	"errors"
	"io/fs"
	"time"
)

// partSize is the number of bytes of a written object that are held in memory. S3 accepts only the
// last part below 5 MiB.
const partSize = 8 << 20

// ErrTooLarge means that an object needs more parts than its store allows.
var ErrTooLarge = errors.New("the object is too large for the store")

// objectWriter writes an object, which appears when finish succeeds.
type objectWriter struct {
	objects   *Objects
	ctx       context.Context
	name      string
	condition Condition

	buffer []byte
	upload Upload // nil as long as one request is enough
	parts  int
	fault  error
}

// Write fills the buffer, and sends it as a part whenever it is full.
func (w *objectWriter) Write(b []byte) (n int, err error) {
	for len(b) > 0 && w.fault == nil {
		m := min(len(b), partSize-len(w.buffer))
		w.buffer = append(w.buffer, b[:m]...)
		n, b = n+m, b[m:]
		if len(w.buffer) == partSize {
			w.fault = w.part()
		}
	}
	return n, w.fault
}

// do repeats a request within the limits.
func (w *objectWriter) do(f func(ctx context.Context, n int, bucket, key string) error) error {
	return w.objects.at(w.ctx, "write", w.name, f)
}

// part sends the buffer as the next part.
func (w *objectWriter) part() error {
	if w.upload == nil {
		err := w.do(func(ctx context.Context, _ int, bucket, key string) (err error) {
			w.upload, err = w.objects.Service.Upload(w.ctx, bucket, key, w.condition)
			return err
		})
		if err != nil {
			return err
		}
	}
	if most := w.objects.MaxParts; most > 0 && w.parts == most {
		return w.objects.tooLarge(w.name)
	}
	w.parts++
	err := w.do(
		func(ctx context.Context, _ int, _, _ string) error { return w.upload.Part(ctx, w.parts, w.buffer) },
	)
	w.buffer = w.buffer[:0]
	return err
}

// finish sends the rest and makes the object appear.
func (w *objectWriter) finish() error {
	if w.fault != nil {
		return w.fault
	}
	if w.upload != nil && len(w.buffer) > 0 {
		if err := w.part(); err != nil {
			return err
		}
	}
	err := w.do(func(ctx context.Context, n int, bucket, key string) error {
		err := w.request(ctx, bucket, key)
		if err == nil || n == 1 && !errors.Is(err, ErrCondition) && !isFinal(err) {
			return err
		}
		// An earlier attempt may have succeeded, with only its answer lost.
		there, errStat := w.objects.Service.Stat(ctx, bucket, key)
		switch {
		case errStat == nil && there.Writer == w.condition.Writer:
			return nil
		case errStat != nil && !errors.Is(errStat, fs.ErrNotExist):
			return errStat
		case errors.Is(err, ErrCondition), errStat == nil && w.condition.excludes(there):
			return conditionFault(w.condition)
		}
		return err
	})
	if err == nil {
		w.upload = nil
	}
	return err
}

// request makes the object appear: by one Put, or by completing the upload.
func (w *objectWriter) request(ctx context.Context, bucket, key string) error {
	if w.upload != nil {
		return w.upload.Complete(ctx)
	}
	return w.objects.Service.Put(ctx, bucket, key, w.buffer, w.condition)
}

// abort cancels an unfinished upload. If that fails, parts remain in the store, but no object.
func (w *objectWriter) abort() {
	if w.upload == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), 10*time.Second)
	defer cancel()
	_ = w.upload.Abort(ctx)
}
