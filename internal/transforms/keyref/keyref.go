// Package keyref lets a DoFn find its key without carrying it. The fields of a DoFn travel in the
// pipeline graph, which runners store and show. So a DoFn holds the location of the root key and
// the inputs of the derivation, never a key.
package keyref

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/internal/stream"
)

// Ref names a root key, and the run and parameters for which a key is derived from it. It is
// public. Every worker must be able to read the file at KeyURI.
type Ref struct {
	KeyURI string       `json:"key_uri"`       // path of a local file, file:///path, or an object: gs://bucket/key
	RunID  stream.RunID `json:"run_id"`        // of the training run
	Params string       `json:"params_sha256"` // hexadecimal SHA-256 of the stage's parameters
}

// New returns the reference for parameters with the given SHA-256.
func New(keyURI string, run stream.RunID, params [sha256.Size]byte) Ref {
	return Ref{KeyURI: keyURI, RunID: run, Params: hex.EncodeToString(params[:])}
}

// Validate reports every fault of r. It does not read the key file.
func (r Ref) Validate() error {
	c := param.Checker{}
	c.Add(r.check())
	_, err := r.params()
	c.Add(err)
	return c.Err()
}

// Key reads the root key and derives the key for purpose. DoFns call it in Setup.
func (r Ref) Key(ctx context.Context, purpose string) (stream.Key, error) {
	if err := ctx.Err(); err != nil {
		return stream.Key{}, err
	}
	if err := r.check(); err != nil {
		return stream.Key{}, err
	}
	params, err := r.params()
	if err != nil {
		return stream.Key{}, err
	}
	root, err := stream.ReadKeyFile(r.KeyURI)
	if err != nil {
		return stream.Key{}, err
	}
	return root.Key(r.RunID, params, purpose), nil
}

func (r Ref) check() error {
	if err := store.Check(r.KeyURI); err != nil {
		return &param.Error{
			Param: "key file",
			Value: fmt.Sprintf("%q", r.KeyURI),
			Rule:  "must be a path, file:///path, or an object of a known store, that every worker can read",
		}
	}
	return nil
}

func (r Ref) params() (sum [sha256.Size]byte, err error) {
	b, err := hex.DecodeString(r.Params)
	if err != nil || len(b) != len(sum) {
		return sum, &param.Error{
			Param: "parameters' SHA-256",
			Value: fmt.Sprintf("%q", r.Params),
			Rule:  "must be 64 hexadecimal digits",
		}
	}
	return [sha256.Size]byte(b), nil
}
