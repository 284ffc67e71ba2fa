package pipelines_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/pipelines"
	"minsep/internal/stages"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

const (
	recoverExamples = 4
	recoverSteps    = 3
)

// TestPublicFilesDoNotTellBatches tries all batches that a few examples can have, as anybody can
// who reads the public files of a run: the index of the batches follows from them. Without the
// index's secret bytes one digest gives the batches away; in the public files is none.
func TestPublicFilesDoNotTellBatches(t *testing.T) {
	dir := t.TempDir()
	key, out := filepath.Join(dir, "key"), filepath.Join(dir, "run")
	must.Do(t, stream.CreateKeyFile(key))
	plan := stages.Plan{
		Examples: recoverExamples,
		Scheme:   sampling.Params{Scheme: "poisson", Steps: recoverSteps, Prob: .5},
		Strategy: mechanism.Params{Kind: "identity", Steps: recoverSteps},
		Privacy:  stages.PlanPrivacy{Epsilon: 4, Delta: 1e-2},
		Noise:    stages.PlanNoise{Coordinates: 3, ClipNorm: 1},
		Key:      key, Out: out,
	}
	must.Get(pipelines.RunPlan(t.Context(), plan, pipelines.Options{}, pipelines.Settings{}))(t)
	folder := filepath.Join(out, manifest.BatchesFolder)
	batches := must.Get(manifest.OpenBatches(t.Context(), folder))(t)
	var truth uint
	err := batches.Each(context.Background(), func(step int, rows []int64, _ []int) error {
		for _, r := range rows {
			truth |= 1 << (step*recoverExamples + int(r))
		}
		return nil
	})
	must.Do(t, err)

	known := *batches.Index // all but files and secret is public, or follows from what is
	known.Files, known.Secret = nil, nil
	leaked := indexDigest(t, known, truth)
	if got, found := recoverBatches(t, known, []manifest.Digest{leaked}); !found || got != truth {
		t.Fatalf("of an index without secret bytes the batches %b are found as %b (%v): the attack is no test", truth, got, found)
	}
	public := publicDigests(t, out)
	if len(public) < 10 {
		t.Fatalf("only %d digests in the public files", len(public))
	}
	if got, found := recoverBatches(t, known, public); found {
		t.Errorf("the public files tell the batches: %b, they are %b", got, truth)
	}
	if batches.Index.Secret == nil {
		t.Fatal("the index has no secret bytes")
	}
	for _, path := range publicFiles(t, out) {
		b := must.Get(os.ReadFile(path))(t)
		if bytes.Contains(b, []byte(batches.Index.Secret.String())) {
			t.Errorf("%s holds the secret bytes", path)
		}
	}
}

// recoverBatches tries all batches.
func recoverBatches(t *testing.T, known manifest.Index, digests []manifest.Digest) (batches uint, found bool) {
	for batches := range uint(1) << (recoverExamples * recoverSteps) {
		if slices.Contains(digests, indexDigest(t, known, batches)) {
			return batches, true
		}
	}
	return 0, false
}

// indexDigest is the SHA-256 of the index of batches: bit step·examples + row says who takes part.
func indexDigest(t *testing.T, known manifest.Index, batches uint) manifest.Digest {
	t.Helper()
	var rows []int32
	indptr := []int64{0}
	for step := range recoverSteps {
		for r := range recoverExamples {
			if batches>>(step*recoverExamples+r)&1 == 1 {
				rows = append(rows, int32(r))
			}
		}
		indptr = append(indptr, int64(len(rows)))
	}
	known.Files = []manifest.File{
		npyEntry(t, manifest.IndptrName(0, 1), manifest.DInt64, len(indptr), indptr),
		npyEntry(t, manifest.RowsName(0, 1), manifest.DInt32, len(rows), rows),
	}
	b := must.Get(json.MarshalIndent(known, "", "  "))(t)
	return sha256.Sum256(append(b, '\n'))
}

func npyEntry(t *testing.T, name string, dtype manifest.DType, n int, values any) manifest.File {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, (manifest.NPYHeader{DType: dtype, Shape: []int{n}}).Write(&b))
	must.Do(t, binary.Write(&b, binary.LittleEndian, values))
	return manifest.File{Name: name, Bytes: int64(b.Len()), SHA256: sha256.Sum256(b.Bytes())}
}

// publicFiles are the files of a run directory that others may read.
func publicFiles(t *testing.T, out string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && info.Mode().Perm()&0o077 == 0:
			return filepath.SkipDir
		case !d.IsDir() && info.Mode().Perm()&0o077 != 0:
			paths = append(paths, path)
		}
		return nil
	})
	must.Do(t, err)
	return paths
}

// publicDigests are all SHA-256 in the public files.
func publicDigests(t *testing.T, out string) (digests []manifest.Digest) {
	t.Helper()
	for _, path := range publicFiles(t, out) {
		b := must.Get(os.ReadFile(path))(t)
		for _, hex := range regexp.MustCompile(`[0-9a-f]{64}`).FindAll(b, -1) {
			var d manifest.Digest
			must.Do(t, d.UnmarshalText(hex))
			digests = append(digests, d)
		}
	}
	return digests
}
