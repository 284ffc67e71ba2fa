package main

// Processes under test are killed at events instead of times, so that a test does the same on a slow, a
// busy and a fast machine.

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// moment is an event: at least files files (at least one) match glob.
type moment struct {
	glob  string // absolute
	files int
}

// reached reports whether the moment has come.
func (m moment) reached(t testing.TB) bool {
	t.Helper()
	paths, err := filepath.Glob(m.glob)
	if err != nil {
		t.Fatal(err)
	}
	return len(paths) >= max(1, m.files)
}

// killedOnce starts a command. When the moment is reached, and after looks further polls, it sends the
// signal. It waits for the end and reports whether the signal was sent in time; if not, the command
// ended by itself. err is the command's.
func killedOnce(t testing.TB, c *exec.Cmd, m moment, looks int, signal os.Signal) (sent bool, err error) {
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
		case <-time.After(time.Millisecond): // between polls
		}
		switch reached = reached || m.reached(t); {
		case reached && looks == 0:
			if c.Process.Signal(signal) != nil { // it has ended already
				return false, <-ended
			}
			err := <-ended
			return err != nil, err
		case reached:
			looks--
		}
	}
}
