package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/internal/stream"
)

const killedChangePlan = `{
	"graph": {"paths": ["graph.tsv"], "header": "no"}, "bound": {"max_examples_per_owner": 1},
	"scheme": {"scheme": "b-min-sep", "steps": 8, "min_sep": 2, "batch_size": 20},
	"strategy": {"kind": "banded-toeplitz", "bands": 2},
	"privacy": {"epsilon": EPSILON, "delta": 1e-2, "samples": 2000},
	"noise": {"coordinates": 100, "files": true, "steps_per_file": 4, "shards": 2},
	"key": "key", "out": "run",
}`

const killedRotationPlan = `{
	"graph": {"paths": ["shared.tsv"], "header": "no"}, "bound": {"max_examples_per_owner": 1, "pools": 3},
	"scheme": {"scheme": "rotation", "steps": 14, "epoch_steps": 4, "max_batch_size": 60},
	"strategy": {"kind": "bsr", "bands": 3},
	"privacy": {"epsilon": EPSILON, "delta": 1e-2, "samples": 2000},
	"noise": {"coordinates": 100, "files": true, "steps_per_file": 4, "shards": 2},
	"batches": {"shards": 2},
	"key": "key", "out": "run",
}`

// killedPlace is a folder in which commands run in processes of their own that are killed.
type killedPlace struct {
	t         *testing.T
	dir, kept string
}

func newKilledPlace(t *testing.T) killedPlace {
	t.Helper()
	p := killedPlace{t, filepath.Join(t.TempDir(), "place"), filepath.Join(t.TempDir(), "kept")}
	var graph, shared strings.Builder
	for e := range 300 {
		fmt.Fprintf(&graph, "example-%d\towner-%d\n", e, e/2)
		fmt.Fprintf(&shared, "example-%d\towner-%d\nexample-%d\towner-%d\n", e, e/2, e, 150+e*e%97)
	}
	must.Do(t, os.MkdirAll(filepath.Join(p.dir, "tmp"), 0o700))
	must.Do(t, stream.CreateKeyFile(filepath.Join(p.dir, "key")))
	for name, text := range map[string]string{"graph.tsv": graph.String(), "shared.tsv": shared.String(),
		"plan.json": strings.Replace(killedChangePlan, "EPSILON", "8", 1), "other.json": strings.Replace(killedChangePlan, "EPSILON", "9", 1),
		"rotation.json": strings.Replace(killedRotationPlan, "EPSILON", "8", 1), "otherrotation.json": strings.Replace(killedRotationPlan, "EPSILON", "9", 1)} {
		must.Do(t, os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600))
	}
	return p
}

func (p killedPlace) command(line string) *exec.Cmd {
	c := exec.Command(os.Args[0], append(strings.Fields(line), "--quiet")...)
	c.Env = append(os.Environ(), beCommand+"=1", "SOURCE_DATE_EPOCH=1800000000", "TMPDIR="+filepath.Join(p.dir, "tmp"))
	c.Dir = p.dir
	return c
}

// copy makes of a folder what another one is.
func (p killedPlace) copy(from, to string) {
	p.t.Helper()
	must.Do(p.t, os.RemoveAll(to))
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if d.IsDir() {
			return os.MkdirAll(target, info.Mode())
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return errors.Join(os.WriteFile(target, b, info.Mode()), os.Chtimes(target, info.ModTime(), info.ModTime()))
	})
	must.Do(p.t, err)
}

