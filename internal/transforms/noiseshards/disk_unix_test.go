//go:build unix

package noiseshards

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"minsep/internal/manifest"
	"minsep/internal/must"
)

// TestFullDisk lets files grow to 4 KiB only, as on a full disk: the task fails and leaves no part
// of a file of noise.
func TestFullDisk(t *testing.T) {
	c, r := newConfig(t, newKey(t), testStrategies()[1])
	c.DType = manifest.DFloat64
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var old syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
	low := old
	low.Cur = 4096
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &low))
	_, err := writer(t, c, r, func() {}).run(context.Background())
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old))
	if !errors.Is(err, syscall.EFBIG) {
		t.Errorf("error %v", err)
	}
	entries, err := os.ReadDir(filepath.Join(c.Dir, manifest.NoiseShard(1, c.Shards)))
	if err != nil || len(entries) != 0 {
		t.Errorf("%d files are left (%v)", len(entries), err)
	}
}
