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

// Service are the requests of an object store: [Objects] makes an [FS] of it. Its
// methods make one attempt each. A missing object or bucket wraps fs.ErrNotExist, a denied request
// fs.ErrPermission, a condition that does not hold is ErrCondition.
type Service interface {
	Stat(ctx context.Context, bucket, key string) (Object, error)
	// Read fills dst from the byte at, or returns how much of it is good and an error. An object of
	// another version is ErrCondition.
	Read(ctx context.Context, bucket, key string, o Object, at int64, dst []byte) (n int, err error)
	// List returns a page of the contents of a folder: prefix is "" or ends in a slash.
	List(ctx context.Context, bucket, prefix, token string) (Page, error)
	Put(ctx context.Context, bucket, key string, data []byte, c Condition) error
	// Upload begins an object that is too large for Put.
	Upload(ctx context.Context, bucket, key string, c Condition) (Upload, error)
	Delete(ctx context.Context, bucket, key string) error
	// Temporary reports whether a request that failed so may be repeated. Faults of the connection
	// are.
	Temporary(err error) bool
}

// Upload is an object in parts. Its methods make one attempt each, and after a temporary fault the
// same is called again.
type Upload interface {
	Part(ctx context.Context, number int, data []byte) error // numbers from 1, in order
	Complete(ctx context.Context) error
	Abort(ctx context.Context) error
}

// ErrCondition is the error of a [Service] where the condition of a request does not hold.
var ErrCondition = errors.New("precondition failed")

// errBucket is the fault of a name without a key.
var errBucket = errors.New("is a bucket")

// Object describes an object of a store.
type Object struct {
	Size    int64
	Version string // of its contents: a generation or an ETag
	Writer  string // the Writer of its [Condition], or ""
	CRC32C  *uint32
}

// Page is a part of a list.
type Page struct {
	Folders []string // prefixes, with their slash
	Keys    []string
	Next    string // the token of the next page, or ""
}

// Condition must hold for an object to be written.
type Condition struct {
	New      bool   // there is none
	Replaces string // or it has this version; "" is any or none
	Writer   string // is kept with the object: tells an answer that was lost from another writer
}

// Objects is the FS of an object store.
type Objects struct {
	Scheme  string
	Service Service
	Limits  Limits
	// MaxParts is how many parts an upload may have, at least 1; 0: as many as there are. An object
	// that takes more is refused before the part too many is sent, and its upload is taken back.
	MaxParts int
}

// at calls f with the bucket and key of a name, again and again within the limits.
func (o *Objects) at(ctx context.Context, op, name string, f func(ctx context.Context, n int, bucket, key string) error) error {
	bucket, key, err := split(name)
	if err != nil {
		return err
	}
	return failed(ctx, fault(op, name, o.Limits.repeat(ctx, o.Service.Temporary, func(ctx context.Context, n int) error { return f(ctx, n, bucket, key) })))
}

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

// Open looks at the object. Its contents are read as they are asked for, and some ahead.
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

// Write keeps up to a part in memory: a small object is one request.
func (o *Objects) Write(ctx context.Context, name string, opt Options, write func(io.Writer) error) error {
	if _, key, err := split(name); err != nil {
		return err
	} else if key == "" {
		return fault("write", name, errBucket)
	}
	if o.MaxParts > 0 && opt.Size > int64(o.MaxParts)*partSize {
		return o.tooLarge(name)
	}
	w := &objectWriter{objects: o, ctx: ctx, name: name, condition: Condition{New: opt.New, Replaces: opt.Replaces, Writer: rand.Text()}}
	defer w.abort()
	if err := write(w); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.finish()
}

func (o *Objects) tooLarge(name string) error {
	return fault("write", name, fmt.Errorf("%w, which takes %d parts of %d MiB, %d MiB in all: write more files of fewer bytes each, such as with more shards",
		ErrTooLarge, o.MaxParts, partSize>>20, int64(o.MaxParts)*partSize>>20))
}

// Stat asks for the object, and then for objects under it.
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

// List leaves out the empty objects that some programs make in place of folders.
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

// pages goes through a folder.
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

// MkdirAll does nothing: there are no folders.
func (o *Objects) MkdirAll(context.Context, string, fs.FileMode) error { return nil }

// Remove removes an object. One that is not there is an error, though stores delete it gladly.
func (o *Objects) Remove(ctx context.Context, name string) error {
	if _, err := o.object(ctx, "remove", name); err != nil {
		return err
	}
	return o.at(ctx, "remove", name, func(ctx context.Context, _ int, bucket, key string) error { return o.delete(ctx, bucket, key) })
}

func (o *Objects) delete(ctx context.Context, bucket, key string) error {
	err := o.Service.Delete(ctx, bucket, key)
	if errors.Is(err, fs.ErrNotExist) { // gone meanwhile
		return nil
	}
	return err
}

// RemoveAll removes the object and those under it.
func (o *Objects) RemoveAll(ctx context.Context, name string) error {
	bucket, key, err := split(name)
	if err != nil {
		return err
	}
	remove := func(key string) error {
		return o.at(ctx, "remove", o.name(bucket, path.Clean(key)), func(ctx context.Context, _ int, bucket, _ string) error {
			return o.delete(ctx, bucket, key)
		})
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

// Move writes the new object and removes the old one.
func (o *Objects) Move(ctx context.Context, from, to string) error {
	f, err := o.Open(ctx, from)
	if err != nil {
		return err
	}
	err = o.Write(ctx, to, Options{Size: f.Size()}, func(w io.Writer) error { _, err := io.Copy(w, Reader(f)); return err })
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return o.Remove(ctx, from)
}

// excludes reports whether an object that is there keeps c from holding.
func (c Condition) excludes(there Object) bool {
	return c.New || c.Replaces != "" && c.Replaces != there.Version
}

// conditionFault explains a condition that does not hold.
func conditionFault(c Condition) error {
	if c.New {
		return fs.ErrExist
	}
	return fmt.Errorf("%w: %w", ErrChanged, ErrCondition)
}

func sortEntries(list *[]Entry) {
	slices.SortFunc(*list, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	*list = slices.DeleteFunc(*list, func(e Entry) bool { return e.Name == "" })
}
