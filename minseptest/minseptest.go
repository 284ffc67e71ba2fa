// Package minseptest is for tests of programs that use package transforms. [Training] makes a
// training without a key file of yours, and [SameBatches] compares the batches of two of them;
// [Graph] makes small graphs of owners.
//
// A training for a test has a key and a run id that everybody knows, so that its batches and its
// noise are the same every time. Its run directory says that it is for a test: trainers refuse it,
// and `minsep inspect` says that it may serve no training.
//
// Stability: stable.
package minseptest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/adopt"
	"minsep/internal/manifest"
	"minsep/transforms"
)

func init() {
	register.Function2x0(pairs)
	register.Emitter2[int64, string]()
}

// RunFolder is the name of the run directory of a [Training], in the folder that it was given.
const RunFolder = "run"

// Training makes a training for a test in a folder, such as t.TempDir(), that has none yet: with the
// run directory [RunFolder] and a key beside it.
func Training(folder string) (*transforms.Training, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	key := filepath.Join(folder, "key")
	public := sha256.Sum256([]byte("minseptest: a key that everybody knows"))
	if err := os.WriteFile(key, public[:], 0o600); err != nil {
		return nil, err
	}
	run := manifest.NewRun()
	run.Test = true
	copy(run.RunID[:], public[:])
	dir := filepath.Join(folder, RunFolder)
	if err := manifest.WriteRun(dir, run, nil); err != nil {
		return nil, err
	}
	return adopt.Training(dir, key, run.RunID).(*transforms.Training), nil
}

// Graph is a small graph, PCollection<KV<int64, string>>: owner-0 to owner-(owners-1) have the
// examples perOwner·i to perOwner·(i+1), of which the last is the next owner's first. So every
// example but those at the ends of an owner has one owner, and these have two.
func Graph(s beam.Scope, owners, perOwner int) beam.PCollection {
	list := make([][]int, owners)
	for i := range list {
		list[i] = []int{i, perOwner}
	}
	return beam.ParDo(s.Scope("minseptest.Graph"), pairs, beam.CreateList(s, list))
}

// pairs emits the pairs of an owner, given as its number and the number of its examples.
func pairs(owner []int, emit func(int64, string)) {
	i, perOwner := owner[0], owner[1]
	for example := perOwner * i; example <= perOwner*(i+1); example++ {
		emit(int64(example), fmt.Sprintf("owner-%d", i))
	}
}

// SameBatches returns an error if the batches of two run directories differ in their parameters or
// in the rows of a step. They must have been written, by Batches.Write.
func SameBatches(ctx context.Context, run, other string) error {
	a, err := read(ctx, run)
	if err != nil {
		return err
	}
	b, err := read(ctx, other)
	if err != nil {
		return err
	}
	if a.digest != b.digest {
		return errors.New("the batches have other parameters")
	}
	for step, rows := range a.rows {
		if !slices.Equal(rows, b.rows[step]) {
			return fmt.Errorf(
				"step %d has other rows: %d examples, and %d in the other run",
				step,
				len(rows),
				len(b.rows[step]),
			)
		}
	}
	return nil
}

// written are the batches of a run directory.
type written struct {
	digest manifest.Digest // of their parameters
	rows   [][]int64       // of each step
}

func read(ctx context.Context, run string) (w written, err error) {
	b, err := manifest.OpenBatches(ctx, filepath.Join(run, manifest.BatchesFolder))
	if err != nil {
		return w, err
	}
	w.digest = b.Index.ParamsSHA256
	err = b.Each(ctx, func(_ int, rows []int64, _ []int) error {
		w.rows = append(w.rows, slices.Clone(rows))
		return nil
	})
	return w, err
}
