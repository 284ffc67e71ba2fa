package flink_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"minsep/integration/flink"
	"minsep/internal/must"
)

// Environment variables that switch the tests on: `make test-flink` and `make test-cluster` set
// them.
const (
	homeVariable    = "MINSEP_FLINK"         // where `make flink` put Flink
	clusterVariable = "MINSEP_FLINK_CLUSTER" // not empty: test a JobManager and TaskManagers besides
)

const jobLimit = 5 * time.Minute // of one command

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if embedded != nil {
		if err := embedded.Stop(code != 0); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	if binDir != "" {
		os.RemoveAll(binDir)
	}
	os.Exit(code)
}

// home returns where Flink is, or skips the test.
func home(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(homeVariable)
	if dir == "" {
		t.Skip("no Flink: " + homeVariable + " is not set; `make test-flink` fetches Flink, where java and mvn are, and sets it")
	}
	return dir
}

// embedded is the Flink in one process that the tests share, and binDir has the programs they
// build.
var (
	embedded *flink.Cluster
	binDir   string
	lock     sync.Mutex
)

// loopback returns a Flink that runs inside the job server.
func loopback(t *testing.T) *flink.Cluster {
	t.Helper()
	dir := home(t)
	lock.Lock()
	defer lock.Unlock()
	if embedded == nil {
		var err error
		if embedded, err = flink.Start(t.Context(), flink.Config{Home: dir}); err != nil {
			t.Fatal(err)
		}
	}
	return embedded
}

