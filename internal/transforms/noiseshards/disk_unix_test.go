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
)

// TestFullDisk lets files grow to 4 KiB only, as on a full disk: the task fails and leaves no part
// of a file of noise.
func TestFullDisk(t *testing.T) {
	c, r := newConfig(t, newKey(t), testStrategies()[1])
	c.DType = manifest.DFloat64
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	low := old
	low.Cur = 4096
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &low); err != nil {
		t.Fatal(err)
	}
	_, err := writer(t, c, r, func() {}).run(context.Background())
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, syscall.EFBIG) {
		t.Errorf("error %v", err)
	}
	entries, err := os.ReadDir(filepath.Join(c.Dir, manifest.NoiseShard(1, c.Shards)))
	if err != nil || len(entries) != 0 {
		t.Errorf("%d files are left (%v)", len(entries), err)
	}
}
