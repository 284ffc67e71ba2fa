package pipelines_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minsep/internal/manifest"
	"minsep/internal/pipelines"
	"minsep/internal/stages"
	"minsep/internal/stream"
	"minsep/sampling"
)

// poisson is the sampler of these tests.
var poisson = sampling.Params{Scheme: "poisson", Steps: 20, Prob: 0.1}

// formed makes a run directory with batches of 100 numbered examples.
func formed(t *testing.T, out, key string) pipelines.Options {
	t.Helper()
	o := pipelines.Options{Out: out, KeyFile: key}
	if _, err := (pipelines.Form{Params: poisson, Examples: 100}).Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return o
}

// refused holds that every stage that looks refuses what is in the run directory, and that none of
// them leaves anything there.
func refused(t *testing.T, noise pipelines.Noise, o pipelines.Options, why string, withoutKey bool) {
	t.Helper()
	before, err := os.ReadDir(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	_, errNoise := noise.Run(t.Context(), o)
	errs := map[string]error{"noise": errNoise}
	if withoutKey {
		_, errs["account"] = pipelines.Account{Params: poisson, Examples: 100, Bands: 1, PlanPrivacy: stages.PlanPrivacy{Epsilon: 4, Delta: 1e-3}}.Run(t.Context(), o)
	}
	for stage, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "batches: does not match: "+why) {
			t.Errorf("%s: got %v, want %q", stage, err, why)
		}
	}
	after, err := os.ReadDir(o.Out)
	if err != nil || len(after) != len(before) {
		t.Errorf("there is %v, there was %v (%v)", after, before, err)
	}
}

// TestOneTraining has batches of another run, without a run.json, and of another key beside a run.
func TestOneTraining(t *testing.T) {
	noise, o := newNoise(t)
	dir := t.TempDir()
	one := formed(t, filepath.Join(dir, "one"), o.KeyFile)
	two := formed(t, filepath.Join(dir, "two"), o.KeyFile)
	batches := filepath.Join(one.Out, manifest.BatchesFolder)
	if err := errors.Join(os.RemoveAll(batches), os.Rename(filepath.Join(two.Out, manifest.BatchesFolder), batches)); err != nil {
		t.Fatal(err)
	}
	refused(t, noise, one, "it belongs to run ", true)
	if err := os.Remove(filepath.Join(one.Out, manifest.RunName)); err != nil {
		t.Fatal(err)
	}
	refused(t, noise, one, "it belongs to run ", true)

	three := formed(t, filepath.Join(dir, "three"), o.KeyFile)
	three.KeyFile = filepath.Join(dir, "other")
	if err := stream.CreateKeyFile(three.KeyFile); err != nil {
		t.Fatal(err)
	}
	refused(t, noise, three, "it was made with another root key", false)
}

// TestLockBeforeLook: a stage does not look at a directory in which another command writes, unless
// it runs under that command's lock.
func TestLockBeforeLook(t *testing.T) {
	noise, o := newNoise(t)
	o = formed(t, o.Out, o.KeyFile)
	if err := os.WriteFile(filepath.Join(o.Out, manifest.BatchesFolder, manifest.IndexName), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	lock, err := pipelines.TakeLock(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := noise.Run(t.Context(), o); !errors.Is(err, pipelines.ErrLocked) {
		t.Errorf("under another's lock: %v", err)
	}
	o.Held = lock
	if _, err := noise.Run(t.Context(), o); err == nil || errors.Is(err, pipelines.ErrLocked) || !strings.Contains(err.Error(), manifest.BatchesFolder) {
		t.Errorf("under its own lock: %v", err)
	}
	lock.Release()
	o.Held = nil
	if _, err := noise.Run(t.Context(), o); err == nil || errors.Is(err, pipelines.ErrLocked) {
		t.Errorf("after the lock: %v", err)
	}
	if _, err := os.Stat(filepath.Join(o.Out, manifest.LockName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock is left: %v", err)
	}
}
