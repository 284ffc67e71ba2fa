package main

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

// Environment variables that [armed] obeys.
const (
	listVariable = "MINSEP_TEST_CHANGES" // path of a file: list the changes there
	killVariable = "MINSEP_TEST_KILL"    // n: kill this process before its change n, counted from 0
)

// armed makes this process obey the environment variables that [changesOf] and [killedBefore] set. The
// tested program calls it first.
func armed() {
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
		select {} // until the signal arrives
	}
}

// changesOf runs a command to its end and returns the changes of files and folders that it makes, in
// order, such as "rename run/run.json".
func changesOf(t testing.TB, c *exec.Cmd) (changes []string) {
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

// killedBefore runs a command and kills it just before its change n, counted from 0. It reports
// whether the command was killed; one that makes fewer changes must succeed.
func killedBefore(t testing.TB, c *exec.Cmd, n int) (killed bool) {
	t.Helper()
	var out bytes.Buffer
	c.Env, c.Stdout, c.Stderr = append(c.Environ(), fmt.Sprintf("%s=%d", killVariable, n)), &out, &out
	err := c.Run()
	if err != nil && c.ProcessState.Exited() {
		t.Fatalf("%v, to be ended before change %d: %v\n%s", c.Args, n, err, &out)
	}
	return err != nil
}
