package transforms

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"minsep/internal/adopt"
	"minsep/internal/graphio"
	"minsep/internal/manifest"
	"minsep/internal/store"
	"minsep/internal/stream"
)

// Training is one training run: a run directory, a run id of its own, and the place of the root key.
// It is the only way to secret randomness, and serves one bound, one sampling and one noise: what
// failed is repeated with a new training. The zero value and nil are refused by every transform.
type Training struct {
	dir, keyFile string
	id           stream.RunID

	mu   sync.Mutex
	used map[string]bool // by purpose
}

// NewTraining makes a run directory with a fresh run id. dir must not hold a run yet, also not one of
// another process; keyFile is of `minsep keygen`.
//
// The key never becomes part of a pipeline. Every worker reads keyFile under this name, and writes in
// dir if anything is written: with workers on other machines both are in an object store, or in a
// folder that all of them mount.
func NewTraining(ctx context.Context, dir, keyFile string) (*Training, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := stream.ReadKeyFile(keyFile); err != nil {
		return nil, err
	}
	key, err := store.Abs(keyFile) // workers may run in another folder
	if err != nil {
		return nil, err
	}
	abs, err := store.Abs(dir)
	if err != nil {
		return nil, err
	}
	run, made, err := manifest.OpenRun(abs)
	if err != nil {
		return nil, err
	}
	if !made {
		return nil, fmt.Errorf(
			"run directory %s: holds a training already, and a run id serves one: name another directory",
			dir,
		)
	}
	return &Training{dir: abs, keyFile: key, id: run.RunID}, nil
}

func init() {
	adopt.Training = func(dir, keyFile string, id stream.RunID) any {
		return &Training{dir: dir, keyFile: keyFile, id: id}
	}
	adopt.Graph = func(source *graphio.Source) any { return Graph{source: source} }
}

// RunID returns the run id, 32 hexadecimal digits, which is public.
func (t *Training) RunID() string {
	if t == nil {
		return ""
	}
	return t.id.String()
}

var errNoTraining = errors.New("no training is given: make one with NewTraining")

func (t *Training) check() error {
	if t == nil || t.id == (stream.RunID{}) || t.keyFile == "" {
		return errNoTraining
	}
	return nil
}

// claim uses the training for a purpose, such as "sampling". Another use for it is refused.
func (t *Training) claim(purpose string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.used[purpose] {
		return fmt.Errorf(
			"the training has a %s already: a second one would repeat its random numbers: make another training with NewTraining",
			purpose,
		)
	}
	if t.used == nil {
		t.used = make(map[string]bool)
	}
	t.used[purpose] = true
	return nil
}
