package pipelines_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/noise"
	"minsep/internal/pipelines"
	"minsep/internal/stream"
	"minsep/sampling"
)

// readStream splits a stream into its head and its rows.
func readStream(t *testing.T, b []byte) (head pipelines.NoiseStreamHead, rows []byte) {
	t.Helper()
	if len(b) < 4096 || b[4095] != '\n' {
		t.Fatalf("%d bytes without a head", len(b))
	}
	must.Do(t, json.Unmarshal(b[:4096], &head))
	return head, b[4096:]
}

// given are bytes of steps, which a test may know; other ones from a step on that is not 0.
func given(other int) io.Reader {
	var b []byte
	for step := range 20 {
		sum := sha256.Sum256([]byte{byte(step)})
		if other > 0 && step >= other {
			sum[0] ^= 1
		}
		b = append(b, sum[:16]...)
	}
	return bytes.NewReader(b)
}

// recorded are the bytes of steps in a recipe.
func recorded(t *testing.T, recipe []byte) io.Reader {
	t.Helper()
	r := must.Get(noise.Read(bytes.NewReader(recipe)))(t)
	var b []byte
	for _, step := range r.StepBytes {
		b = append(b, step[:]...)
	}
	return bytes.NewReader(b)
}

// TestNoiseStreamHasTheBytesOfTheFiles: of every shard of every split, from several steps, and of
// both types.
func TestNoiseStreamHasTheBytesOfTheFiles(t *testing.T) {
	for _, dtype := range []string{"float32", "float64"} {
		stage, o := newNoise(t)
		stage.DType = dtype
		for shards := 1; shards <= 7; shards += 2 {
			stage.Shards, stage.StepsPerFile = shards, 20
			must.Do(t, os.RemoveAll(filepath.Join(o.Out, "noise")))
			must.Get(stage.Run(t.Context(), o))(t)
			recipe := must.Get(os.ReadFile(filepath.Join(o.Out, "noise", manifest.RecipeFile)))(t)
			for shard := range shards {
				file := must.Get(os.ReadFile(filepath.Join(o.Out, "noise", manifest.NoiseFile(shard, shards, 0, 20))))(t)
				for _, from := range []int{0, 1, 13, 20} {
					var out bytes.Buffer
					head := must.Get(pipelines.NoiseStream{FromStep: from, Shard: shard, Shards: shards, DType: dtype}.Run(t.Context(), o, recorded(t, recipe), &out))(t)
					got, rows := readStream(t, out.Bytes())
					width := int(got.End-got.First) * got.DType.Size()
					if want := file[len(file)-width*(20-from):]; !bytes.Equal(rows, want) || got != head {
						t.Errorf("%s, shard %d of %d from step %d: other values than the file's", dtype, shard, shards, from)
					}
					if got.RecipeSHA256 != sha256.Sum256(recipe) || got.Steps != 20 || got.FromStep != from || got.Coordinates != 7 {
						t.Errorf("head %+v", got)
					}
				}
			}
		}
	}
}

// TestNoiseStreamObeysTheRulesOfNoise: what noise refuses is refused, before the first byte.
func TestNoiseStreamObeysTheRulesOfNoise(t *testing.T) {
	made := func(t *testing.T) (pipelines.NoiseStream, pipelines.Options) {
		stage, o := newNoise(t)
		stage.Files, stage.Shards, stage.StepsPerFile = false, 0, 0
		must.Get(stage.Run(t.Context(), o))(t)
		return pipelines.NoiseStream{Shards: 1}, o
	}
	for words, spoil := range map[string]func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options){
		"made with another root key": func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options) {
			o.KeyFile += "2"
			must.Do(t, stream.CreateKeyFile(o.KeyFile))
		},
		"has no recipe of noise": func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options) {
			must.Do(t, os.RemoveAll(filepath.Join(o.Out, "noise")))
		},
		"SHA-256 is not as the index says": func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options) {
			file := filepath.Join(o.Out, "noise", manifest.RecipeFile)
			b, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(file, bytes.Replace(b, []byte("clip_norm"), []byte("CLIP_NORM"), 1), 0o600)
			}
			must.Do(t, err)
		},
		"run.json, which would name that run, is missing": func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options) {
			must.Do(t, os.Remove(filepath.Join(o.Out, "run.json")))
		},
		"must be 0 to 20, the steps of the recipe": func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options) { n.FromStep = 21 },
		"must have at most 7 shards":               func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options) { n.Shards = 8 },
		"must be float32 or float64":               func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options) { n.DType = "bfloat16" },
		"with N from 1 to":                         func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options) { n.Shard = 1 },
	} {
		n, o := made(t)
		spoil(t, &n, &o)
		var out bytes.Buffer
		if _, err := n.Run(t.Context(), o, given(0), &out); err == nil || !strings.Contains(err.Error(), words) || out.Len() > 0 {
			t.Errorf("%q: %v, after %d bytes", words, err, out.Len())
		}
	}
}

