// Package gs registers gs://bucket/key, objects of Google Cloud Storage, with package store.
//
// Credentials are the application default credentials. STORAGE_EMULATOR_HOST names another server,
// which is used without credentials. A read names the generation that was opened. A written object
// appears when its upload is closed, under a precondition if one is asked for: that the object does
// not exist, or has a given generation. Uploads carry their CRC-32C, and an object that is read
// whole is compared with its own.
package gs

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"

	"minsep/internal/store"
)

// init registers the scheme gs.
func init() {
	store.Register("gs", func() (store.FS, error) { return New(context.Background(), store.Limits{}) })
}

// New returns the store that the environment configures. Missing credentials wrap fs.ErrPermission.
func New(ctx context.Context, limits store.Limits, options ...option.ClientOption) (*store.Objects, error) {
	if os.Getenv("STORAGE_EMULATOR_HOST") != "" {
		options = append(options, option.WithoutAuthentication())
	}
	client, err := storage.NewClient(ctx, append(options, storage.WithJSONReads())...)
	if err != nil { // no credentials
		return nil, fmt.Errorf("%w: %w", fs.ErrPermission, err)
	}
	client.SetRetry(storage.WithPolicy(storage.RetryNever)) // package store retries
	return &store.Objects{Scheme: "gs", Service: service{client, limits.WithDefaults()}, Limits: limits}, nil
}

// writerKey is the key of the metadata that holds the Writer of a [store.Condition].
const writerKey = "minsep-writer"

// service implements [store.Service] with Google's client library.
type service struct {
	client *storage.Client
	limits store.Limits
}

// object returns the library's handle of an object.
func (s service) object(bucket, key string) *storage.ObjectHandle {
	return s.client.Bucket(bucket).Object(key)
}

// Temporary reports the errors after which the client library itself would retry.
func (service) Temporary(err error) bool { return storage.ShouldRetry(err) }

// Stat returns size, generation and writer of an object.
func (s service) Stat(ctx context.Context, bucket, key string) (store.Object, error) {
	a, err := s.object(bucket, key).Attrs(ctx)
	if err != nil {
		return store.Object{}, kind(err)
	}
	o := store.Object{Size: a.Size, Version: strconv.FormatInt(a.Generation, 10), Writer: a.Metadata[writerKey]}
	if a.ContentEncoding != "" { // its bytes would be decoded on reading, and not match its size
		return o, fmt.Errorf(
			"has the content encoding %s, which is not supported: store it without one",
			a.ContentEncoding,
		)
	}
	o.CRC32C = &a.CRC32C
	return o, nil
}

// Read reads a range of the generation that was opened.
func (s service) Read(ctx context.Context, bucket, key string, o store.Object, at int64, dst []byte) (int, error) {
	generation, err := strconv.ParseInt(o.Version, 10, 64)
	if err != nil {
		return 0, err
	}
	r, err := s.object(bucket, key).Generation(generation).NewRangeReader(ctx, at, int64(len(dst)))
	if errors.Is(err, storage.ErrObjectNotExist) { // it existed when it was opened
		return 0, store.ErrCondition
	}
	if err != nil {
		return 0, kind(err)
	}
	defer r.Close()
	if a := r.Attrs; a.Generation != 0 && a.Generation != generation || a.StartOffset != at {
		return 0, store.ErrCondition
	}
	n, err := io.ReadFull(r, dst)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, kind(err)
}

// List returns one page of names.
func (s service) List(ctx context.Context, bucket, prefix, token string) (page store.Page, err error) {
	query := &storage.Query{Prefix: prefix, Delimiter: "/"}
	if err := query.SetAttrSelection([]string{"Name"}); err != nil {
		return page, err
	}
	var list []*storage.ObjectAttrs
	page.Next, err = iterator.NewPager(s.client.Bucket(bucket).Objects(ctx, query), 1000, token).NextPage(&list)
	if err != nil {
		return page, kind(err)
	}
	for _, a := range list {
		if a.Prefix != "" {
			page.Folders = append(page.Folders, a.Prefix)
		} else {
			page.Keys = append(page.Keys, a.Name)
		}
	}
	return page, nil
}

// writer begins an upload. The caller must cancel ctx when the upload is over.
func (s service) writer(ctx context.Context, o *storage.ObjectHandle, c store.Condition) (*storage.Writer, error) {
	switch {
	case c.New:
		o = o.If(storage.Conditions{DoesNotExist: true})
	case c.Replaces != "":
		generation, err := strconv.ParseInt(c.Replaces, 10, 64)
		if err != nil {
			return nil, err
		}
		o = o.If(storage.Conditions{GenerationMatch: generation})
	}
	w := o.NewWriter(ctx)
	w.ContentType = "application/octet-stream"
	w.Metadata = map[string]string{writerKey: c.Writer}
	return w, nil
}

// Put writes an object in one request, with its CRC-32C.
func (s service) Put(ctx context.Context, bucket, key string, data []byte, c store.Condition) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // cancelling an upload that was not closed leaves no object
	w, err := s.writer(ctx, s.object(bucket, key), c)
	if err != nil {
		return err
	}
	w.ChunkSize = 0 // a single request, not a resumable upload
	w.CRC32C, w.SendCRC32C = crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)), true
	if _, err := w.Write(data); err != nil {
		return kind(err)
	}
	return kind(w.Close())
}

// upload is a resumable upload. The client library keeps the bytes that the service has not
// confirmed, and sends them again itself.
type upload struct {
	w      *storage.Writer
	cancel context.CancelFunc
}

// Upload begins a resumable upload.
func (s service) Upload(ctx context.Context, bucket, key string, c store.Condition) (store.Upload, error) {
	ctx, cancel := context.WithCancel(ctx)
	w, err := s.writer(
		ctx,
		s.object(bucket, key).Retryer(storage.WithPolicy(storage.RetryAlways), storage.WithErrorFunc(repeated)),
		c,
	)
	if err != nil {
		cancel()
		return nil, err
	}
	w.ChunkSize = 8 << 20
	w.ChunkTransferTimeout, w.ChunkRetryDeadline = s.limits.Attempt, s.limits.Total
	return &upload{w: w, cancel: cancel}, nil
}

// repeated reports the errors after which the client library retries a resumable upload.
func repeated(err error) bool { return storage.ShouldRetry(err) || store.Passing(err) }

// Part hands data to the client library. An error is final, since the library has retried already.
func (u *upload) Part(_ context.Context, _ int, data []byte) error {
	_, err := u.w.Write(data)
	return store.Final(kind(err))
}

// Complete makes the object appear.
func (u *upload) Complete(context.Context) error {
	err := u.w.Close()
	u.cancel()
	return store.Final(kind(err))
}

// Abort leaves no object.
func (u *upload) Abort(context.Context) error {
	u.cancel()
	u.w.Close() // waits until its requests have ended
	return nil
}

// Delete removes an object.
func (s service) Delete(ctx context.Context, bucket, key string) error {
	return kind(s.object(bucket, key).Delete(ctx))
}

// kind wraps err with the sentinel error of package store or io/fs that it corresponds to.
func kind(err error) error {
	var api *googleapi.Error
	switch {
	case errors.Is(err, storage.ErrObjectNotExist), errors.Is(err, storage.ErrBucketNotExist):
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case !errors.As(err, &api):
		return err
	case api.Code == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %w", store.ErrCondition, err)
	case api.Code == http.StatusNotFound:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case api.Code == http.StatusForbidden, api.Code == http.StatusUnauthorized:
		return fmt.Errorf("%w: %w", fs.ErrPermission, err)
	}
	return err
}
