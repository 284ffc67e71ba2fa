package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestKeygenOnAFullDisk: it is no fault of the command line, and leaves nothing that could be taken
// for a key.
func TestKeygenOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, 0) })
	f, err := os.Create(filepath.Join(dir, "full"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 512))
	}
	f.Close()
	key := filepath.Join(dir, "key")
	var stdout, stderr bytes.Buffer
	if code := execute(context.Background(), []string{"keygen", key}, &stdout, &stderr); code != exitFailure || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
	if _, err := os.Stat(key); err == nil {
		t.Error("a part of a key was left")
	}
}
