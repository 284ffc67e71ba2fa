package pipelines_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/pipelines"
	"minsep/sampling"
)

// poisson is the sampler of these tests.
var poisson = sampling.Params{Scheme: "poisson", Steps: 20, Prob: 0.1}

// formed makes a run directory with batches of 100 numbered examples.
func formed(t *testing.T, out, key string) pipelines.Options {
	t.Helper()
	o := pipelines.Options{Out: out, KeyFile: key}
	must.Get((pipelines.Form{Params: poisson, Examples: 100}).Run(t.Context(), o))(t)
	return o
}

// TestLockBeforeLook: a stage does not look at a directory in which another command writes, unless
// it runs under that command's lock.
func TestLockBeforeLook(t *testing.T) {
	noise, o := newNoise(t)
	o = formed(t, o.Out, o.KeyFile)
	must.Do(t, os.WriteFile(filepath.Join(o.Out, manifest.BatchesFolder, manifest.IndexName), []byte("half"), 0o600))
	release := must.Get(manifest.TakeLock(o.Out))(t)
	if _, err := noise.Run(t.Context(), o); !errors.Is(err, manifest.ErrLocked) {
		t.Errorf("under another's lock: %v", err)
	}
	o.Held = true
	if _, err := noise.Run(t.Context(), o); err == nil || errors.Is(err, manifest.ErrLocked) || !strings.Contains(err.Error(), manifest.BatchesFolder) {
		t.Errorf("under its own lock: %v", err)
	}
	release()
	o.Held = false
	if _, err := noise.Run(t.Context(), o); err == nil || errors.Is(err, manifest.ErrLocked) {
		t.Errorf("after the lock: %v", err)
	}
	if _, err := os.Stat(filepath.Join(o.Out, manifest.LockName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock is left: %v", err)
	}
}
