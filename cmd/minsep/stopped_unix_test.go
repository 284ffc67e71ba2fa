//go:build unix

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

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

// TestStoppedWithinAnEvaluation: a strategy whose optimisation does not look at the signal for minutes is
// left behind.
func TestStoppedWithinAnEvaluation(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"strategy --kind banded-toeplitz --steps 1000000 --min-sep 1000000 --bands 1000000",
		"account --scheme b-min-sep --steps 1000000 --min-sep 1000000 --prob 1 --examples 1000 --bands 1000000 --epsilon 1 --delta 1e-5 --dry-run --out o",
	} {
		c := command(t, strings.Fields(line)...)
		c.Dir = t.TempDir()
		must.Do(t, c.Start())
		time.Sleep(2 * time.Second)
		must.Do(t, c.Process.Signal(syscall.SIGTERM))
		killed := time.AfterFunc(20*time.Second, func() { c.Process.Kill() })
		if code := exitOf(c.Wait()); code != 128+int(syscall.SIGTERM) {
			t.Errorf("%s: exit code %d", line, code)
		}
		killed.Stop()
	}
}
