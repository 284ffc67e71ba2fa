package flink_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"minsep/integration/flink"
	"minsep/internal/must"
)

// A command that is stopped cancels its job on Flink and leaves nothing.
func TestStopped(t *testing.T) {
	k := loopback(t)
	b := newBench(t)
	// Minutes of work, of which a second or some are done.
	args := strings.Fields("form --examples 2000000000 --scheme b-min-sep --steps 20000 --min-sep 4 --batch-size 2500 --key key --out stopped --quiet --log-level info")
	cmd := exec.Command(b.bin, append(args, k.Flags(2)...)...)
	stderr := must.Get(os.Create(filepath.Join(t.TempDir(), "stderr")))(t)
	defer stderr.Close()
	said := func() string { return string(must.Get(os.ReadFile(stderr.Name()))(t)) }
	cmd.Dir, cmd.Env, cmd.Stderr = b.dir, append(os.Environ(), "TMPDIR="+b.temp), stderr
	must.Do(t, cmd.Start())
	// The job runs, and this process, which is its worker, has worked at it.
	for begin, idle := time.Now(), time.Duration(0); idle == 0 || cpuTime(cmd.Process.Pid) < idle+time.Second; time.Sleep(50 * time.Millisecond) {
		if idle == 0 && strings.Contains(said(), "state: RUNNING") {
			idle = cpuTime(cmd.Process.Pid)
		}
		if time.Since(begin) > jobLimit {
			t.Fatalf("the job does not run: %s", said())
		}
	}
	must.Do(t, cmd.Process.Signal(os.Interrupt))
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 || !strings.Contains(said(), "stopped by interrupt: the same command begins again") {
		t.Errorf("%v, want exit code 130: %s", err, said())
	}
	_, id, _ := strings.Cut(said(), "Submitted job: ")
	id, _, _ = strings.Cut(id, `"`)
	log := filepath.Join(filepath.Dir(k.Logs()), "jobserver.log")
	text, err := os.ReadFile(log)
	if id == "" || !strings.Contains(string(text), "Canceling job invocation "+id) {
		t.Errorf("job %q was not cancelled (%v): %s\n%s", id, err, said(), flink.Tail(log, 20))
	}
	if _, err := os.Stat(filepath.Join(b.dir, "stopped")); err == nil {
		t.Error("a run directory is left")
	}
	if left, err := os.ReadDir(b.temp); err != nil || len(left) > 0 {
		t.Errorf("left in the folder for temporary files: %v (%v)", left, err)
	}
}

// A command that is stopped cancels its job at a cluster outside of the job server, and waits for
// its end there before it removes what the job wrote.
func TestClusterStopped(t *testing.T) {
	program := build(t, "minsep/cmd/minsep")
	k, _ := cluster(t, program)
	flags := poolOf(t, k, program)
	b := newBench(t)
	b.writeGraph("large.parquet", 2_000_000, 4_000_000)
	cmd := exec.Command(b.bin, append(strings.Fields("bound --graph large.parquet --max-per-owner 2 --key key --out stopped --quiet"), flags...)...)
	var said strings.Builder
	cmd.Dir, cmd.Env, cmd.Stderr = b.dir, append(os.Environ(), "TMPDIR="+b.temp), &said
	must.Do(t, cmd.Start())
	for begin, finished := time.Now(), 0; finished < 6; time.Sleep(50 * time.Millisecond) {
		var err error
		if _, finished, err = k.Tasks(t.Context()); err != nil {
			t.Fatal(err)
		}
		if time.Since(begin) > jobLimit {
			t.Fatalf("the job does not run: look at %s", k.Logs())
		}
	}
	must.Do(t, cmd.Process.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 143 || strings.Contains(said.String(), "could not be cancelled") {
		t.Errorf("%v, want exit code 143: %s", err, said.String())
	}
	states, err := k.States(t.Context())
	if err != nil || !slices.Equal(states, []string{"CANCELED"}) {
		t.Errorf("the jobs are %v (%v): look at %s", states, err, k.Logs())
	}
	if n := restarts(t, k); n != 0 {
		t.Errorf("the job began again %d times", n)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "stopped")); err == nil {
		t.Error("a run directory is left")
	}
	if err := k.NoWorkers(2 * time.Minute); err != nil {
		t.Error(err)
	}
}
