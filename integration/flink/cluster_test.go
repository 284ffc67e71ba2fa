package flink_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"minsep/integration/flink"
	"minsep/internal/must"
	"minsep/internal/store"
)

// onlyWithCluster skips a test that takes minutes.
func onlyWithCluster(t *testing.T) {
	t.Helper()
	if os.Getenv(clusterVariable) == "" {
		t.Skip("takes minutes: " + clusterVariable + " is not set; `make test-cluster` sets it")
	}
}

// cluster starts a JobManager, two TaskManagers and a job server for a test, or skips it. It
// returns the flags with which the command runs a pipeline there, in workers made from binary.
func cluster(t *testing.T, binary string) (*flink.Cluster, []string) {
	t.Helper()
	dir := home(t)
	onlyWithCluster(t)
	k := must.Get(flink.Start(t.Context(), flink.Config{Home: dir, TaskManagers: 2}))(t)
	t.Cleanup(func() {
		if err := k.Stop(t.Failed()); err != nil {
			t.Error(err)
		}
	})
	flags := must.Get(k.ProcessFlags(2, "worker.sh", binary))(t)
	return k, flags
}

// TestCluster runs every pipeline on two TaskManagers, each with worker processes of its own.
func TestCluster(t *testing.T) {
	k, flags := cluster(t, build(t, "minsep/cmd/minsep"))
	allPipelines(t, k, flags, false)
	if n := restarts(t, k); n != 0 {
		t.Errorf("%d jobs began again without a fault: look at %s", n, k.Logs())
	}
	if err := k.NoWorkers(2 * time.Minute); err != nil {
		t.Error(err)
	}
}

// TestLargeBundles bounds a graph of which one subtask passes on more than goes through Flink, so
// that the rest goes through files, which are gone at the end.
func TestLargeBundles(t *testing.T) {
	home(t)
	onlyWithCluster(t)
	k, b := loopback(t), newBench(t)
	b.writeGraph("large.parquet", 2_000_000, 4_000_000)
	b.disturb = func() bool {
		files, err := filepath.Glob(filepath.Join(b.dir, "large", "bounded", store.TempPrefix+"shared", "*"))
		return err == nil && len(files) > 0
	}
	b.both(k, k.Flags(1), "large", strings.Fields("bound --graph large.parquet --max-per-owner 2 --key key --out large --json")...)
}

// edge is a row of a Parquet file of edges.
type edge struct {
	Example int64 `parquet:"example_id"`
	Owner   int64 `parquet:"owner_id"`
}

// writeGraph writes a graph of random owners, four times fewer than examples.
func (b *bench) writeGraph(name string, examples, edges int) {
	b.t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	list := make([]edge, edges)
	for i := range list {
		list[i] = edge{int64(i / (edges / examples)), rng.Int64N(int64(examples / 4))}
	}
	must.Do(b.t, parquet.WriteFile(filepath.Join(b.dir, name), list))
}

func restarts(t *testing.T, k *flink.Cluster) int {
	t.Helper()
	n := must.Get(k.Restarts())(t)
	return n
}

// TestFaults breaks something in the middle of a job, which must end with the result of an
// undisturbed one.
func TestFaults(t *testing.T) {
	k, flags := cluster(t, build(t, "minsep/cmd/minsep"))
	bound := "bound --graph " + demoGraph + " --max-per-owner 2 --key key --out out --json"
	account := "account --scheme b-min-sep --steps 64 --min-sep 4 --batch-size 20 --examples 320 --bands 4 --epsilon 2 --delta 1e-3 --samples 800000 --out out"
	for _, c := range []struct {
		name, args string
		fault      func(t *testing.T, k *flink.Cluster) (happened bool)
	}{
		{"bound-without-a-taskmanager", bound, replaceTaskManager(4)},
		// A larger graph: a job must be there to be disturbed, however fast the machine is.
		{"bound-without-a-worker", strings.Replace(bound, demoGraph, "large.parquet", 1), killWorker(500 * time.Millisecond)},
		{"account-without-a-worker", account, killWorker(time.Second)},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, before := newBench(t), restarts(t, k)
			b.writeGraph("large.parquet", 2_000_000, 4_000_000)
			b.twice = strings.Contains(c.args, "large") // it takes two rounds
			b.disturb = func() bool { return c.fault(t, k) }
			b.both(k, flags, "out", strings.Fields(c.args)...)
			if restarts(t, k) == before {
				t.Error("no job began again: the fault came too late, or did nothing")
			}
		}) // a TaskManager may keep the worker of a task that was given up: the end of the cluster looks for those
	}
}

