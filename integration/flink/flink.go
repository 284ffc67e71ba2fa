// Package flink starts Apache Flink and Beam's job server for it on this machine, for tests and
// trials: either all in one Java process, or a JobManager, TaskManagers and a job server. The jars
// come from Maven Central, see pom.xml; `make flink` fetches them.
//
// The processes end with the program that started them, even if it is killed: each is the child of
// a shell that reads from a pipe and kills it when the pipe closes.
package flink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config describes the cluster to start.
type Config struct {
	Home string // where `make flink` put the jars (lib) and Beam's boot program (boot)
	Dir  string // for logs and temporary files, which exists; a new one in the system's temporary folder if empty

	TaskManagers int // with one slot each; 0: Flink runs inside the job server, with one slot a core
	HeapMiB      int // for the tasks of a TaskManager, or of the job server with Flink inside; 0 means 1024

	Settings map[string]string // of Flink, in place of the tests' settings
}

// Cluster is a running Flink.
type Cluster struct {
	Endpoint string // of the job server
	Dir      string // has log/ with a file a process, and work/ with a folder a worker

	config         Config
	rest, rpc      string // ports of the JobManager
	pool           string // address of the pool of workers
	started        int    // task managers
	processes      map[string]*process
	removeDirAtEnd bool
}

// Start starts the cluster of c and waits until it is ready. Its own errors name the log to
// look at.
func Start(ctx context.Context, c Config) (_ *Cluster, err error) {
	if c.HeapMiB == 0 {
		c.HeapMiB = 1024
	}
	k := &Cluster{config: c, Dir: c.Dir, processes: make(map[string]*process)}
	defer func() {
		if err != nil {
			k.kill()
		}
	}()
	if k.config.Home, err = filepath.Abs(c.Home); err != nil {
		return nil, err
	}
	if k.Dir == "" {
		if k.Dir, err = os.MkdirTemp("", "flink-"); err != nil {
			return nil, err
		}
		k.removeDirAtEnd = true
	}
	if k.Dir, err = filepath.Abs(k.Dir); err != nil {
		return nil, err
	}
	for _, sub := range []string{"log", "conf", "tmp", "work", "artifacts"} {
		if err := os.MkdirAll(filepath.Join(k.Dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	ports, err := freePorts(4)
	if err != nil {
		return nil, err
	}
	master, memory := "[local]", []string{heap(c.HeapMiB + 1024)}
	k.rest, k.rpc = ports[0], ports[1]
	if err := k.writeSettings(); err != nil {
		return nil, err
	}
	if c.TaskManagers > 0 {
		if err := k.startJobManager(ctx); err != nil {
			return nil, err
		}
		for range c.TaskManagers {
			if err := k.AddTaskManager(); err != nil {
				return nil, err
			}
		}
		if err := k.waitForSlots(ctx, c.TaskManagers); err != nil {
			return nil, err
		}
		master, memory = "localhost:"+k.rest, []string{heap(512), "-XX:+UseSerialGC"}
	}
	k.Endpoint = "localhost:" + ports[2]
	p, err := k.java("jobserver", memory, "org.apache.beam.runners.flink.FlinkJobServerDriver", "--job-host=localhost", "--job-port="+ports[2],
		"--artifact-port="+ports[3], "--expansion-port=-1", "--artifacts-dir="+filepath.Join(k.Dir, "artifacts"), "--flink-master="+master,
		"--flink-conf-dir="+filepath.Join(k.Dir, "conf"))
	if err != nil {
		return nil, err
	}
	return k, p.wait(ctx, func() bool { return listens(k.Endpoint) })
}

// listens reports whether somebody listens at an address.
func listens(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// Flags are the command's flags that run a pipeline here with the given parallelism, its workers in
// the command's own process. That is for Flink inside the job server only: TaskManagers number
// their workers alike.
func (k *Cluster) Flags(parallelism int) []string {
	return []string{"--runner=flink", "--endpoint=" + k.Endpoint, "--environment_type=LOOPBACK", fmt.Sprintf("--parallelism=%d", parallelism)}
}

// ProcessFlags are the command's flags that run a pipeline here with the given parallelism in
// worker processes that the TaskManagers start from binary.
func (k *Cluster) ProcessFlags(parallelism int, launcher, binary string) ([]string, error) {
	launcher, err := filepath.Abs(launcher)
	if err != nil {
		return nil, err
	}
	environment, err := json.Marshal(map[string]any{
		"command": launcher,
		"env":     map[string]string{"BEAM_BOOT": filepath.Join(k.config.Home, "boot"), "BEAM_WORK": filepath.Join(k.Dir, "work")},
	})
	return []string{"--runner=flink", "--endpoint=" + k.Endpoint, "--environment_type=PROCESS", "--environment_config=" + string(environment),
		"--worker_binary=" + binary, fmt.Sprintf("--parallelism=%d", parallelism)}, err
}

// StartPool starts a pool of workers beside the TaskManagers, as a sidecar has it, unless there is
// one. Its workers are processes of the program.
func (k *Cluster) StartPool(ctx context.Context, program string) error {
	if k.processes["pool"] != nil {
		return nil
	}
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	k.pool = "localhost:" + ports[0]
	p, err := k.start("pool", []string{"TMPDIR=" + filepath.Join(k.Dir, "work")}, program, "worker-pool", "--listen", k.pool, "--log-level", "info")
	if err != nil {
		return err
	}
	return p.wait(ctx, func() bool { return listens(k.pool) })
}

// PoolFlags are the command's flags that run a pipeline here with the given parallelism in workers
// of the pool.
func (k *Cluster) PoolFlags(parallelism int, binary string) []string {
	return []string{"--runner=flink", "--endpoint=" + k.Endpoint, "--environment_type=EXTERNAL", "--environment_config=" + k.pool,
		"--worker_binary=" + binary, fmt.Sprintf("--parallelism=%d", parallelism)}
}

// Logs is a pattern of the logs of all processes, for messages.
func (k *Cluster) Logs() string { return filepath.Join(k.Dir, "log", "*.log") }

// Stop ends all processes, and waits for the workers, which end by themselves when their
// TaskManager has. If the cluster made its own folder, that is removed, unless keepLogs.
func (k *Cluster) Stop(keepLogs bool) error {
	for name, p := range k.processes {
		if name != "pool" { // which removes what its workers leave
			p.kill()
		}
	}
	err := k.NoWorkers(2 * time.Minute)
	k.kill()
	for _, sub := range []string{"tmp", "work", "artifacts"} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(k.Dir, sub)))
	}
	if k.removeDirAtEnd && !keepLogs {
		err = errors.Join(err, os.RemoveAll(k.Dir))
	}
	return err
}

func (k *Cluster) kill() {
	for _, p := range k.processes {
		p.kill()
	}
}

// NoWorkers waits until no worker of a TaskManager has a folder any more: all have ended.
func (k *Cluster) NoWorkers(limit time.Duration) error {
	for end := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		left, err := os.ReadDir(filepath.Join(k.Dir, "work"))
		if err != nil || len(left) == 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d workers still have folders in %s", len(left), filepath.Join(k.Dir, "work"))
		}
	}
}

