package main

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// spoolInput copies standard input to a temporary file and puts its path in place of each "-" in paths,
// since a graph is read more than once. It returns when ctx ends even if standard input does not.
func spoolInput(a *app, cmd *cobra.Command, paths []string) error {
	copied := filepath.Join(a.temp, standardInput)
	done := false
	for i, path := range paths {
		if path != "-" {
			continue
		}
		paths[i] = copied
		if done {
			continue // "-" may be named twice, and standard input is read once
		}
		done = true
		if err := copyTo(cmd.Context(), copied, cmd.InOrStdin()); err != nil {
			return err
		}
	}
	return nil
}

// copyTo copies in to a new file at path, which only this user can read.
func copyTo(ctx context.Context, path string, in io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(f, in)
		copied <- err
	}()
	select {
	case err = <-copied:
	case <-ctx.Done(): // the copying goroutine ends with the process, or at the next byte
		err = ctx.Err()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
