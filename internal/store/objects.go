package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Service performs the requests of an object store; [Objects] makes an [FS] of it. Each method
// makes one attempt. Errors wrap fs.ErrNotExist for a missing object or bucket, fs.ErrPermission
// for a refused request, and ErrCondition for a condition that does not hold.
type Service interface {
	Stat(ctx context.Context, bucket, key string) (Object, error)
	// Read fills dst with the object's bytes from offset at, or returns an error and the number of
	// good bytes. An object of another version is ErrCondition.
	Read(ctx context.Context, bucket, key string, o Object, at int64, dst []byte) (n int, err error)
	// List returns one page of a folder. prefix is "" or ends in a slash.
	List(ctx context.Context, bucket, prefix, token string) (Page, error)
	Put(ctx context.Context, bucket, key string, data []byte, c Condition) error
	// Upload begins an object that is too large for Put.
	Upload(ctx context.Context, bucket, key string, c Condition) (Upload, error)
	Delete(ctx context.Context, bucket, key string) error
	// Temporary reports whether a request that failed with err may be repeated, apart from faults
	// of the connection, which always may.
	Temporary(err error) bool
}

// Upload writes an object in parts. Each method makes one attempt; after a temporary fault it is
// called again with the same arguments.
type Upload interface {
	Part(ctx context.Context, number int, data []byte) error // numbers from 1, in order
	Complete(ctx context.Context) error
	Abort(ctx context.Context) error
}

// ErrCondition is the error of a [Service] if the condition of a request does not hold.
var ErrCondition = errors.New("precondition failed")

// errBucket is the fault of a name that is a bucket but should be an object.
var errBucket = errors.New("is a bucket")

// Object describes an object of a store.
type Object struct {
	Size    int64
	Version string // of the contents: a generation or an ETag
	Writer  string // the Writer of its [Condition], or ""
	CRC32C  *uint32
}

// Page is one page of a listing.
type Page struct {
	Folders []string // prefixes, each with its final slash
	Keys    []string
	Next    string // token of the next page; "" after the last
}

// Condition must hold for an object to be written. Its zero value always holds.
type Condition struct {
	New      bool   // the object does not exist
	Replaces string // or it has this version; "" means any or none
	Writer   string // stored with the object; recognises our own write if its answer was lost
}

// Objects is the [FS] of an object store.
type Objects struct {
	Scheme  string
	Service Service
	Limits  Limits
	// MaxParts is the largest number of parts of an upload; 0 means no limit. An object that needs
	// more is refused before the first part too many is sent, and its upload is aborted.
	MaxParts int
}

// at calls f with the bucket and key of a name until it succeeds or reaches the limits.
func (o *Objects) at(
	ctx context.Context,
	op, name string,
	f func(ctx context.Context, n int, bucket, key string) error,
) error {
	bucket, key, err := split(name)
	if err != nil {
		return err
	}
	return failed(
		ctx,
		fault(
			op,
			name,
			o.Limits.repeat(
				ctx,
				o.Service.Temporary,
				func(ctx context.Context, n int) error { return f(ctx, n, bucket, key) },
			),
		),
	)
}

// name returns the full name of an object.
func (o *Objects) name(bucket, key string) string { return o.Scheme + "://" + bucket + "/" + key }

func (o *Objects) object(ctx context.Context, op, name string) (found Object, err error) {
	err = o.at(ctx, op, name, func(ctx context.Context, _ int, bucket, key string) (err error) {
		if key == "" {
			return errBucket
		}
		found, err = o.Service.Stat(ctx, bucket, key)
		return err
	})
	return found, err
}

// Open finds the object. Its contents are fetched as they are read, with some read-ahead.
func (o *Objects) Open(ctx context.Context, name string) (File, error) {
	found, err := o.object(ctx, "open", name)
	if err != nil {
		return nil, err
	}
	bucket, key, _ := split(name)
	return newObjectFile(ctx, found, func(ctx context.Context, at int64, dst []byte) error {
		return failed(ctx, fault("read", name, o.read(ctx, bucket, key, found, at, dst)))
	}), nil
}

// Write buffers one part in memory, so that a small object takes a single request.
func (o *Objects) Write(ctx context.Context, name string, opt Options, write func(io.Writer) error) error {
	if _, key, err := split(name); err != nil {
		return err
	} else if key == "" {
		return fault("write", name, errBucket)
	}
	if o.MaxParts > 0 && opt.Size > int64(o.MaxParts)*partSize {
		return o.tooLarge(name)
	}
	w := &objectWriter{
		objects:   o,
		ctx:       ctx,
		name:      name,
		condition: Condition{New: opt.New, Replaces: opt.Replaces, Writer: rand.Text()},
	}
	defer w.abort()
	if err := write(w); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.finish()
}

