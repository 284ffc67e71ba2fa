// Package keyref lets a DoFn find its key without carrying it. The fields of a DoFn travel in the
// pipeline graph, which runners store and show. So a DoFn holds the location of the root key and
// the inputs of the derivation, never a key.
package keyref

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/internal/stream"
)

// Ref names a root key, and the run and parameters for which a key is derived from it. It is
// public. Every worker must be able to read the file at KeyURI.
type Ref struct {
	KeyURI string            // path of a local file, file:///path, or an object: gs://bucket/key
	RunID  stream.RunID      // of the training run
	Params [sha256.Size]byte // SHA-256 of the stage's parameters
}

// Validate reports a place that no worker can read. It does not read the key file.
func (r Ref) Validate() error {
	if err := store.Check(r.KeyURI); err != nil {
		return &param.Error{
			Param: "key file",
			Value: fmt.Sprintf("%q", r.KeyURI),
			Rule:  "must be a path, file:///path, or an object of a known store, that every worker can read",
		}
	}
	return nil
}

// Key reads the root key and derives the key for purpose. DoFns call it in Setup.
func (r Ref) Key(ctx context.Context, purpose string) (stream.Key, error) {
	if err := errors.Join(ctx.Err(), r.Validate()); err != nil {
		return stream.Key{}, err
	}
	root, err := stream.ReadKeyFile(r.KeyURI)
	if err != nil {
		return stream.Key{}, err
	}
	return root.Key(r.RunID, r.Params, purpose), nil
}