// TestNoiseStreamIsOfItsBatches: the recipe of a directory that has other batches by now is not
// used.
func TestNoiseStreamIsOfItsBatches(t *testing.T) {
	stage, o := newNoise(t)
	stage.Files, stage.Shards, stage.StepsPerFile = false, 0, 0
	form := func(batch float64) {
		t.Helper()
		f := pipelines.Form{Examples: 100, Params: sampling.Params{Scheme: "poisson", Steps: 20, BatchSize: batch}}
		must.Get(f.Run(t.Context(), o))(t)
	}
	form(5)
	must.Get(stage.Run(t.Context(), o))(t)
	var out bytes.Buffer
	must.Get((pipelines.NoiseStream{Shards: 1}).Run(t.Context(), o, given(0), &out))(t)
	noise := filepath.Join(o.Out, "noise")
	must.Do(t, os.Rename(noise, o.Out+"-noise"))
	must.Do(t, os.RemoveAll(filepath.Join(o.Out, "batches")))
	form(6)
	must.Do(t, os.Rename(o.Out+"-noise", noise))
	out.Reset()
	if _, err := (pipelines.NoiseStream{Shards: 1}).Run(t.Context(), o, given(0), &out); err == nil || !strings.Contains(err.Error(), "poisson prob is 0.05 in the recipe of the noise, 0.06 here") || out.Len() > 0 {
		t.Errorf("%v, after %d bytes", err, out.Len())
	}
}

