package pipelines_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestPlanWrittenMeanwhile: a stage that waits for the lock of minsep run does not write in the directory
// of its plan.
func TestPlanWrittenMeanwhile(t *testing.T) {
	noise, o := newNoise(t)
	o = formed(t, o.Out, o.KeyFile)
	release := must.Get(manifest.TakeLock(o.Out))(t)
	refused := make(chan error)
	go func() {
		_, err := noise.Run(t.Context(), o)
		refused <- err
	}()
	// The stage has looked for the lock by then, and tries again; a stage that is slower sees the plan too.
	time.Sleep(100 * time.Millisecond)
	run := must.Get(manifest.ReadRun(t.Context(), o.Out))(t)
	planned := run
	planned.Plan = &manifest.RunPlan{SHA256: sha256.Sum256([]byte("{}")), Plan: json.RawMessage("{}")}
	must.Do(t, manifest.WriteRun(o.Out, planned, &run))
	release()
	if err := <-refused; err == nil || !strings.Contains(err.Error(), "has a plan") {
		t.Errorf("a stage in the directory of a plan: %v", err)
	}
	must.Get(manifest.TakeLock(o.Out))(t)() // the refused stage has given it back
}
