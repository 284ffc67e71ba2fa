package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"minsep/internal/transforms/progress"
)

// openTerminal opens a terminal of so many columns: what is written to slave is read from master.
func openTerminal(t *testing.T, columns uint16) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
	}
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// TestTerminal: on a terminal of 40 columns progress is one line, without what longer lines before
// it had, and nothing is left of it.
func TestTerminal(t *testing.T) {
	const columns = 40
	master, slave := openTerminal(t, columns)
	progress.Reset()
	defer progress.Reset()
	s := &liveScreen{width: columns}
	var seen bytes.Buffer
	line := func() string { // on the liveScreen
		if len(s.lines) == 0 {
			return ""
		}
		return string(s.lines[0])
	}
	read := func(until func() bool) {
		t.Helper()
		b := make([]byte, 1024)
		for !until() {
			n, err := master.Read(b)
			if err != nil {
				t.Fatalf("%v after %q", err, seen.String())
			}
			seen.Write(b[:n])
			s.Write(b[:n])
			if len(s.lines) > 1 || len(s.lines) == 1 && len(s.lines[0]) > columns {
				t.Fatalf("%q takes more than a line", s.lines)
			}
		}
	}
	stop := (&app{terminal: slave, operation: operation{stderr: slave}}).watch("account")
	progress.Enter("estimating σ: candidate 1, δ between 0.0012 and 0.0009", "samples", 1000, 100_000)
	read(func() bool { return strings.Contains(line(), "estimating σ") && strings.HasSuffix(line(), "…") })
	progress.Enter("short", "", 0, 0)
	read(func() bool { return strings.HasSuffix(line(), "  short") })
	if len([]rune(line())) >= columns {
		t.Errorf("the terminal has %q", line())
	}
	stop()
	read(func() bool { return line() == "" })
}