// TestNoiseStreamCheckpoints: a stream from a checkpoint has the bytes of one without, the last two
// checkpoints of each shard are kept, only the owner reads them, and those of
// other bytes of steps, or damaged, are not used.
func TestNoiseStreamCheckpoints(t *testing.T) {
	stage, o := newNoise(t)
	stage.Files, stage.Shards, stage.StepsPerFile = false, 0, 0
	must.Get(stage.Run(t.Context(), o))(t)
	dir := filepath.Join(t.TempDir(), "kept", "here")
	write := func(n pipelines.NoiseStream) ([]byte, error) {
		var out bytes.Buffer
		_, err := n.Run(t.Context(), o, given(0), &out)
		return out.Bytes(), err
	}
	names := func(pattern string) (names []string) {
		paths := must.Get(filepath.Glob(filepath.Join(dir, pattern)))(t)
		for _, p := range paths {
			names = append(names, filepath.Base(p))
		}
		return names
	}
	for shard := range 2 {
		for _, from := range []int{0, 11, 13, 3, 19, 20, 12} {
			n := pipelines.NoiseStream{FromStep: from, Shard: shard, Shards: 2}
			want := must.Get(write(n))(t)
			n.Checkpoint, n.CheckpointSteps = dir, 3+from%2
			got, err := write(n)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("shard %d from step %d: other bytes with checkpoints (%v)", shard, from, err)
			}
			if from < 11 && len(names(fmt.Sprintf("shard-%05d-*", shard))) < 2 || len(names(fmt.Sprintf("shard-%05d-*", shard))) > 3 {
				t.Errorf("shard %d from step %d: checkpoints %v", shard, from, names("*"))
			}
		}
	}
	must.Do(t, os.RemoveAll(dir))
	n := pipelines.NoiseStream{Shards: 1, Checkpoint: dir, CheckpointSteps: 6}
	must.Do(t, os.MkdirAll(dir, 0o755))
	left := filepath.Join(dir, ".minsep-tmp-shard-00000-of-00001-step-x") // by a stream that was killed
	must.Do(t, os.WriteFile(left, nil, 0o600))
	must.Get(write(n))(t)
	if got := names("*"); fmt.Sprint(got) != "[shard-00000-of-00001-step-000012 shard-00000-of-00001-step-000018]" {
		t.Errorf("files %v", got)
	}
	last := filepath.Join(dir, "shard-00000-of-00001-step-000018")
	if info, err := os.Stat(last); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	whole := must.Get(os.ReadFile(last))(t)
	// unused: a checkpoint that is not used changes no byte, and is told.
	unused := func(what string, n pipelines.NoiseStream, in func() io.Reader) {
		t.Helper()
		var want, got bytes.Buffer
		var told bytes.Buffer
		plain := n
		plain.Checkpoint, plain.CheckpointSteps = "", 0
		must.Get(plain.Run(t.Context(), o, in(), &want))(t)
		o := o
		o.Log = slog.New(slog.NewTextHandler(&told, &slog.HandlerOptions{Level: slog.LevelWarn}))
		if _, err := n.Run(t.Context(), o, in(), &got); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%s: other bytes, or %v", what, err)
		}
		if (what == "used") != (told.Len() == 0) || what != "used" && !strings.Contains(told.String(), "it is not used") {
			t.Errorf("%s: told %q", what, told.String())
		}
	}
	same := func() io.Reader { return given(0) }
	n.FromStep = 19
	unused("used", n, same)
	unused("of other bytes of a step", n, func() io.Reader { return given(5) })
	if err := os.WriteFile(last, whole, 0o600); err != nil { // the stream before has kept its own
		t.Fatal(err)
	}
	unused("of the same bytes before its step", n, func() io.Reader { return given(17) })
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	for what, b := range map[string][]byte{"damaged": damaged, "with a byte more": append(bytes.Clone(whole), '\n'), "cut": whole[:len(whole)-1]} {
		must.Do(t, os.WriteFile(last, b, 0o600))
		unused(what, n, same)
	}
	gone := filepath.Join(dir, "shard-00000-of-00001-step-000014") // as one is that another stream removes meanwhile
	must.Do(t, os.Symlink("nowhere", gone))
	n.FromStep = 17 // by the one before it
	if _, err := write(n); err != nil {
		t.Error(err)
	}
	for _, left := range []int{0, 16, 16 * 19, 16*20 - 1} { // a row waits for the bytes of later steps
		var out bytes.Buffer
		n := pipelines.NoiseStream{FromStep: 17, Shards: 1}
		if _, err := n.Run(t.Context(), o, io.LimitReader(given(0), int64(left)), &out); err == nil || !strings.Contains(err.Error(), "16 random bytes on standard input for each step") || out.Len() > 4096 {
			t.Errorf("%d bytes of steps: %v after %d bytes", left, err, out.Len())
		}
	}
	for words, bad := range map[string]pipelines.NoiseStream{
		"checkpoint-steps 0: must be at least 1": {Shards: 1, Checkpoint: dir},
		"checkpoint ftp://x":                     {Shards: 1, Checkpoint: "ftp://x", CheckpointSteps: 1},
	} {
		must.Fail(t, "", words)(write(bad))
	}
}

// TestNoiseStreamsOfOneShard: streams that keep checkpoints of one shard in one folder at once do
// not end one another, and have the bytes of a stream alone.
func TestNoiseStreamsOfOneShard(t *testing.T) {
	stage, o := newNoise(t)
	stage.Files, stage.Shards, stage.StepsPerFile = false, 0, 0
	must.Get(stage.Run(t.Context(), o))(t)
	percent := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(percent) }) // streams that overlap restore each other's
	stream := func(from int, checkpoint string) ([]byte, error) {
		var out bytes.Buffer
		_, err := pipelines.NoiseStream{FromStep: from, Shards: 1, Checkpoint: checkpoint, CheckpointSteps: 4}.Run(t.Context(), o, given(0), &out)
		return out.Bytes(), err
	}
	want := map[int][]byte{}
	for from := range 20 {
		b := must.Get(stream(from, ""))(t)
		want[from] = b
	}
	dir := t.TempDir()
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for from := 4 + i; from < 20; from += 4 {
				if got, err := stream(from, dir); err != nil || !bytes.Equal(got, want[from]) {
					t.Errorf("from step %d: other bytes, or %v", from, err)
				}
			}
		})
	}
	group.Wait()
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left are %v (%v)", left, err)
	}
}
