package registry_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"minsep/internal/manifest"
	"minsep/internal/registry"
	"minsep/internal/stream"
)

func TestPlaceOf(t *testing.T) {
	top := t.TempDir()
	at := func(name string) string { return filepath.Join(top, name) }
	make := func(name string, run manifest.Run) {
		t.Helper()
		run.Format, run.Version = manifest.RunFormat, manifest.Version
		if err := manifest.WriteRun(at(name), run, nil); err != nil {
			t.Fatal(err)
		}
	}
	id, other := stream.RunID{1}, stream.RunID{2}
	make("run", manifest.Run{RunID: id})
	make("copy", manifest.Run{RunID: id})
	make("later", manifest.Run{RunID: other, Earlier: []stream.RunID{id}})
	make("other", manifest.Run{RunID: other})
	if err := os.Mkdir(at("empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at("damaged"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at("damaged"), manifest.RunName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"lost": "batches/index.json", "lost noise": "noise/index.json", "stopped": "noise/recipe.json"} {
		path := filepath.Join(at(name), file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(`{"run_id": "`+id.String()+`"}`), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(at("run"), at("link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		recorded, dir string
		want          registry.Place
	}{
		{at("run"), at("run"), registry.PlaceSame},
		{at("run"), at("link"), registry.PlaceSame},
		{at("link"), at("run"), registry.PlaceSame}, // as if it were mounted there
		{at("run"), at("copy"), registry.PlaceCopy},
		{at("later"), at("copy"), registry.PlaceCopy},
		{at("damaged"), at("copy"), registry.PlaceCopy},
		{at("lost"), at("copy"), registry.PlaceCopy},
		{at("lost noise"), at("copy"), registry.PlaceCopy},
		{at("stopped"), at("copy"), registry.PlaceCopy},
		{at("gone"), at("copy"), registry.PlaceMoved},
		{at("empty"), at("copy"), registry.PlaceMoved},
		{at("other"), at("copy"), registry.PlaceMoved},
		{at("run/run.json"), at("copy"), registry.PlaceMoved}, // a file where the directory was
		{"gs://bucket/run", at("copy"), registry.PlaceUnknown},
		{at("run"), "gs://bucket/run", registry.PlaceUnknown},
		{"gs://bucket/run", "gs://bucket/run", registry.PlaceSame},
	} {
		if got, err := registry.PlaceOf(t.Context(), c.recorded, c.dir, id); err != nil || got != c.want {
			t.Errorf("recorded %s, at %s: %v (%v), want %v", c.recorded, c.dir, got, err, c.want)
		}
	}
}
