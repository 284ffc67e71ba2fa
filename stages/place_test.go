package stages_test

import (
	"os"
	"path/filepath"
	"testing"

	"minsep/manifest"
	"minsep/sampling/stream"
	"minsep/stages"
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
	make("replaced", manifest.Run{RunID: other, Replaced: []stream.RunID{id}})
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
	if err := os.Symlink(at("run"), at("link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		recorded, dir string
		want          stages.Place
	}{
		{at("run"), at("run"), stages.PlaceSame},
		{at("run"), at("link"), stages.PlaceSame},
		{at("link"), at("run"), stages.PlaceSame}, // as if it were mounted there
		{at("run"), at("copy"), stages.PlaceCopy},
		{at("later"), at("copy"), stages.PlaceCopy},
		{at("replaced"), at("copy"), stages.PlaceCopy},
		{at("damaged"), at("copy"), stages.PlaceCopy},
		{at("gone"), at("copy"), stages.PlaceMoved},
		{at("empty"), at("copy"), stages.PlaceMoved},
		{at("other"), at("copy"), stages.PlaceMoved},
		{at("run/run.json"), at("copy"), stages.PlaceMoved}, // a file where the directory was
		{"gs://bucket/run", at("copy"), stages.PlaceUnknown},
		{at("run"), "gs://bucket/run", stages.PlaceUnknown},
		{"gs://bucket/run", "gs://bucket/run", stages.PlaceSame},
	} {
		if got, err := stages.PlaceOf(t.Context(), c.recorded, c.dir, id); err != nil || got != c.want {
			t.Errorf("recorded %s, at %s: %v (%v), want %v", c.recorded, c.dir, got, err, c.want)
		}
	}
}
