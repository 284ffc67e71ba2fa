package flink_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"minsep/integration/flink"
	"minsep/internal/must"
)

// poolOf starts a pool of workers, and returns the flags that run pipelines in them.
func poolOf(t *testing.T, k *flink.Cluster, program string) []string {
	t.Helper()
	must.Do(t, k.StartPool(t.Context(), program))
	return k.PoolFlags(2, program)
}

// started counts the workers that the pool has started.
func started(t *testing.T, k *flink.Cluster) int {
	t.Helper()
	log := must.Get(os.ReadFile(filepath.Join(filepath.Dir(k.Logs()), "pool.log")))(t)
	return strings.Count(string(log), "worker started")
}

// TestExternal runs a whole plan in workers of a pool.
func TestExternal(t *testing.T) {
	k := loopback(t)
	b := newBench(t)
	flags := poolOf(t, k, b.bin)
	b.both(k, flags, "graph", strings.Fields("bound --graph "+demoGraph+" --max-per-owner 2 --key key --out graph --json")...)
	b.both(k, flags, "account", strings.Fields("account --scheme b-min-sep --steps 64 --min-sep 4 --batch-size 20 --examples 320 --bands 4 --epsilon 2 --delta 1e-3 --samples 20000 --out account")...)
	if n := started(t, k); n < 2 {
		t.Errorf("the pool has started %d workers", n)
	}
	if err := k.NoWorkers(2 * time.Minute); err != nil {
		t.Error(err)
	}
}

// TestClusterExternal runs every pipeline on two TaskManagers that take their workers, of the same
// names, from one pool, and once more while a TaskManager is killed.
func TestClusterExternal(t *testing.T) {
	program := build(t, "minsep/cmd/minsep")
	k, _ := cluster(t, program)
	flags := poolOf(t, k, program)
	allPipelines(t, k, flags, false)
	if n := restarts(t, k); n != 0 {
		t.Errorf("%d jobs began again without a fault: look at %s", n, k.Logs())
	}
	if err := k.NoWorkers(2 * time.Minute); err != nil {
		t.Error(err)
	}
	t.Run("without a TaskManager", func(t *testing.T) {
		b, fault := newBench(t), replaceTaskManager(6)
		b.disturb = func() bool { return fault(t, k) }
		b.both(k, flags, "out", strings.Fields("bound --graph "+demoGraph+" --max-per-owner 2 --key key --out out --json")...)
		if restarts(t, k) == 0 {
			t.Error("no job began again: the fault came too late, or did nothing")
		}
	})
}
