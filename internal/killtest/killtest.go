// Package killtest kills processes under test at events instead of times, so that a test does the
// same on a slow, a busy and a fast machine.
package killtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Moment is an event: at least Files files (at least one) match Glob.
type Moment struct {
	Glob  string // absolute
	Files int
}

// Reached reports whether the moment has come.
func (m Moment) Reached(t testing.TB) bool {
	t.Helper()
	paths, err := filepath.Glob(m.Glob)
	if err != nil {
		t.Fatal(err)
	}
	return len(paths) >= max(1, m.Files)
}

// Once starts a command. When the moment is reached, and after looks further polls, it sends the
// signal. It waits for the end and reports whether the signal was sent in time; if not, the command
// ended by itself. err is the command's.
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
		case <-time.After(time.Millisecond): // between polls
		}
		switch reached = reached || m.Reached(t); {
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
