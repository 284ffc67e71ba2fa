//go:build unix

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"minsep/internal/must"
)

// A command that is told twice ends at once, without the work of being stopped in an orderly way.
// Both signals are there when it goes on after a pause; where it was stopped by the first before it
// came to the second, another try is made.
func TestStoppedTwice(t *testing.T) {
	t.Parallel()
	s := slow[1]
	for range 20 {
		p := newPlace(t, 10)
		c, stderr := p.start(append(s.args, "--quiet")...)
		p.waitFor(s.file)
		for _, signal := range []os.Signal{syscall.SIGSTOP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCONT} {
			must.Do(t, c.Process.Signal(signal))
		}
		code := exitOf(c.Wait())
		p.clean("none")
		if code == 128+int(syscall.SIGTERM) && !strings.Contains(stderr.String(), "minsep: stopped by") {
			return
		}
		if code != 128+int(syscall.SIGINT) {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
	}
	t.Error("the second signal never ended the command")
}
