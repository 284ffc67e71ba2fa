// Package killtest ends processes of tests at events rather than at times, so that a test does the
// same on a slow machine, on a busy one and on a fast one.
package killtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Moment is reached when as many files as Files, and no fewer than one, match Glob, and the first
// of them has at least Lines lines.
type Moment struct {
	Glob         string // absolute
	Files, Lines int
}

func (m Moment) String() string {
	return fmt.Sprintf("%s (%d files, %d lines)", m.Glob, max(1, m.Files), m.Lines)
}

// Reached reports whether it is.
func (m Moment) Reached(t testing.TB) bool {
	t.Helper()
	paths, err := filepath.Glob(m.Glob)
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) < max(1, m.Files) {
		return false
	}
	if m.Lines == 0 {
		return true
	}
	content, err := os.ReadFile(paths[0])
	return err == nil && bytes.Count(content, []byte("\n")) >= m.Lines
}

// Once starts a command and sends it a signal as soon as the moment is reached, after so many
// further looks. It waits for the end and reports whether the signal came before it: not so if the
// command ended by itself, well or not, which err tells.
func Once(t testing.TB, c *exec.Cmd, m Moment, looks int, signal os.Signal) (sent bool, err error) {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for reached := false; ; {
		select {
		case err := <-ended:
			return false, err
		case <-time.After(time.Millisecond): // between two looks
		}
		switch reached = reached || m.Reached(t); {
		case reached && looks == 0:
			if c.Process.Signal(signal) != nil { // it has ended
				return false, <-ended
			}
			err := <-ended
			return err != nil, err
		case reached:
			looks--
		}
	}
}
