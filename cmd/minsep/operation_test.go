package main

import (
	"bytes"
	"errors"
	"fmt"
	"minsep/internal/manifest"
	"minsep/internal/must"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// place is a folder with a key and inputs, and a work folder beside them.
type place struct {
	t    *testing.T
	dir  string
	work string
}

func newPlace(t *testing.T, examples int) place {
	t.Helper()
	p := place{t, t.TempDir(), t.TempDir()}
	var graph strings.Builder
	for e := range examples {
		fmt.Fprintf(&graph, "%d\t%d\n%d\t%d\n", e, e, e, examples+e/4)
	}
	p.write("graph.tsv", graph.String())
	p.write("plan.json", slowPlan)
	mustRun(t, "keygen", filepath.Join(p.dir, "key"))
	mustRun(t, "strategy", "--kind", "banded-toeplitz", "--steps", "64", "--bands", "4", "--out", filepath.Join(p.dir, "strategy.json"))
	return p
}

func (p place) write(name, text string) {
	p.t.Helper()
	must.Do(p.t, os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600))
}

// start starts a command in the place, with its temporary files in the work folder.
func (p place) start(args ...string) (c *exec.Cmd, stderr *bytes.Buffer) {
	p.t.Helper()
	c = command(p.t, append(args, "--work-dir", p.work)...)
	stderr = new(bytes.Buffer)
	c.Dir, c.Stderr = p.dir, stderr
	must.Do(p.t, c.Start())
	p.t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return c, stderr
}

// waitFor waits until a path of the place is there.
func (p place) waitFor(name string) {
	p.t.Helper()
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(p.dir, name)); err == nil {
			return
		}
	}
	p.t.Fatalf("%s did not come to be", name)
}

// clean requires that no temporary file and no lock is left.
func (p place) clean(out string) {
	p.t.Helper()
	if left, err := os.ReadDir(p.work); err != nil || len(left) > 0 {
		p.t.Errorf("left in the work folder: %v (%v)", left, err)
	}
	if _, err := os.Stat(filepath.Join(p.dir, out, manifest.LockName)); err == nil {
		p.t.Error("the lock is left")
	}
}

func exitOf(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

const slowPlan = `{
	"graph": {"paths": ["graph.tsv"], "header": "no"}, "bound": {"max_examples_per_owner": 1},
	"scheme": {"scheme": "b-min-sep", "steps": 64, "min_sep": 4, "batch_size": 20},
	"strategy": {"kind": "banded-toeplitz", "bands": 4},
	"privacy": {"epsilon": 2, "delta": 1e-3, "samples": 100000000},
	"noise": {"coordinates": 100000, "files": true},
	"key": "key", "out": "run",
}`

// slow are commands that take long, and a file that is there when they are at it.
var slow = []struct {
	name  string
	file  string
	again string // what the user is told
	args  []string
}{
	{"bound", "run/lock", "the same command begins again",
		strings.Fields("bound --graph graph.tsv --header no --max-per-owner 1 --key key --out run")},
	{"form", "run/lock", "the same command begins again",
		strings.Fields("form --examples 3000000 --scheme b-min-sep --steps 20000 --min-sep 4 --batch-size 3000 --key key --out run")},
	{"account", "run/ledger/protocol.json", "goes on from there",
		strings.Fields("account --scheme b-min-sep --steps 64 --min-sep 4 --batch-size 20 --examples 3000 --bands 4 --epsilon 2 --delta 1e-3 --samples 100000000 --out run")},
	{"noise", "run/noise", "goes on from there",
		strings.Fields("noise --files --strategy strategy.json --noise-multiplier 2 --steps 64 --coordinates 20000000 --key key --out run")},
	{"run", "run/ledger/protocol.json", "goes on from there", []string{"run", "plan.json"}},
}

// A command that is told to stop ends soon, says how to go on, and leaves no temporary file.
func TestStopped(t *testing.T) {
	for i, s := range slow {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, 100000)
			signal := []os.Signal{os.Interrupt, syscall.SIGTERM}[i%2]
			c, stderr := p.start(append(s.args, "--quiet")...)
			p.waitFor(s.file)
			must.Do(t, c.Process.Signal(signal))
			err := c.Wait()
			if got, want := exitOf(err), 128+int(signal.(syscall.Signal)); got != want {
				t.Errorf("exit code %d, want %d", got, want)
			}
			lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
			if len(lines) != 2 || lines[0] != "minsep: stopping; interrupt again to end at once" || !strings.HasPrefix(lines[1], "minsep: stopped by ") || !strings.HasSuffix(lines[1], s.again) {
				t.Errorf("it said %q", lines)
			}
			p.clean("run")
			if s.again == "the same command begins again" {
				if _, err := os.Stat(filepath.Join(p.dir, "run")); err == nil {
					t.Error("a run directory is left")
				}
			}
		})
	}
}

// Two commands in one run directory: the second is refused. A command that is killed holds up no
// other.
func TestLocked(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 10)
	account := slow[2]
	first, _ := p.start(append(account.args, "--quiet")...)
	p.waitFor(account.file)
	bound := strings.Fields("bound --graph graph.tsv --header no --max-per-owner 1 --key key --out run --quiet")
	for _, args := range [][]string{bound, account.args, {"run", "plan.json"}, slow[3].args} {
		c, stderr := p.start(args...)
		if got := exitOf(c.Wait()); got != exitUsage || !strings.Contains(stderr.String(), "run directory run: another minsep command is writing there") {
			t.Errorf("%v beside another: exit code %d: %s", args, got, stderr)
		}
	}
	dry, stderr := p.start(append(bound, "--dry-run")...)
	if got := exitOf(dry.Wait()); got != 0 {
		t.Errorf("a dry run beside another command: exit code %d: %s", got, stderr)
	}
	must.Do(t, first.Process.Kill())
	first.Wait()
	if _, err := os.Stat(filepath.Join(p.dir, "run", manifest.LockName)); err != nil {
		t.Errorf("the test is of no use: the killed command left no lock: %v", err)
	}
	second, stderr := p.start(bound...)
	if got := exitOf(second.Wait()); got != 0 {
		t.Errorf("after a kill: exit code %d: %s", got, stderr)
	}
}

func TestOperationFaults(t *testing.T) {
	p := newPlace(t, 10)
	p.write("file", "")
	c := command(t, append(slow[2].args, "--work-dir", "file")...)
	c.Dir = p.dir
	out, err := c.CombinedOutput()
	if got := exitOf(err); got != exitUsage || !strings.Contains(string(out), "work-dir") {
		t.Errorf("exit code %d: %s", got, out)
	}
	if out, err := command(t, "inspect", p.dir, "--log-level=loud").CombinedOutput(); exitOf(err) != exitUsage || !strings.Contains(string(out), "must be ") {
		t.Errorf("%v: %s", err, out)
	}
}