// common settings. Before it sorts, Flink makes one record of a subtask's values of a key;
// without the handler a job fails when such a record is larger than a sort buffer, which has a
// share of the managed memory. With the handler, a sort of more than half as many runs as it has
// pages of memory fails by an index, unless fewer runs are merged at a time.
const common = `io.tmp.dirs: %s
taskmanager.runtime.large-record-handler: true
taskmanager.runtime.max-fan: 16
`

// settings of a cluster. Beam's jars are on Flink's class path, so classes are looked up there
// first; a TaskManager that is gone is noticed after 15 s; a job starts again until it has failed
// more often than any test makes it.
const settings = `jobmanager.rpc.address: localhost
jobmanager.rpc.port: %[1]s
jobmanager.bind-host: localhost
jobmanager.memory.process.size: 1024m
taskmanager.host: localhost
taskmanager.bind-host: localhost
rest.address: localhost
rest.bind-address: localhost
rest.port: %[2]s
blob.storage.directory: %[3]s
taskmanager.numberOfTaskSlots: 1
taskmanager.cpu.cores: 1.0
taskmanager.memory.task.heap.size: %[4]dm
taskmanager.memory.task.off-heap.size: 1024m
taskmanager.memory.framework.heap.size: 128m
taskmanager.memory.framework.off-heap.size: 128m
taskmanager.memory.network.min: 256m
taskmanager.memory.network.max: 256m
taskmanager.memory.managed.size: 256m
taskmanager.memory.jvm-metaspace.size: 256m
taskmanager.memory.jvm-overhead.min: 192m
taskmanager.memory.jvm-overhead.max: 192m
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 20
restart-strategy.fixed-delay.delay: 3 s
heartbeat.timeout: 15000
heartbeat.interval: 3000
classloader.resolve-order: parent-first
classloader.check-leaked-classloader: false
`

