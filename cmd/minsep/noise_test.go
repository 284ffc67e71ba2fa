package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/noise"
	"minsep/internal/stream"
)

const killedRunID = "0123456789abcdef0123456789abcdef"

// command runs minsep as a process of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	bin := must.Get(exec.LookPath("minsep"))(t) // the test binary under the command's name, put there by testscript.Main
	return exec.Command(bin, args...)
}

func mustRun(t *testing.T, args ...string) {
	t.Helper()
	if out, err := command(t, args...).CombinedOutput(); err != nil {
		t.Fatalf("minsep %v: %v\n%s", args, err, out)
	}
}

// TestKilledNoise kills and interrupts noise, one run after the other in the same directory, each
// when there are more files than before. No reader accepts what is left before the last run has
// finished; that has the values of its recipe, and has not made finished files again.
func TestKilledNoise(t *testing.T) {
	for _, kind := range []string{"bisr", "banded-toeplitz"} {
		t.Run(kind, func(t *testing.T) { t.Parallel(); testKilledNoise(t, kind) })
	}
}

func testKilledNoise(t *testing.T, kind string) {
	dir := t.TempDir()
	strategy, key, out := filepath.Join(dir, "strategy.json"), filepath.Join(dir, "key"), filepath.Join(dir, "out")
	mustRun(t, "strategy", "--kind", kind, "--steps", "240", "--bands", "16", "--out", strategy)
	mustRun(t, "keygen", key)
	noise := func() *exec.Cmd {
		return command(t, "noise", "--files", "--strategy", strategy, "--noise-multiplier", "1.5", "--steps", "240", "--coordinates", "30000", "--shards", "3",
			"--steps-per-file", "10", "--key", key, "--out", out, "--quiet")
	}
	folder := filepath.Join(out, manifest.NoiseFolder)
	rng := rand.New(rand.NewPCG(1, 1))
	kept := map[string]os.FileInfo{} // files of noise that were there after a kill
	killed := 0
	for i, files := range []int{0, 1, 5, 12, 20, 30, 40, 50} { // of 72
		m := moment{glob: filepath.Join(folder, "shard-*", "steps-*"), files: files}
		if files == 0 {
			m.glob = folder
		}
		if sent, _ := killedOnce(t, noise(), m, rng.IntN(5), []os.Signal{os.Kill, os.Interrupt}[i%2]); !sent {
			break // it was faster
		}
		ix, err := manifest.Open(t.Context(), folder, manifest.NoiseFormat)
		if err == nil { // killed between the last word and the end of the process
			if err := ix.Verify(t.Context(), folder); err != nil {
				t.Fatalf("a reader accepts a folder that is not whole: %v", err)
			}
			break
		}
		killed++
		for path, info := range notedFiles(t, folder) {
			if old := kept[path]; old == nil {
				kept[path] = info
			}
		}
	}
	if _, err := manifest.Open(t.Context(), folder, manifest.NoiseFormat); err != nil {
		mustRun(t, noise().Args[1:]...)
	}
	if killed < 3 {
		t.Errorf("%d runs were killed before their end", killed)
	}
	ix := must.Get(manifest.Open(t.Context(), folder, manifest.NoiseFormat))(t)
	want := rowsOfRecipe(t, key, folder)
	again := 0
	for _, f := range ix.Files {
		if f.Name == "recipe.json" {
			continue
		}
		path := filepath.Join(folder, f.Name)
		got := must.Get(os.ReadFile(path))(t)
		var shard, first, last int
		must.Get(fmt.Sscanf(f.Name, "shard-%d-of-00003/steps-%d-%d.npy", &shard, &first, &last))(t)
		var rows []byte
		lo, hi := manifest.NoiseRange(30000, shard, 3)
		for step := first; step <= last; step++ {
			rows, _ = binary.Append(rows, binary.LittleEndian, want[step*30000:][lo:hi])
		}
		if !bytes.HasSuffix(got, rows) {
			t.Errorf("%s: other values than those of the recipe", f.Name)
		}
		if info, err := os.Stat(path); err == nil && kept[path] != nil && !(os.SameFile(info, kept[path]) && info.ModTime().Equal(kept[path].ModTime())) {
			again++
		}
	}
	t.Logf("killed %d times; %d files were there at a kill, %d of them made again", killed, len(kept), again)
	if again > 0 {
		t.Errorf("%d finished files were made again", again)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 3+2 {
		t.Errorf("%d entries in the folder (%v): want three shards, recipe and index", len(entries), err)
	}
	mustRun(t, "inspect", out)
}

// rowsOfRecipe makes the noise of a folder anew.
func rowsOfRecipe(t *testing.T, key, folder string) []float32 {
	t.Helper()
	root, errKey := stream.ReadKeyFile(key)
	f, errFile := os.Open(filepath.Join(folder, manifest.RecipeFile))
	must.Do(t, errors.Join(errKey, errFile))
	defer f.Close()
	r := must.Get(noise.Read(f))(t)
	g := must.Get(r.Generator(r.Key(root, r.RunID), 0, r.Params.Coordinates))(t)
	g.Add(r.StepBytes...)
	rows := make([]float32, r.Params.Steps*g.Width())
	must.Do(t, g.Fill32(rows))
	return rows
}

// notedFiles returns the files that shards' notes say are finished.
func notedFiles(t *testing.T, folder string) map[string]os.FileInfo {
	found := map[string]os.FileInfo{}
	paths := must.Get(filepath.Glob(filepath.Join(folder, "shard-*", ".minsep-tmp-notes.json")))(t)
	for _, path := range paths {
		b, err := os.ReadFile(path)
		var notes struct {
			Files []manifest.File `json:"files"`
		}
		if err == nil {
			err = json.Unmarshal(b, &notes)
		}
		must.Do(t, err)
		for _, f := range notes.Files {
			name := filepath.Join(folder, f.Name)
			found[name] = must.Get(os.Stat(name))(t)
		}
	}
	return found
}
