package stream

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"minsep/internal/param"
	"minsep/internal/store"
)

// RootSize is the length of a root key in bytes, and of a key file.
const RootSize = 32

// Root is the secret that all of a deployment's randomness comes from. It lives in a file that
// only its owner can read, or in an object with access by its bucket's policy, never on a
// command line, in a log or in a pipeline graph. Its zero value is not a key.
//
// The bytes lie behind a pointer, since Go prints the arguments of every call of a process that
// dies. Roots cannot be compared with ==, which would compare pointers; the same is true of a [Key].
type Root struct {
	_      [0]func()
	secret *[RootSize]byte
}

// String hides the secret from every formatting verb.
func (Root) String() string { return "stream.Root(hidden)" }

// GoString hides the secret from %#v.
func (Root) GoString() string { return "stream.Root(hidden)" }

// NewRoot draws a root key from the operating system.
func NewRoot() (r Root) {
	r.secret = new([RootSize]byte)
	rand.Read(r.secret[:]) // never fails: crypto/rand ends the program instead
	return r
}

// ParseRoot reads the contents of a key file: exactly [RootSize] bytes, not all equal. A file of
// equal bytes, such as one of /dev/zero, is no key, and everybody would guess it.
func ParseRoot(b []byte) (r Root, err error) {
	if len(b) != RootSize {
		return r, param.Fault("key file length", len(b),
			"must be exactly %d bytes; make one with `minsep keygen`", RootSize)
	}
	if bytes.Count(b, b[:1]) == RootSize {
		return r, param.Fault("key file", "all bytes are equal", "must be random; make one with `minsep keygen`")
	}
	return Root{secret: (*[RootSize]byte)(bytes.Clone(b))}, nil
}

// CreateKeyFile makes a new root key and writes it to path, with mode 0600 if the file is local. It
// never overwrites: nobody can restore a lost key.
func CreateKeyFile(path string) error {
	r := NewRoot()
	secret := store.Options{Mode: 0o600, New: true, InPlace: true}
	err := store.WriteFile(context.Background(), path, secret, r.secret[:])
	if errors.Is(err, fs.ErrExist) {
		return param.Fault("key file", path, "exists already and is never overwritten: name another file")
	}
	if err != nil {
		return fmt.Errorf("key file: %w", err)
	}
	return nil
}

// ReadKeyFile reads the root key in a file. It refuses a file of another length. It also refuses a
// local file that others may read or write, and anything that is not a regular file. For an object,
// the bucket's policy decides who can read it: only those who may know every secret of the runs
// should.
func ReadKeyFile(path string) (Root, error) {
	b, err := store.ReadSecret(context.Background(), path, 1<<10)
	refused := func(value any, rule string) error {
		return &param.Error{Param: "key file", Value: value, Rule: rule}
	}
	noKey := func(size int64) error {
		return refused(
			path,
			fmt.Sprintf(
				"is no key: has %d bytes: must have exactly %d; minsep keygen FILE makes one",
				size,
				RootSize,
			),
		)
	}
	if open, is := errors.AsType[*store.ModeError](err); is {
		if open.Size != RootSize { // not a key at all: advice on its mode would mislead
			return Root{}, noKey(open.Size)
		}
		return Root{}, refused(path, open.Error()+": must be 0600 (chmod 600)")
	}
	if long, is := errors.AsType[*store.TooLongError](err); is {
		return Root{}, noKey(long.Size)
	}
	if errors.Is(err, store.ErrNotRegular) {
		return Root{}, refused(path, "must be a regular file")
	}
	if err != nil {
		return Root{}, fmt.Errorf("key file: %w", err)
	}
	r, err := ParseRoot(b)
	if bad, ok := errors.AsType[*param.Error](err); ok {
		return Root{}, &param.Error{
			Param: "key file",
			Value: path,
			Rule:  strings.TrimPrefix(bad.Message(bad.Param), "key file "),
		}
	}
	return r, err
}

// RunID names one training run. It is public, drawn at random when the run directory
// is made, and serves one run only: two training runs with the same noise reveal their difference.
type RunID [16]byte

// NewRunID draws a run id from the operating system.
func NewRunID() (id RunID) {
	rand.Read(id[:])
	return id
}

// ParseRunID reads the 32 hexadecimal digits of a run id.
func ParseRunID(s string) (id RunID, err error) {
	if len(s) != hex.EncodedLen(len(id)) {
		return id, param.Fault("run id", s, "must be 32 hexadecimal digits")
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return RunID{}, param.Fault("run id", s, "must be 32 hexadecimal digits")
	}
	return id, nil
}

// String returns the 32 hexadecimal digits.
func (id RunID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText writes the 32 hexadecimal digits.
func (id RunID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the output of MarshalText.
func (id *RunID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseRunID(string(b))
	return err
}

// Key is the sub-key of one purpose of one stage of one run. Its zero value is not a key.
type Key struct {
	_      [0]func()
	secret *[32]byte // a pointer, as in a [Root]
}

// IsZero reports whether k is not a key.
func (k Key) IsZero() bool { return k.secret == nil }

// String hides the secret from every formatting verb.
func (Key) String() string { return "stream.Key(hidden)" }

// GoString hides the secret from %#v.
func (Key) GoString() string { return "stream.Key(hidden)" }

// Key derives the sub-key HKDF-SHA256(root, salt = run ‖ params, info = purpose).
// params is the SHA-256 of the parameters that change the stage's result, and of nothing else: the
// number of shards or workers must not enter it, or another number would draw other numbers. Keys
// of different runs, parameters or purposes are independent.
func (r Root) Key(run RunID, params [sha256.Size]byte, purpose string) Key {
	salt := append(run[:], params[:]...)
	return expand(r.secret[:], salt, purpose)
}

// PublicKey returns the key for draws that anybody must be able to repeat, such as a verification:
// SHA-256(purpose ‖ 0 ‖ config). It is no secret.
func PublicKey(purpose string, config []byte) Key {
	h := sha256.New()
	h.Write([]byte(purpose))
	h.Write([]byte{0})
	h.Write(config)
	return Key{secret: (*[32]byte)(h.Sum(nil))}
}

// Sub derives an independent key of k for a part of its purpose.
func (k Key) Sub(purpose string) Key { return expand(k.secret[:], nil, purpose) }

// Salted derives an independent key of k for a part of its purpose and a salt.
func (k Key) Salted(salt []byte, purpose string) Key { return expand(k.secret[:], salt, purpose) }

// Commitment returns a public value that binds to k without revealing it: two commitments are equal
// only if the keys are.
func (k Key) Commitment() [sha256.Size]byte { return *expand(k.secret[:], nil, "commitment").secret }

// expand returns 32 bytes of HKDF-SHA256. It sees keys of 32 bytes only, so that it cannot fail.
func expand(secret, salt []byte, info string) Key {
	b, err := hkdf.Key(sha256.New, secret, salt, info, 32)
	if err != nil { // 32 bytes are never too many for SHA-256
		panic("stream: hkdf: " + err.Error())
	}
	return Key{secret: (*[32]byte)(b)}
}
