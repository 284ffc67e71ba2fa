package flink

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// Usage is what the processes of a cluster, and the workers that they started, have used. Linux
// only.
type Usage struct {
	mu        sync.Mutex
	processes map[int]*Process
	disk      map[string]int64 // most bytes in each folder at a time
}

// Process is a process, as it was when it was last seen.
type Process struct {
	Name string
	CPU  time.Duration // user and system
	Peak int64         // bytes of memory that it had at most
	pid  int
}

// Watch looks at this process's descendants and at the bytes in folders, five times a second,
// until ctx ends.
func Watch(ctx context.Context, folders ...string) *Usage {
	u := &Usage{processes: make(map[int]*Process), disk: make(map[string]int64)}
	go func() {
		for tick := time.Tick(200 * time.Millisecond); ; {
			u.look(folders)
			select {
			case <-tick:
			case <-ctx.Done():
				return
			}
		}
	}()
	return u
}

func (u *Usage) look(folders []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	parents := make(map[int]int)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var seen []Process
	for _, name := range stats {
		p := Process{}
		p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(name)))
		stat, _ := os.ReadFile(name) // it may have ended
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 13 {
			continue
		}
		parents[p.pid], _ = strconv.Atoi(fields[1])
		user, _ := strconv.Atoi(fields[11]) // hundredths of a second
		system, _ := strconv.Atoi(fields[12])
		p.CPU = time.Duration(user+system) * 10 * time.Millisecond
		seen = append(seen, p)
	}
	for _, p := range seen {
		ancestor := parents[p.pid]
		for ancestor > 1 && ancestor != os.Getpid() {
			ancestor = parents[ancestor]
		}
		dir := filepath.Join("/proc", strconv.Itoa(p.pid))
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if p.Name = processName(strings.Split(string(line), "\x00")); ancestor <= 1 || p.Name == "" {
			continue
		}
		status, _ := os.ReadFile(filepath.Join(dir, "status"))
		if _, peak, found := strings.Cut(string(status), "VmHWM:"); found {
			kib, _ := strconv.ParseInt(strings.Fields(peak)[0], 10, 64)
			p.Peak = kib << 10
			u.processes[p.pid] = &p
		}
	}
	for _, folder := range folders {
		var bytes int64
		filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				if info, err := e.Info(); err == nil {
					bytes += info.Size()
				}
			}
			return nil // it may be gone
		})
		u.disk[folder] = max(u.disk[folder], bytes)
	}
}

// processName names a process by its command line; "" for shells.
func processName(line []string) string {
	has := func(s string) bool {
		return slices.ContainsFunc(line, func(arg string) bool { return strings.HasSuffix(arg, s) })
	}
	switch {
	case len(line) < 2 || line[0] == "sh":
		return ""
	case has("StandaloneSessionClusterEntrypoint"):
		return "JobManager"
	case has("FlinkJobServerDriver"):
		return "job server"
	case has("TaskManagerRunner"):
		return "TaskManager " + strings.TrimPrefix(line[slices.IndexFunc(line, func(arg string) bool { return strings.HasPrefix(arg, "taskmanager.resource-id=") })], "taskmanager.resource-id=")
	case line[1] == "worker-pool":
		return "pool"
	case slices.Contains(line, "--worker=true") || strings.HasSuffix(line[0], "minsep") && has("--semi_persist_dir"):
		return "worker"
	}
	return ""
}

// Report writes a line for each process, in the order in which they began, and one for each folder.
func (u *Usage) Report(w io.Writer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := make([]int, 0, len(u.processes))
	for pid := range u.processes {
		all = append(all, pid)
	}
	slices.Sort(all)
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, pid := range all {
		p := u.processes[pid]
		fmt.Fprintf(table, "%s\t%d\t%.2f GiB\t%.1f CPU-s\n", p.Name, pid, float64(p.Peak)/(1<<30), p.CPU.Seconds())
	}
	table.Flush()
	for folder, bytes := range u.disk {
		fmt.Fprintf(w, "%s: %.2f GB at most\n", folder, float64(bytes)/1e9)
	}
}

// Written returns the bytes that the tasks of every job have written for other tasks, as the
// JobManager counts them.
func (k *Cluster) Written(ctx context.Context) (map[string]int64, error) {
	var all struct {
		Jobs []struct{ JID, State string }
	}
	if err := k.get(ctx, "/jobs/overview", &all); err != nil {
		return nil, err
	}
	written := make(map[string]int64)
	for _, job := range all.Jobs {
		var detail struct {
			Vertices []struct {
				Metrics struct {
					Written int64 `json:"write-bytes"`
				}
			}
		}
		if err := k.get(ctx, "/jobs/"+job.JID, &detail); err != nil {
			return nil, err
		}
		for _, v := range detail.Vertices {
			written[job.JID] += v.Metrics.Written
		}
	}
	return written, nil
}
