package pipelines_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minsep/internal/inspect"
	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/pipelines"
	"minsep/internal/stages"
	"minsep/internal/stream"
	"minsep/mechanism"
)

// newNoise returns a small stage, and options with a key and a run directory that is not there yet.
func newNoise(t *testing.T) (pipelines.Noise, pipelines.Options) {
	t.Helper()
	dir := t.TempDir()
	key, strategy := filepath.Join(dir, "key"), filepath.Join(dir, "strategy.json")
	s, err := mechanism.BSR(20, 4)
	if err == nil {
		err = stream.CreateKeyFile(key)
	}
	b, errJSON := json.Marshal(s)
	must.Do(t, errors.Join(err, errJSON, os.WriteFile(strategy, b, 0o600)))
	return pipelines.Noise{Strategy: strategy, Steps: 20, NoiseMultiplier: 1.5, PlanNoise: stages.PlanNoise{Coordinates: 7, ClipNorm: 1, Files: true, Shards: 2, StepsPerFile: 8}},
		pipelines.Options{KeyFile: key, Out: filepath.Join(dir, "run")}
}

// TestNoiseFailsWithoutLeftovers: a failure leaves nothing, an interruption what can be gone on
// with.
func TestNoiseFailsWithoutLeftovers(t *testing.T) {
	stage, o := newNoise(t)
	o.Runner = "no such runner"
	if _, err := stage.Run(context.Background(), o); err == nil {
		t.Fatal("an unknown runner is accepted")
	}
	if _, err := os.Stat(o.Out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the run directory is left: %v", err)
	}

	o.Runner = ""
	interrupted, stop := context.WithCancel(context.Background())
	o.Log = slog.New(onRecord{slog.DiscardHandler, "job begins", stop})
	if _, err := stage.Run(interrupted, o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want an interruption", err)
	}
	must.Fail(t, "an unfinished folder", "was stopped")(manifest.Open(t.Context(), filepath.Join(o.Out, manifest.NoiseFolder), manifest.NoiseFormat))
	before := must.Get(manifest.ReadRun(t.Context(), o.Out))(t)
	o.Log = nil
	made, err := stage.Run(context.Background(), o)
	if err != nil || made.RunID != before.RunID.String() {
		t.Errorf("run %s went on as %s (%v)", before.RunID, made.RunID, err)
	}
}

// onRecord calls do when a record with the message is logged.
type onRecord struct {
	slog.Handler
	message string
	do      func()
}

func (h onRecord) Enabled(context.Context, slog.Level) bool { return true }

func (h onRecord) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.message {
		h.do()
	}
	return nil
}

// TestInspectNoiseFindsFaults changes files and makes the index agree with them, so that only the
// check in question breaks.
func TestInspectNoiseFindsFaults(t *testing.T) {
	name := "shard-00001-of-00002/steps-000008-000015.npy"
	for want, harm := range map[string]func(folder string, ix *manifest.Index){
		"": func(string, *manifest.Index) {},
		"grid": func(folder string, ix *manifest.Index) {
			rewrite(t, folder, ix, name, func(b []byte) []byte { b[len(b)-4] ^= 1; return b })
		},
		"shapes": func(folder string, ix *manifest.Index) {
			rewrite(t, folder, ix, name, func(b []byte) []byte { return bytes.Replace(b, []byte("<f4"), []byte("<i4"), 1) })
		},
		"cover": func(folder string, ix *manifest.Index) {
			os.Remove(filepath.Join(folder, name))
			ix.Files = slices.DeleteFunc(ix.Files, func(f manifest.File) bool { return f.Name == name })
		},
		"run recipe": func(_ string, ix *manifest.Index) { ix.RunID[0]++ },
		"files": func(folder string, _ *manifest.Index) {
			path := filepath.Join(folder, name)
			b, _ := os.ReadFile(path)
			b[len(b)-1] ^= 0x80 // the sign: on the grid still
			os.WriteFile(path, b, 0o600)
		},
		"readable": func(folder string, ix *manifest.Index) {
			rewrite(t, folder, ix, "recipe.json", func(b []byte) []byte {
				return bytes.Replace(b, []byte(`"sensitivity": "0x1p`), []byte(`"sensitivity": "0x2p`), 1)
			})
		},
	} {
		stage, o := newNoise(t)
		must.Get(stage.Run(context.Background(), o))(t)
		folder := filepath.Join(o.Out, manifest.NoiseFolder)
		ix := must.Get(manifest.Read(t.Context(), folder))(t)
		harm(folder, ix)
		b, err := json.Marshal(ix)
		must.Do(t, errors.Join(err, os.WriteFile(filepath.Join(folder, manifest.IndexName), b, 0o600)))
		found := must.Get(inspect.Directory(t.Context(), o.Out, inspect.Options{}))(t)
		var broken []string
		for _, p := range found.Folders[len(found.Folders)-1].Checks {
			if !p.Held {
				broken = append(broken, p.Name)
			}
		}
		if strings.Join(broken, " ") != want {
			t.Errorf("broken are %v, want %q", broken, want)
		}
	}
}

// rewrite changes a file and its entry in the index.
func rewrite(t *testing.T, folder string, ix *manifest.Index, name string, change func(b []byte) []byte) {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(folder, name)))(t)
	changed := change(bytes.Clone(b))
	if bytes.Equal(b, changed) {
		t.Fatalf("%s is not changed", name)
	}
	f := must.Get(manifest.WriteFile(folder, name, manifest.SecretFile, func(w io.Writer) error { _, err := w.Write(changed); return err }))(t)
	for i := range ix.Files {
		if ix.Files[i].Name == name {
			ix.Files[i] = f
		}
	}
}