func (k *Cluster) writeSettings() error {
	temp := filepath.Join(k.Dir, "tmp")
	text := fmt.Sprintf(common, temp)
	if k.config.TaskManagers > 0 {
		text += fmt.Sprintf(settings, k.rpc, k.rest, temp, k.config.HeapMiB)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for name, value := range k.config.Settings {
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, name+": ") })
		lines = append(lines, name+": "+value)
	}
	text = strings.Join(lines, "\n") + "\n"
	return os.WriteFile(filepath.Join(k.Dir, "conf", "config.yaml"), []byte(text), 0o600)
}

func (k *Cluster) startJobManager(ctx context.Context) error {
	p, err := k.java("jobmanager", []string{heap(512), "-XX:+UseSerialGC"}, "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint",
		"--configDir", filepath.Join(k.Dir, "conf"), "--executionMode", "cluster")
	if err != nil {
		return err
	}
	return p.wait(ctx, func() bool { _, err := k.overview(ctx); return err == nil })
}

// AddTaskManager starts another TaskManager. It does not wait for it.
func (k *Cluster) AddTaskManager() error {
	k.started++
	_, err := k.java(TaskManager(k.started), []string{heap(k.config.HeapMiB + 128), "-XX:MaxDirectMemorySize=1408m", "-XX:MaxMetaspaceSize=256m"},
		"org.apache.flink.runtime.taskexecutor.TaskManagerRunner", "--configDir", filepath.Join(k.Dir, "conf"),
		"-D", "taskmanager.resource-id="+TaskManager(k.started))
	return err
}

// TaskManager is the name of the i-th TaskManager that was started, from 1 on.
func TaskManager(i int) string { return fmt.Sprintf("taskmanager%d", i) }

// Kill ends a process at once: a TaskManager by its name, "jobmanager" or "jobserver".
func (k *Cluster) Kill(name string) { k.processes[name].kill() }

// ReplaceTaskManager kills the TaskManager that was started first when a job has finished so many
// tasks and is busy with others, and starts another. It reports whether it has done so.
func (k *Cluster) ReplaceTaskManager(ctx context.Context, finished int) (bool, error) {
	running, done, err := k.Tasks(ctx)
	if err != nil || running == 0 || done < finished {
		return false, err
	}
	k.Kill(TaskManager(1))
	return true, k.AddTaskManager()
}

func (k *Cluster) waitForSlots(ctx context.Context, n int) error {
	return k.processes["jobmanager"].wait(ctx, func() bool {
		o, err := k.overview(ctx)
		return err == nil && o.Slots == n
	})
}

// overview is the JobManager's report of its slots.
type overview struct {
	Slots int `json:"slots-total"`
}

func (k *Cluster) overview(ctx context.Context) (o overview, err error) {
	return o, k.get(ctx, "/overview", &o)
}

// Tasks returns how many tasks of the running jobs are running, and how many have ended.
func (k *Cluster) Tasks(ctx context.Context) (running, finished int, err error) {
	var all struct {
		Jobs []struct {
			State string `json:"state"`
			Tasks struct {
				Running  int `json:"running"`
				Finished int `json:"finished"`
			} `json:"tasks"`
		} `json:"jobs"`
	}
	err = k.get(ctx, "/jobs/overview", &all)
	for _, job := range all.Jobs {
		if job.State == "RUNNING" {
			running, finished = running+job.Tasks.Running, finished+job.Tasks.Finished
		}
	}
	return running, finished, err
}