// replaceTaskManager replaces a TaskManager when a job has finished so many tasks.
func replaceTaskManager(finished int) func(*testing.T, *flink.Cluster) bool {
	return func(t *testing.T, k *flink.Cluster) bool {
		replaced := must.Get(k.ReplaceTaskManager(t.Context(), finished))(t)
		return replaced
	}
}

// killWorker kills a worker that has worked so long and is in a bundle. It is held first, while it
// is busy: if tasks run then, their job cannot end without it, so that the kill does not come too
// late, however slow this test is.
func killWorker(worked time.Duration) func(*testing.T, *flink.Cluster) bool {
	before := make(map[int]time.Duration)
	return func(t *testing.T, k *flink.Cluster) bool {
		workers := must.Get(k.Workers())(t)
		for _, pid := range workers {
			now := cpuTime(pid)
			last, known := before[pid]
			before[pid] = now
			if !known || now <= last || now < worked || syscall.Kill(pid, syscall.SIGSTOP) != nil {
				continue
			}
			if inBundle(t, k, pid) {
				return syscall.Kill(pid, syscall.SIGKILL) == nil
			}
			must.Do(t, syscall.Kill(pid, syscall.SIGCONT))
		}
		return false
	}
}

// inBundle reports that tasks wait for a worker that is held: some run, and neither does one end
// nor does another worker work between two looks.
func inBundle(t *testing.T, k *flink.Cluster, held int) bool {
	t.Helper()
	type state struct {
		running, finished int
		others            time.Duration
	}
	look := func() (s state) {
		var err error
		if s.running, s.finished, err = k.Tasks(t.Context()); err != nil {
			t.Fatal(err)
		}
		workers := must.Get(k.Workers())(t)
		for _, pid := range workers {
			if pid != held {
				s.others += cpuTime(pid)
			}
		}
		return s
	}
	for last, now := (state{}), look(); now.running > 0; last, now = now, look() {
		if now == last {
			return true
		}
		time.Sleep(time.Second) // between two looks
	}
	return false
}

// cpuTime is the time that a process has spent in its own code; 0 if it has ended. Linux only.
func cpuTime(pid int) time.Duration {
	stat, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 12 {
		return 0
	}
	ticks, _ := strconv.Atoi(fields[11]) // a hundredth of a second each
	return time.Duration(ticks) * 10 * time.Millisecond
}

// TestFailingDoFns runs a pipeline whose DoFns fail once, in the middle of a bundle and after files
// have been written.
func TestFailingDoFns(t *testing.T) {
	faulty := build(t, "minsep/integration/flink/faulty")
	k, flags := cluster(t, faulty)
	b := newBench(t)
	run := func(out string, flags ...string) outcome {
		t.Helper()
		args := append([]string{"-graph", filepath.Join(b.dir, demoGraph), "-key", filepath.Join(b.dir, "key"), "-run-id", "0123456789abcdef0123456789abcdef",
			"-out", filepath.Join(b.dir, out), "-marks", filepath.Join(b.dir, "marks")}, flags...)
		must.Do(t, os.MkdirAll(filepath.Join(b.dir, out), 0o700))
		cmd := exec.CommandContext(t.Context(), faulty, args...)
		cmd.Env = append(os.Environ(), "TMPDIR="+b.temp)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		stdout, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: look at %s\n%s", err, k.Logs(), stderr.String())
		}
		o := b.outcome("", stderr.String(), out)
		must.Do(t, json.Unmarshal(stdout, &o.Counters))
		files := make(map[string]string)
		for name, sum := range o.Files {
			files[strings.TrimPrefix(name, out)] = sum
		}
		o.Files = files
		return o
	}
	marks := func() []string {
		list := must.Get(filepath.Glob(filepath.Join(b.dir, "marks", "*")))(t)
		return list
	}
	must.Do(t, os.Mkdir(filepath.Join(b.dir, "marks"), 0o700))
	got := run("failing", flags...)
	if n := len(marks()); n != 2 {
		t.Fatalf("%d DoFns failed, want 2", n)
	}
	if n := restarts(t, k); n != 2 {
		t.Errorf("the job began again %d times, want 2", n)
	}
	want := run("direct", "--runner=direct") // with the marks there, nothing fails
	if len(want.Files) < 4 || want.Counters["edges read"] == 0 {
		t.Errorf("nothing to compare: %v", want)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("-direct +flink:\n%s", diff)
	}
	b.emptyTemp()
}