// killedCommands are those that write files, in an order in which each finds what it needs. After a
// blank line of their own they begin anew. A report says of a run with a fixed id that a check
// failed.
const killedCommands = `run plan.json --run-id=000000000000000000000000000000a1
run plan.json --again next --run-id=000000000000000000000000000000a2
run other.json --again other --run-id=000000000000000000000000000000a3
report run --out page.html --exits=3

bound --graph graph.tsv --header no --max-per-owner 1 --key key --out run --run-id=000000000000000000000000000000b1
form --bounded run --scheme b-min-sep --steps 8 --min-sep 2 --batch-size 20 --shards 2 --key key --out run
strategy --kind banded-toeplitz --steps 8 --bands 2 --out strategy.json
account --bounded run --scheme b-min-sep --steps 8 --min-sep 2 --batch-size 20 --strategy strategy.json --epsilon 8 --delta 1e-2 --samples 2000 --out run
noise --files --strategy strategy.json --steps 8 --coordinates 100 --shards 2 --steps-per-file 4 --key key --out run

run rotation.json --run-id=000000000000000000000000000000d1
run rotation.json --again next --run-id=000000000000000000000000000000d2
run otherrotation.json --again other --run-id=000000000000000000000000000000d3
report run --out page.html --exits=3

bound --graph shared.tsv --header no --pools 3 --key key --out run --run-id=000000000000000000000000000000e1
form --bounded run --scheme rotation --steps 14 --epoch-steps 4 --shards 2 --key key --out run
strategy --kind bsr --steps 14 --bands 3 --out strategy.json
account --bounded run --scheme rotation --steps 14 --epoch-steps 4 --strategy strategy.json --epsilon 8 --delta 1e-2 --samples 2000 --out run
noise --files --strategy strategy.json --steps 14 --coordinates 100 --shards 2 --steps-per-file 4 --key key --out run

bound --graph graph.tsv --header no --pools 2 --key key --out run --run-id=000000000000000000000000000000c1
form --bounded run --scheme rotation --steps 8 --epoch-steps 4 --shards 2 --key key --out run
strategy --kind identity --steps 8 --out strategy.json
account --bounded run --scheme rotation --steps 8 --epoch-steps 4 --strategy strategy.json --epsilon 8 --delta 1e-2 --out run
noise --files --strategy strategy.json --steps 8 --coordinates 100 --shards 2 --steps-per-file 4 --key key --out run`

// Every command that writes, killed before each change that it makes of a file or folder and then
// repeated, leaves the bytes of one that was not, and nothing else. In the everyday form it is
// killed before some of the changes.
func TestKilledBeforeEveryChange(t *testing.T) {
	for i, commands := range strings.Split(killedCommands, "\n\n") {
		if i%2 == 0 && i > 0 && !stattest.Long() {
			continue // another plan, and other single stages
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			p := newKilledPlace(t)
			kills := 0
			for line := range strings.SplitSeq(commands, "\n") {
				kills += p.killed(line)
			}
			t.Logf("killed %d times", kills)
		})
	}
}

// killed runs a command to its end, after it was killed at all its changes, and returns how often
// it was.
func (p killedPlace) killed(line string) (kills int) {
	p.t.Helper()
	p.copy(p.dir, p.kept)
	changes := changesOf(p.t, p.command(line))
	want := hashes(p.t, p.dir)
	for n, change := range changes {
		if !stattest.Long() && n%100 != 0 && !telling.MatchString(change) {
			continue
		}
		p.copy(p.kept, p.dir)
		if killedBefore(p.t, p.command(line), n) {
			kills++
		}
		out, err := p.command(line).CombinedOutput()
		repeated := hashes(p.t, p.dir)
		if strings.Contains(line, "--again") {
			delete(repeated, "run/lock") // of the earlier run, which locks nobody, and which no later command of the new one needs
		}
		if err != nil && !finishedBefore.Match(out) {
			p.t.Errorf("%s\nkilled before change %d, %s, does not run again: %v\n%s", line, n, change, err, out)
		} else if diff := cmp.Diff(want, repeated); diff != "" {
			p.t.Errorf("%s\nkilled before change %d, %s (-undisturbed +repeated):\n%s", line, n, change, diff)
		}
	}
	p.copy(p.kept, p.dir)
	if out, err := p.command(line).CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return kills
}

// telling are changes that have shown faults.
var telling = regexp.MustCompile(`(link|remove) .*(run|next|other)/.*(index|run|protocol)\.json$|rename .*earlier/.*/protocol\.json|remove run/noise/.*notes|rename strategy.json`)

// finishedBefore is what a command of a single stage says that was killed after it had finished.
var finishedBefore = regexp.MustCompile(`(holds a finished result|is there already): nothing is overwritten`)

// hashes lists the files below a folder with their modes and SHA-256.
func hashes(t *testing.T, dir string) map[string]string {
	t.Helper()
	list := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		list[name] = fmt.Sprintf("%v %x", info.Mode(), sha256.Sum256(b))
		if filepath.Base(filepath.Dir(name)) == "noise" || strings.Contains(filepath.ToSlash(name), "noise/shard-") || filepath.Base(name) == "run.json" {
			list[name] = fmt.Sprintf("%v %d bytes", info.Mode(), len(b)) // noise has random bytes of steps, and run.json its SHA-256
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return list
}