// build builds a program of the module, small enough to be sent to workers, once.
func build(t *testing.T, pkg string) string {
	t.Helper()
	lock.Lock()
	defer lock.Unlock()
	if binDir == "" {
		var err error
		if binDir, err = os.MkdirTemp("", "minsep-flink-"); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(binDir, filepath.Base(pkg))
	if _, err := os.Stat(bin); err == nil {
		return bin
	}
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin, pkg).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// demoGraph is the graph of the demo in the folder of a bench.
const demoGraph = "gene2pubmed.tsv.gz"

// bench is a folder where commands run: all paths are relative to it, for workers run in folders of
// their own. Both runners use the same one, one after the other, since paths are part of some
// results.
type bench struct {
	t         *testing.T
	bin       string
	dir, temp string
	twice     bool               // the pipeline has a DoFn twice: Beam's direct runner reports the counters of one of them
	disturb   func() (done bool) // called again and again while a command runs on Flink, until it is done
}

func newBench(t *testing.T) *bench {
	t.Helper()
	graph := must.Get(os.ReadFile("../testdata/gene2pubmed.tsv.gz"))(t)
	b := &bench{t: t, bin: build(t, "minsep/cmd/minsep"), dir: t.TempDir(), temp: t.TempDir()}
	must.Do(t, os.WriteFile(filepath.Join(b.dir, demoGraph), graph, 0o600))
	b.must("keygen", "key")
	return b
}

// command runs minsep and returns what it says. A run that takes too long is killed, and
// the error says where to look.
func (b *bench) command(on *flink.Cluster, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(b.t.Context(), jobLimit+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.bin, args...)
	var out, log bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = b.dir, append(os.Environ(), "TMPDIR="+b.temp), &out, &log
	if err := cmd.Start(); err != nil {
		return "", "", err
	}
	ended := make(chan struct{})
	go func() { err = cmd.Wait(); close(ended) }()
	b.disturbUntil(on, ended)
	<-ended
	if err != nil {
		err = fmt.Errorf("minsep %s: %w\n%s", strings.Join(args, " "), err, log.String())
	}
	if err != nil && on != nil {
		err = fmt.Errorf("%w\nlook at the logs in %s; the end of the job server's:\n%s", err, on.Logs(),
			flink.Tail(filepath.Join(filepath.Dir(on.Logs()), "jobserver.log"), 30))
	}
	return out.String(), log.String(), err
}

// disturbUntil disturbs a command on Flink once.
func (b *bench) disturbUntil(on *flink.Cluster, ended <-chan struct{}) {
	for on != nil && b.disturb != nil && !b.disturb() {
		select {
		case <-ended:
			b.t.Error("the command ended before it was disturbed")
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// must runs minsep.
func (b *bench) must(args ...string) {
	b.t.Helper()
	if _, _, err := b.command(nil, args...); err != nil {
		b.t.Fatal(err)
	}
}

// outcome is what a command left and said.
type outcome struct {
	Stdout   string
	Files    map[string]string // mode and SHA-256
	Counters map[string]int64
}

// outcome reads the folders that a command left, and the counters in its log.
func (b *bench) outcome(stdout, log string, folders ...string) outcome {
	b.t.Helper()
	o := outcome{stdout, make(map[string]string), make(map[string]int64)}
	for line := range strings.Lines(log) {
		_, entry, _ := strings.Cut(line, " msg=counter ")
		name, total, _ := strings.Cut(strings.TrimPrefix(entry, "name="), " total=")
		if words, err := strconv.Unquote(name); err == nil { // a name of one word has no quotes
			name = words
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(total), 10, 64); err == nil {
			o.Counters[name] += n
		}
	}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(b.dir, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, _ := filepath.Rel(b.dir, path)
			info, err := d.Info()
			if err != nil || d.IsDir() {
				o.Files[name] = fmt.Sprint(info.Mode())
				return err
			}
			content, err := os.ReadFile(path)
			sum := sha256.Sum256(content)
			o.Files[name] = fmt.Sprint(info.Mode(), " ", hex.EncodeToString(sum[:]))
			if filepath.Base(filepath.Dir(name)) == "noise" || strings.Contains(name, "noise/shard-") || filepath.Base(name) == "run.json" {
				o.Files[name] = fmt.Sprint(info.Mode(), " ", len(content), " bytes") // noise has random bytes of steps, and run.json its SHA-256
			}
			return err
		})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	return o
}

// emptyTemp requires that nothing is left in the folder for temporary files.
func (b *bench) emptyTemp() {
	b.t.Helper()
	left, err := os.ReadDir(b.temp)
	if err != nil || len(left) > 0 {
		b.t.Errorf("left in the folder for temporary files: %v, %v", left, err)
	}
}

// both runs a command that writes the folder out with the direct runner and then with flags, and
// requires the same files with the same content and modes, and the same result on standard output.
func (b *bench) both(on *flink.Cluster, flags []string, out string, args ...string) {
	b.t.Helper()
	args = append(args, "--quiet", "--log-level", "info")
	run := func(on *flink.Cluster, flags ...string) outcome {
		b.t.Helper()
		begin := time.Now()
		stdout, log, err := b.command(on, append(args, flags...)...)
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Logf("%s: %.1f s", flags[0], time.Since(begin).Seconds())
		return b.outcome(stdout, log, out)
	}
	want := run(nil, "--runner=direct")
	direct := filepath.Join(b.dir, out+".direct")
	must.Do(b.t, os.Rename(filepath.Join(b.dir, out), direct))
	must.Do(b.t, os.Mkdir(filepath.Join(b.dir, out), 0o755))
	for _, name := range []string{"run.json", ".gitignore"} { // the same run id again, in the same place
		content, err := os.ReadFile(filepath.Join(direct, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(b.dir, out, name), content, 0o644)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	got := run(on, flags...)
	b.emptyTemp()
	if len(want.Files) < 3 || len(want.Counters) == 0 {
		b.t.Errorf("nothing to compare: %v", want)
	}
	if b.twice {
		want.Counters, got.Counters = nil, nil
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		b.t.Errorf("-direct +flink:\n%s", diff)
		for name, sum := range want.Files {
			if got.Files[name] != sum && strings.HasSuffix(name, ".json") {
				for _, dir := range []string{out + ".direct", out} {
					content, _ := os.ReadFile(filepath.Join(b.dir, dir, strings.TrimPrefix(name, out)))
					b.t.Logf("%s in %s:\n%s", name, dir, content)
				}
			}
		}
	}
}

// forms are the ways to form batches: every scheme, and what changes how its files are made. Those
// that are the pipeline of another one, with other draws, are run on a cluster only: the tests of
// the command run them on Prism.
var forms = []struct {
	name string
	same bool
	args string
}{
	{"b-min-sep", true, "--bounded graph --scheme b-min-sep --steps 200 --min-sep 8 --batch-size 64 --shards 3"},
	{"b-min-sep-cold", true, "--examples 3000000 --scheme b-min-sep --steps 300 --min-sep 16 --batch-size 512 --cold --shards 4"},
	{"truncated", false, "--examples 100000 --scheme b-min-sep --steps 100 --min-sep 4 --batch-size 200 --max-batch-size 210 --pad"},
	{"poisson", true, "--bounded graph --scheme poisson --steps 100 --batch-size 64"},
	{"balls-in-bins", true, "--examples 100000 --scheme balls-in-bins --steps 100 --min-sep 20"},
	{"cyclic-poisson", true, "--examples 100000 --scheme cyclic-poisson --steps 100 --min-sep 10 --batch-size 100 --secret-partition"},
	{"rotation", true, "--bounded pools --scheme rotation --steps 100 --epoch-steps 25 --shards 3"},
	{"multi-owner", false, "--bounded wide --scheme multi-owner --steps 200 --min-sep 4 --batch-size 100 --buckets 5"},
	{"fixed", false, "--bounded graph --scheme fixed --steps 100 --min-sep 4 --batch-size 64 --max-participations 2"},
}

// noises are strategies, whose noise is made.
var noises = []struct{ name, args string }{
	{"banded", "--kind banded-toeplitz --steps 100 --bands 8"},
	{"blt", "--kind blt --steps 100"},
}

// allPipelines runs every pipeline on a Flink and compares with the direct runner.
// With once, those that the run of the whole plan has are not run alone, and none for another
// scheme or strategy.
func allPipelines(t *testing.T, on *flink.Cluster, flags []string, once bool) {
	b := newBench(t)
	both := func(name, out, args string) {
		t.Run(name, func(t *testing.T) {
			inner := *b
			inner.t, inner.twice = t, strings.Contains(args, "--max-neighborhood")
			inner.both(on, flags, out, strings.Fields(args)...)
		})
	}
	graph := "bound --graph " + demoGraph + " --max-per-owner 2 --key key --out graph --json"
	if once {
		b.must(strings.Fields(graph)...)
	} else {
		both("bound", "graph", graph)
		both("bound-files", "files", "bound --graph "+demoGraph+" --max-per-owner 2 --edges-in-memory 99999 --key key --out files --json")
	}
	both("bound-copies", "copies", "bound --graph "+demoGraph+" --max-per-owner 3 --duplicates --max-neighborhood 40 --key key --out copies --json")
	both("bound-pools", "pools", "bound --graph "+demoGraph+" --pools 4 --key key --out pools --json")
	b.must(strings.Fields("bound --graph " + demoGraph + " --max-per-owner 20 --key key --out wide --quiet")...)
	for _, f := range forms {
		if once && f.same {
			continue
		}
		both("form-"+f.name, f.name, "form "+f.args+" --key key --out "+f.name+" --json")
	}
	if !once {
		both("account", "account", "account --scheme b-min-sep --steps 64 --min-sep 4 --batch-size 20 --examples 320 --bands 4 --epsilon 2 --delta 1e-3 --samples 20000 --out account")
		both("account-rotation", "rotated", "account --scheme rotation --steps 64 --epoch-steps 16 --examples 320 --bands 4 --epsilon 2 --delta 1e-3 --samples 20000 --out rotated")
		for _, n := range noises {
			b.must(strings.Fields("strategy " + n.args + " --out " + n.name + ".json --quiet")...)
			both("noise-"+n.name, "noise-"+n.name, "noise --files --strategy "+n.name+".json --noise-multiplier 0.9 --steps 100 --coordinates 30000 --shards 3 --key key --out noise-"+n.name+" --json")
		}
	}
	plan := fmt.Sprintf(`{
		"graph": {"paths": [%q]}, "bound": {"max_examples_per_owner": 1},
		"scheme": {"scheme": "b-min-sep", "steps": 100, "min_sep": 8, "batch_size": 64},
		"strategy": {"kind": "banded-toeplitz", "bands": 8},
		"privacy": {"epsilon": 8, "delta": 1e-3, "samples": 20000},
		"noise": {"coordinates": 1000, "files": true, "clip_norm": 1},
		"key": "key", "out": "whole"
	}`, demoGraph)
	must.Do(t, os.WriteFile(filepath.Join(b.dir, "plan.json"), []byte(plan), 0o600))
	both("run", "whole", "run plan.json")
	b.keyIsNowhere(on)
}

// keyIsNowhere requires that the root key is in none of the logs.
func (b *bench) keyIsNowhere(on *flink.Cluster) {
	b.t.Helper()
	key := must.Get(os.ReadFile(filepath.Join(b.dir, "key")))(b.t)
	logs, err := filepath.Glob(on.Logs())
	if err != nil || len(logs) == 0 {
		b.t.Fatalf("logs %v: %v", logs, err)
	}
	for _, path := range logs {
		text := must.Get(os.ReadFile(path))(b.t)
		if len(text) == 0 || bytes.Contains(text, bytes.TrimSpace(key)) {
			b.t.Errorf("%s is empty or has the root key", path)
		}
	}
}

// TestLoopback runs every pipeline once on Flink inside the job server, with two subtasks in the
// command's own process.
func TestLoopback(t *testing.T) {
	k := loopback(t)
	allPipelines(t, k, k.Flags(2), true)
}
