//go:build unix

package crash

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
)

const askedFor = "MINSEP_TEST_CRASH"

// crashes are ways for a program to fail, in a process of its own.
var crashes = map[string]func(){
	"panic":     func() { panic("a secret value") },
	"index":     func() { var s []int; s[len(os.Args)+1]++ },
	"goroutine": func() { done := make(chan int); go func() { panic("in a goroutine") }(); <-done },
	"stack":     func() { debug.SetMaxStack(1 << 16); hold = make([][]byte, overflow(0)) },
	"memory":    func() { hold = append(hold, make([]byte, 1<<46)) },
	"deadlock":  func() { select {} },
}

var hold [][]byte

//lint:ignore SA5007 a stack overflow is what is tested
func overflow(n int) int { return overflow(n+1) + n }

func TestMain(m *testing.M) {
	f, asked := crashes[os.Getenv(askedFor)]
	if !asked {
		os.Exit(m.Run())
	}
	Begin()
	os.Exit(Guard(os.Stderr, func() int { f(); return 0 }))
}

// TestNoCrashExitsWithTwo crashes in every way: with exit code 1 where a panic can be caught, else
// by SIGABRT.
func TestNoCrashExitsWithTwo(t *testing.T) {
	for name := range crashes {
		cmd := exec.Command(os.Args[0])
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), askedFor+"="+name)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		exit, ok := errors.AsType[*exec.ExitError](cmd.Run())
		if !ok {
			t.Fatalf("%s: did not crash: %s", name, &stderr)
		}
		status := exit.Sys().(syscall.WaitStatus)
		caught := name == "panic" || name == "index"
		switch {
		case caught && status.ExitStatus() != ExitCode:
			t.Errorf("%s: %v", name, exit)
		case caught && (!strings.Contains(stderr.String(), "not of the input") || !strings.Contains(stderr.String(), "crash_test.go")):
			t.Errorf("%s: the message says neither what it is nor where: %s", name, &stderr)
		case !caught && (!status.Signaled() || status.Signal() != syscall.SIGABRT):
			t.Errorf("%s: %v", name, exit)
		case status.CoreDump():
			t.Errorf("%s: dumped a core", name)
		case strings.Contains(stderr.String(), "a secret value"):
			t.Errorf("%s: the message shows a value", name)
		}
	}
}
