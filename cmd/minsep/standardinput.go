package main

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// spool copies standard input into the folder for temporary files, where a path is "-", and puts
// the copy in its place: a graph is read more than once. It returns when ctx ends, though standard
// input may not.
func (a *app) spool(cmd *cobra.Command, paths []string) error {
	copied := filepath.Join(a.temp.path, "standard-input")
	a.replace(copied, "- (standard input)")
	a.showAs(paths...)
	done := false
	for i, path := range paths {
		if path != "-" {
			continue
		}
		paths[i] = copied
		if done {
			continue // a file that is named twice is read once
		}
		done = true
		if err := copyTo(cmd.Context(), copied, cmd.InOrStdin()); err != nil {
			return err
		}
	}
	return nil
}

// copyTo makes a file of the content of in.
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
	case <-ctx.Done(): // the copying ends with the process, or at the next byte
		err = ctx.Err()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
