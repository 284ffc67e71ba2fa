package killtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"minsep/internal/store"
)

// Variables of the environment for [Arm].
const (
	listVariable = "MINSEP_TEST_CHANGES" // a file: lists the changes there
	killVariable = "MINSEP_TEST_KILL"    // n: ends the process before its change n, from 0
)

// Arm makes this process one that [Changes] or [BeforeChange] has started: it follows the
// environment's request.
func Arm() {
	if path := os.Getenv(listVariable); path != "" {
		list, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			panic(err)
		}
		store.BeforeChange = func(kind, path string) { fmt.Fprintln(list, kind, path) }
	}
	last, err := strconv.ParseInt(os.Getenv(killVariable), 10, 64)
	if err != nil {
		return
	}
	var count atomic.Int64
	store.BeforeChange = func(string, string) {
		if count.Add(1) <= last {
			return
		}
		self, err := os.FindProcess(os.Getpid())
		if err != nil || self.Kill() != nil {
			panic("cannot end this process")
		}
		select {} // until it has ended
	}
}

// Changes runs a command to its end and lists the changes of files and folders that it makes, such
// as "rename run/run.json", in their order.
func Changes(t testing.TB, c *exec.Cmd) (changes []string) {
	t.Helper()
	list := filepath.Join(t.TempDir(), "changes")
	c.Env = append(c.Environ(), listVariable+"="+list)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, out)
	}
	b, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// BeforeChange runs a command and ends it with no warning before its change n, from 0. It reports
// whether there was one; if not, the command must succeed.
func BeforeChange(t testing.TB, c *exec.Cmd, n int) (killed bool) {
	t.Helper()
	var out bytes.Buffer
	c.Env, c.Stdout, c.Stderr = append(c.Environ(), fmt.Sprintf("%s=%d", killVariable, n)), &out, &out
	err := c.Run()
	if err != nil && c.ProcessState.Exited() {
		t.Fatalf("%v, to be ended before change %d: %v\n%s", c.Args, n, err, &out)
	}
	return err != nil
}
