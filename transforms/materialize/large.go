package materialize

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"

	"minsep/internal/packed"
	"minsep/internal/store"
)

// A large row travels as a file of Config.SharedDir, which is written once however many entries
// the row has: a task holds one such row, where sorting, merging and passing on would hold
// many. A mark therefore follows an entry in a record, and then the values or the name of their
// file.
const (
	valuesFollow = 0
	nameFollows  = 1
)

// largeOf is the number of large rows that together would fill a bundle: a row is large from
// 1/largeOf of a bundle on.
const largeOf = 64

// isLarge reports whether values make a large row.
func (c Config) isLarge(values []byte) bool {
	after := c.SharedAfter
	if after == 0 {
		after = packed.DefaultOverflowAfter
	}
	return int64(len(values)) > after/largeOf
}

// appendLarge writes the values of a large row to a file, and appends its name.
func (c Config) appendLarge(ctx context.Context, dst, values []byte) ([]byte, error) {
	name := rand.Text()
	err := store.WriteFile(ctx, store.Join(c.SharedDir, name), store.Options{Mode: 0o600}, values)
	if err != nil {
		return dst, fmt.Errorf("materialize: writing a large row: %w", err)
	}
	return append(append(dst, nameFollows), name...), nil
}

// largeReader reads large rows, one at a time.
type largeReader struct {
	dir  string
	name string
	held []byte // the values of the row of that name
}

// values returns the values that rest holds or names, from the mark on. They are valid until the
// next call.
func (r *largeReader) values(ctx context.Context, rest []byte) ([]byte, error) {
	switch {
	case len(rest) == 0:
		return nil, errRecord
	case rest[0] == valuesFollow:
		return rest[1:], nil
	case r.name == string(rest[1:]):
		return r.held, nil
	}
	r.name = ""
	file, err := store.Open(ctx, store.Join(r.dir, string(rest[1:])))
	if err != nil {
		return nil, fmt.Errorf("materialize: reading a large row: %w", err)
	}
	defer file.Close()
	size := file.Size()
	if size > int64(cap(r.held)) {
		r.held = nil // before there is the next one
		r.held = make([]byte, size)
	}
	r.held = r.held[:size]
	if _, err := io.ReadFull(io.NewSectionReader(file, 0, size), r.held); err != nil {
		return nil, fmt.Errorf("materialize: reading a large row: %w", err)
	}
	r.name = string(rest[1:])
	return r.held, nil
}