// tooLarge returns the error for an object of more than MaxParts parts, with the way out.
func (o *Objects) tooLarge(name string) error {
	return fault(
		"write",
		name,
		fmt.Errorf(
			"%w, which takes %d parts of %d MiB, %d MiB in all: write more files of fewer bytes each, such as with more shards",
			ErrTooLarge,
			o.MaxParts,
			partSize>>20,
			int64(o.MaxParts)*partSize>>20,
		),
	)
}

// Stat asks for the object, and if there is none, for objects below it.
func (o *Objects) Stat(ctx context.Context, name string) (Info, error) {
	if _, key, err := split(name); err != nil {
		return Info{}, err
	} else if key != "" {
		found, err := o.object(ctx, "stat", name)
		if err == nil {
			return Info{Size: found.Size, Version: found.Version}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return Info{}, err
		}
	}
	_, err := o.List(ctx, name)
	return Info{Dir: true}, err
}

// List leaves out empty objects that some programs make to stand for folders.
func (o *Objects) List(ctx context.Context, dir string) ([]Entry, error) {
	var list []Entry
	err := o.pages(ctx, dir, func(prefix string, p Page) error {
		for _, f := range p.Folders {
			list = append(list, Entry{strings.TrimSuffix(strings.TrimPrefix(f, prefix), "/"), true})
		}
		for _, k := range p.Keys {
			list = append(list, Entry{strings.TrimPrefix(k, prefix), false})
		}
		return nil
	})
	if err == nil && len(list) == 0 {
		err = fault("open", dir, fs.ErrNotExist)
	}
	sortEntries(&list)
	return list, err
}

// pages calls use with each page of a folder.
func (o *Objects) pages(ctx context.Context, dir string, use func(prefix string, p Page) error) error {
	token := ""
	for {
		var page Page
		prefix := ""
		err := o.at(ctx, "list", dir, func(ctx context.Context, _ int, bucket, key string) (err error) {
			if key != "" {
				prefix = key + "/"
			}
			page, err = o.Service.List(ctx, bucket, prefix, token)
			return err
		})
		if err == nil {
			err = use(prefix, page)
		}
		if token = page.Next; err != nil || token == "" {
			return err
		}
	}
}

// MkdirAll does nothing: object stores have no folders.
func (o *Objects) MkdirAll(context.Context, string, fs.FileMode) error { return nil }

// Remove removes an object. A missing object is an error, though object stores do not report one.
func (o *Objects) Remove(ctx context.Context, name string) error {
	if _, err := o.object(ctx, "remove", name); err != nil {
		return err
	}
	return o.at(
		ctx,
		"remove",
		name,
		func(ctx context.Context, _ int, bucket, key string) error { return o.delete(ctx, bucket, key) },
	)
}

// delete removes an object; a missing one is fine.
func (o *Objects) delete(ctx context.Context, bucket, key string) error {
	err := o.Service.Delete(ctx, bucket, key)
	if errors.Is(err, fs.ErrNotExist) { // another process deleted it
		return nil
	}
	return err
}

// RemoveAll removes the object and all objects below it.
func (o *Objects) RemoveAll(ctx context.Context, name string) error {
	bucket, key, err := split(name)
	if err != nil {
		return err
	}
	remove := func(key string) error {
		return o.at(
			ctx,
			"remove",
			o.name(bucket, path.Clean(key)),
			func(ctx context.Context, _ int, bucket, _ string) error {
				return o.delete(ctx, bucket, key)
			},
		)
	}
	var folders []string
	err = o.pages(ctx, name, func(_ string, p Page) error {
		folders = append(folders, p.Folders...)
		return Parallel(len(p.Keys), func(i int) error { return remove(p.Keys[i]) })
	})
	for _, f := range folders {
		if err == nil {
			err = o.RemoveAll(ctx, o.name(bucket, strings.TrimSuffix(f, "/")))
		}
	}
	if err != nil || key == "" {
		return err
	}
	return remove(key)
}

// Move copies the object to its new name, then removes the old one.
func (o *Objects) Move(ctx context.Context, from, to string) error {
	f, err := o.Open(ctx, from)
	if err != nil {
		return err
	}
	err = o.Write(
		ctx,
		to,
		Options{Size: f.Size()},
		func(w io.Writer) error { _, err := io.Copy(w, Reader(f)); return err },
	)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return o.Remove(ctx, from)
}

// excludes reports whether the existing object violates the condition.
func (c Condition) excludes(there Object) bool {
	return c.New || c.Replaces != "" && c.Replaces != there.Version
}

// conditionFault returns the error for a condition that does not hold.
func conditionFault(c Condition) error {
	if c.New {
		return fs.ErrExist
	}
	return fmt.Errorf("%w: %w", ErrChanged, ErrCondition)
}

// sortEntries sorts by name and removes entries without one.
func sortEntries(list *[]Entry) {
	slices.SortFunc(*list, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	*list = slices.DeleteFunc(*list, func(e Entry) bool { return e.Name == "" })
}