// States returns the states of all jobs, such as RUNNING and CANCELED.
func (k *Cluster) States(ctx context.Context) (states []string, err error) {
	var all struct{ Jobs []struct{ State string } }
	err = k.get(ctx, "/jobs/overview", &all)
	for _, job := range all.Jobs {
		states = append(states, job.State)
	}
	return states, err
}

// Restarts returns how often jobs, or parts of them, have begun again after a failure, as the
// JobManager logged it.
func (k *Cluster) Restarts() (int, error) {
	log, err := os.ReadFile(k.processes["jobmanager"].log)
	return strings.Count(string(log), " to RESTARTING"), err
}

// Workers returns the process ids of the workers that TaskManagers and the pool have started. Linux
// only.
func (k *Cluster) Workers() (pids []int, err error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		in, _ := os.Readlink(filepath.Join(folder, "cwd")) // the process may have ended
		binary, _ := os.Readlink(filepath.Join(folder, "exe"))
		if filepath.Dir(in) == filepath.Join(k.Dir, "work") && slices.Contains([]string{"worker", "minsep"}, filepath.Base(binary)) {
			pid, err := strconv.Atoi(filepath.Base(folder))
			if err != nil {
				return nil, err
			}
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// get asks the JobManager, and waits for its answer until ctx or the JobManager ends: a machine
// that is busy takes its time.
func (k *Cluster) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if manager := k.processes["jobmanager"]; manager != nil {
		go func() {
			select {
			case <-manager.ended:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost:"+k.rest+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("JobManager: %s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// process is a process that ends with this one.
type process struct {
	name, log string
	stdin     io.Closer
	ended     chan struct{}
}

// endWithPipe runs a command until it ends or standard input does.
const endWithPipe = `exec 3<&0; "$@" </dev/null 3<&- & p=$!; { cat <&3 >/dev/null; kill -9 $p; } & wait $p`

func (k *Cluster) java(name string, options []string, class string, args ...string) (*process, error) {
	line := []string{"java"}
	for _, pkg := range []string{"lang", "lang.reflect", "util", "util.concurrent", "nio", "net", "io", "time"} {
		line = append(line, "--add-opens=java.base/java."+pkg+"=ALL-UNNAMED")
	}
	line = append(line, options...)
	line = append(line, "-Dorg.slf4j.simpleLogger.logFile=System.out", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Djava.io.tmpdir="+filepath.Join(k.Dir, "tmp"), "-cp", filepath.Join(k.config.Home, "lib", "*"), class)
	return k.start(name, nil, append(line, args...)...)
}

// start starts a program, with variables besides this process's own.
func (k *Cluster) start(name string, env []string, line ...string) (*process, error) {
	cmd := exec.Command("sh", append([]string{"-c", endWithPipe, "sh"}, line...)...)
	cmd.Env = append(os.Environ(), env...)
	p := &process{name: name, log: filepath.Join(k.Dir, "log", name+".log"), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, k.Dir
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() { cmd.Wait(); close(p.ended) }()
	k.processes[name] = p
	return p, nil
}

func heap(mib int) string { return fmt.Sprintf("-Xmx%dm", mib) }

func (p *process) kill() {
	p.stdin.Close()
	<-p.ended
}

// wait waits until the process is ready.
func (p *process) wait(ctx context.Context, ready func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for !ready() {
		select {
		case <-time.After(200 * time.Millisecond):
		case <-p.ended:
			return fmt.Errorf("%s ended before it was ready: see %s:\n%s", p.name, p.log, Tail(p.log, 20))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: see %s:\n%s", p.name, ctx.Err(), p.log, Tail(p.log, 20))
		}
	}
	return nil
}

// Tail returns the last lines of a log.
func Tail(path string, lines int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// freePorts returns ports that nobody listens on.
func freePorts(n int) (ports []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "localhost:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}
