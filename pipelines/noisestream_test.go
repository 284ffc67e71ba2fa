package pipelines_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minsep/manifest"
	"minsep/pipelines"
	"minsep/sampling"
	"minsep/sampling/stream"
)

// readStream splits a stream into its head and its rows.
func readStream(t *testing.T, b []byte) (head pipelines.NoiseStreamHead, rows []byte) {
	t.Helper()
	if len(b) < 4096 || b[4095] != '\n' {
		t.Fatalf("%d bytes without a head", len(b))
	}
	if err := json.Unmarshal(b[:4096], &head); err != nil {
		t.Fatal(err)
	}
	return head, b[4096:]
}

// TestNoiseStreamHasTheBytesOfTheFiles: of every shard of every split, from several steps, and of
// both types.
func TestNoiseStreamHasTheBytesOfTheFiles(t *testing.T) {
	for _, dtype := range []string{"float32", "float64"} {
		stage, o := newNoise(t)
		stage.DType = dtype
		for shards := 1; shards <= 7; shards += 2 {
			stage.Shards, stage.StepsPerFile, o.Overwrite = shards, 20, shards > 1
			if _, err := stage.Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			recipe, err := os.ReadFile(filepath.Join(o.Out, "noise", manifest.RecipeFile))
			if err != nil {
				t.Fatal(err)
			}
			for shard := range shards {
				file, err := os.ReadFile(filepath.Join(o.Out, "noise", manifest.NoiseFile(shard, shards, 0, 20)))
				if err != nil {
					t.Fatal(err)
				}
				for _, from := range []int{0, 1, 13, 20} {
					var out bytes.Buffer
					head, err := pipelines.NoiseStream{FromStep: from, Shard: shard, Shards: shards, DType: dtype}.Run(t.Context(), o, &out)
					if err != nil {
						t.Fatal(err)
					}
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
		stage.RecipeOnly, stage.Shards, stage.StepsPerFile = true, 0, 0
		if _, err := stage.Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		return pipelines.NoiseStream{Shards: 1}, o
	}
	for words, spoil := range map[string]func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options){
		"made with another root key": func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options) {
			o.KeyFile += "2"
			if err := stream.CreateKeyFile(o.KeyFile); err != nil {
				t.Fatal(err)
			}
		},
		"serves another directory already": func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options) {
			moved := o.Out + "2"
			if err := os.CopyFS(moved, os.DirFS(o.Out)); err != nil {
				t.Fatal(err)
			}
			o.Out = moved
		},
		"has no recipe of noise": func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options) {
			if err := os.RemoveAll(filepath.Join(o.Out, "noise")); err != nil {
				t.Fatal(err)
			}
		},
		"SHA-256 is not what the index says": func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options) {
			file := filepath.Join(o.Out, "noise", manifest.RecipeFile)
			b, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(file, bytes.Replace(b, []byte("clip_norm"), []byte("CLIP_NORM"), 1), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"run.json, which would say so, is missing": func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options) {
			if err := os.Remove(filepath.Join(o.Out, "run.json")); err != nil {
				t.Fatal(err)
			}
		},
		"must be 0 to 20, the steps of the recipe": func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options) { n.FromStep = 21 },
		"must have at most 7 shards":               func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options) { n.Shards = 8 },
		"must be float32 or float64":               func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options) { n.DType = "bfloat16" },
		"with N from 1 to":                         func(t *testing.T, n *pipelines.NoiseStream, o *pipelines.Options) { n.Shard = 1 },
	} {
		n, o := made(t)
		spoil(t, &n, &o)
		for _, dry := range []bool{true, false} {
			var out bytes.Buffer
			o.DryRun = dry
			if _, err := n.Run(t.Context(), o, &out); err == nil || !strings.Contains(err.Error(), words) || out.Len() > 0 {
				t.Errorf("%q, dry %v: %v, after %d bytes", words, dry, err, out.Len())
			}
		}
	}
}

// TestNoiseStreamIsOfItsBatches: the recipe of a directory that has other batches by now is not
// used.
func TestNoiseStreamIsOfItsBatches(t *testing.T) {
	stage, o := newNoise(t)
	stage.RecipeOnly, stage.Shards, stage.StepsPerFile = true, 0, 0
	form := func(batch float64) {
		t.Helper()
		f := pipelines.Form{Examples: 100, Params: sampling.Params{Scheme: "poisson", Steps: 20, BatchSize: batch}}
		if _, err := f.Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	form(5)
	if _, err := stage.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := (pipelines.NoiseStream{Shards: 1}).Run(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	noise := filepath.Join(o.Out, "noise")
	if err := os.Rename(noise, o.Out+"-noise"); err != nil {
		t.Fatal(err)
	}
	o.Overwrite = true
	if err := os.RemoveAll(filepath.Join(filepath.Dir(o.KeyFile), "minsep-runs")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir()) // no record is left
	form(6)
	if err := os.Rename(o.Out+"-noise", noise); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if _, err := (pipelines.NoiseStream{Shards: 1}).Run(t.Context(), o, &out); err == nil || !strings.Contains(err.Error(), "for other examples or another sampler") || out.Len() > 0 {
		t.Errorf("%v, after %d bytes", err, out.Len())
	}
}

// TestNoiseStreamOfAFineGrid: a float32 does not hold what the default grid of float64 gives.
func TestNoiseStreamOfAFineGrid(t *testing.T) {
	stage, o := newNoise(t)
	stage.RecipeOnly, stage.Shards, stage.StepsPerFile, stage.DType = true, 0, 0, "float64"
	if _, err := stage.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for dtype, words := range map[string]string{"float32": "must be float64: a float32 does not hold the noise", "float64": ""} {
		var out bytes.Buffer
		_, err := pipelines.NoiseStream{Shards: 1, DType: dtype}.Run(t.Context(), o, &out)
		if got := fmt.Sprint(err); words != "" && (!strings.Contains(got, words) || out.Len() > 0) || words == "" && err != nil {
			t.Errorf("%s: %v", dtype, err)
		}
	}
}
