//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPolled: a blocking pipe, as standard input is, becomes one that the runtime waits for without
// a thread; other files stay as they are.
func TestPolled(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fd, err := unix.Dup(int(r.Fd())) // Fd lets it block
	if err != nil {
		t.Fatal(err)
	}
	blocking := os.NewFile(uintptr(fd), "stdin")
	defer blocking.Close()
	if err := blocking.SetReadDeadline(time.Now()); err == nil {
		t.Fatal("the pipe can be polled before")
	}
	f := polled(blocking).(*os.File)
	defer f.Close()
	if err := f.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatalf("the pipe cannot be polled: %v", err)
	}
	if _, err := w.Write([]byte{7}); err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := f.Read(b[:]); err != nil || b[0] != 7 {
		t.Fatalf("read %v, %v", b, err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if polled(file) != file {
		t.Error("a regular file was replaced")
	}
}
