package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"
)

// TestStandardInputThatNeverEnds: a command that is stopped does not wait for it.
func TestStandardInputThatNeverEnds(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	ctx, stop := context.WithCancel(context.Background())
	go func() { // once the copying has begun
		io.WriteString(w, "1,2\n")
		stop()
	}()
	if err := copyTo(ctx, filepath.Join(t.TempDir(), "copy"), r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
