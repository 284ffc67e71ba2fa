package noiseshards

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx" // every runner

	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/noise"
	"minsep/internal/stream"
	"minsep/internal/transforms/manifestio"
	"minsep/mechanism"
)

func TestMain(m *testing.M) {
	beam.Init()
	os.Exit(m.Run())
}

const steps, coordinates = 47, 301

// newKey makes a key file.
func newKey(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "root.key")
	must.Do(t, stream.CreateKeyFile(path))
	return path
}

// newConfig makes a folder with a recipe.
func newConfig(t testing.TB, key string, s *mechanism.Strategy) (Config, *noise.Recipe) {
	t.Helper()
	r := must.Get(noise.NewRecipe(noise.Config{Strategy: s, Coordinates: coordinates, NoiseMultiplier: 1.5, ClipNorm: 1}))(t)
	root := must.Get(stream.ReadKeyFile(key))(t)
	r.Bind(root, stream.RunID{3}, key)
	r.Draw()
	c := Config{Dir: t.TempDir(), KeyURI: key, Shards: 4, DType: manifest.DFloat32, StepsPerFile: 10}
	f := must.Get(WriteRecipe(c.Dir, r))(t)
	c.RecipeSHA256 = f.SHA256
	return c, r
}

// run runs the pipeline and returns the files, checked.
func run(runner string, c Config) ([]manifest.File, error) {
	p, s := beam.NewPipelineWithRoot()
	lines, err := Write(s, c)
	if err != nil {
		return nil, err
	}
	manifestio.Collect(s, c.Dir, "files.json", lines)
	if _, err := beam.Run(context.Background(), runner, p); err != nil {
		return nil, err
	}
	files, err := manifestio.CollectedFiles(c.Dir, "files.json")
	for _, f := range files {
		err = errors.Join(err, f.Check(context.Background(), c.Dir))
	}
	return files, errors.Join(err, c.Facts(steps, coordinates).CheckCover(files))
}

// read returns the noise of a folder as one array [steps, coordinates].
func read(t testing.TB, c Config) []float64 {
	t.Helper()
	all := make([]float64, steps*coordinates)
	for shard := range c.Shards {
		readShard(t, c, shard, all)
	}
	return all
}

// readShard puts the noise of a shard into its place in all.
func readShard(t testing.TB, c Config, shard int, all []float64) {
	t.Helper()
	lo, hi := manifest.NoiseRange(coordinates, shard, c.Shards)
	for first := 0; first < steps; first += c.stepsPerFile() {
		rows := min(c.stepsPerFile(), steps-first)
		f := must.Get(os.Open(filepath.Join(c.Dir, manifest.NoiseFile(shard, c.Shards, first, rows))))(t)
		defer f.Close()
		h, err := manifest.ReadNPYHeader(f)
		if err != nil || h.DType != c.DType || !slices.Equal(h.Shape, []int{rows, int(hi - lo)}) {
			t.Fatalf("header %+v, %v", h, err)
		}
		for i := range rows {
			row := all[(first+i)*coordinates+int(lo):][:hi-lo]
			if c.DType == manifest.DFloat64 {
				err = binary.Read(f, binary.LittleEndian, row)
			} else {
				narrow := make([]float32, len(row))
				err = binary.Read(f, binary.LittleEndian, narrow)
				for j, v := range narrow {
					row[j] = float64(v)
				}
			}
			must.Do(t, err)
		}
	}
}

// expected makes the noise without a pipeline.
func expected(t testing.TB, c Config, r *noise.Recipe) []float64 {
	t.Helper()
	root := must.Get(stream.ReadKeyFile(c.KeyURI))(t)
	g := must.Get(r.Generator(r.Key(root, r.RunID), 0, coordinates))(t)
	g.Add(r.StepBytes...)
	all := make([]float64, steps*coordinates)
	must.Do(t, g.Fill64(all))
	return all
}

func testStrategies() []*mechanism.Strategy {
	return []*mechanism.Strategy{
		{Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: []float64{1, .5, .3, .2}, Normalized: true},
		{Kind: mechanism.KindBISR, Steps: steps, InverseToeplitz: []float64{1, -.5, -.125}},
		{Kind: mechanism.KindBLT, Steps: steps, BLT: &mechanism.BLT{Scales: []float64{.2, .1}, Decays: []float64{.9, .5}}},
	}
}

// TestEverySplitAndRunnerGivesTheSameNoise changes one setting at a time.
func TestEverySplitAndRunnerGivesTheSameNoise(t *testing.T) {
	for _, s := range testStrategies() {
		key := newKey(t)
		for _, change := range []func(*Config) string{
			func(c *Config) string { return "direct" },
			func(c *Config) string { return "prism" },
			func(c *Config) string { c.Shards = 1; return "direct" },
			func(c *Config) string { c.Shards, c.StepsPerFile = 64, 0; return "direct" },
			func(c *Config) string { c.StepsPerFile = 7; return "direct" },
			func(c *Config) string { c.DType = manifest.DFloat64; return "direct" },
		} {
			c, r := newConfig(t, key, s)
			runner := change(&c)
			if _, err := run(runner, c); err != nil {
				t.Fatalf("%s, %+v: %v", runner, c, err)
			}
			if !slices.Equal(read(t, c), expected(t, c, r)) {
				t.Errorf("%s on %s with %d shards: other noise", s.Kind, runner, c.Shards)
			}
		}
	}
}

// TestRepeatKeepsFiles runs again over files of a finished run, one of them damaged.
func TestRepeatKeepsFiles(t *testing.T) {
	c, r := newConfig(t, newKey(t), testStrategies()[0])
	first := must.Get(run("direct", c))(t)
	keep, damage := filepath.Join(c.Dir, first[0].Name), filepath.Join(c.Dir, first[len(first)-1].Name)
	before := must.Get(os.Stat(keep))(t)
	b := must.Get(os.ReadFile(damage))(t)
	b[len(b)-1] ^= 1
	must.Do(t, os.WriteFile(damage, b, 0o600))
	again := must.Get(run("direct", c))(t)
	if !slices.Equal(first, again) || !slices.Equal(read(t, c), expected(t, c, r)) {
		t.Error("the second run gives other files")
	}
	if after, err := os.Stat(keep); err != nil || !os.SameFile(before, after) {
		t.Errorf("a finished file was made again (%v)", err)
	}
}

// killedAfter makes a shard's first files and stops as a killed task does.
func killedAfter(t *testing.T, c Config, r *noise.Recipe, files int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := writer(t, c, r, func() {
		if files--; files == 0 {
			cancel()
		}
	})
	if _, err := w.run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("stopped with %v", err)
	}
}

func writer(t *testing.T, c Config, r *noise.Recipe, done func()) *shardWriter {
	t.Helper()
	root := must.Get(stream.ReadKeyFile(c.KeyURI))(t)
	lo, hi := manifest.NoiseRange(coordinates, 1, c.Shards)
	g := must.Get(r.Generator(r.Key(root, r.RunID), lo, hi))(t)
	g.Add(r.StepBytes...)
	return &shardWriter{config: c, shard: 1, steps: steps, generator: g, done: done}
}

// TestResume stops a shard after some files, damages or removes one of what is left, and goes on: the
// noise is the same, and of the finished files only those that were touched are made again.
func TestResume(t *testing.T) {
	key := newKey(t)
	for _, s := range testStrategies() {
		for _, c := range []struct {
			stop   int // after so many of five files
			touch  string
			remove bool
			made   int // by the second task
		}{
			{3, "", false, 2},
			{3, notesName, true, 5},
			{3, "steps-000000-000009.npy", false, 3},
			{4, "steps-000010-000019.npy", true, 2},
			{4, "steps-000030-000039.npy", false, 2},
		} {
			config, r := newConfig(t, key, s)
			killedAfter(t, config, r, c.stop)
			path := filepath.Join(config.Dir, manifest.NoiseShard(1, config.Shards), c.touch)
			if b, err := os.ReadFile(path); err == nil {
				b[len(b)/2] ^= 0x55
				must.Do(t, os.WriteFile(path, b, 0o600))
			}
			if c.remove {
				must.Do(t, os.Remove(path))
			}
			made := 0
			files, err := writer(t, config, r, func() { made++ }).run(context.Background())
			if err != nil || made != c.made || len(files) != 5 {
				t.Errorf("%s, %+v: %d of %d files were made (%v)", s.Kind, c, made, len(files), err)
			}
			got, want := make([]float64, steps*coordinates), make([]float64, steps*coordinates)
			readShard(t, config, 1, got)
			lo, hi := manifest.NoiseRange(coordinates, 1, config.Shards)
			for i, row := range slices.Collect(slices.Chunk(expected(t, config, r), coordinates)) {
				copy(want[i*coordinates+int(lo):], row[lo:hi])
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, %+v: other noise", s.Kind, c)
			}
		}
	}
}

// TestOtherLayout: a task with other files in the same folder uses none of those that were finished.
func TestOtherLayout(t *testing.T) {
	c, r := newConfig(t, newKey(t), testStrategies()[0])
	killedAfter(t, c, r, 3)
	c.DType = manifest.DFloat64
	made := 0
	if _, err := writer(t, c, r, func() { made++ }).run(context.Background()); err != nil || made != 5 {
		t.Errorf("%d of 5 files were made (%v)", made, err)
	}
}

// TestPublishLeavesNoiseAlone: after Publish a folder has the noise, the recipe and the index.
func TestPublishLeavesNoiseAlone(t *testing.T) {
	c, r := newConfig(t, newKey(t), testStrategies()[0])
	dir := filepath.Join(c.Dir, "noise")
	stage := must.Get(manifest.Begin(dir, true))(t)
	recipe := must.Get(WriteRecipe(dir, r))(t)
	c.Dir, c.RecipeSHA256 = dir, recipe.SHA256
	files := must.Get(run("direct", c))(t)
	params, sum, err := manifest.Params(r.Params)
	if err != nil || sum != r.ParamsSHA256 {
		t.Fatalf("the index's hash of the parameters is not the recipe's (%v)", err)
	}
	must.Do(t, stage.Publish(manifest.Index{Format: "test", RunID: r.RunID, Params: params, ParamsSHA256: sum, Files: append(files, recipe)}))
	found := 0
	err = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		switch mode := info.Mode(); {
		case err != nil:
			return err
		case mode.IsDir() && mode.Perm() != 0o700, mode.IsRegular() && mode.Perm() != 0o600:
			t.Errorf("%s: mode %v", path, mode)
		case strings.Contains(path, "tmp"+"-notes"):
			t.Errorf("%s is left", path)
		case mode.IsRegular():
			found++
		}
		return nil
	})
	if err != nil || found != len(files)+2 {
		t.Errorf("%d files, want %d (%v)", found, len(files)+2, err)
	}
}

func TestRefusals(t *testing.T) {
	c, r := newConfig(t, newKey(t), testStrategies()[0])
	if err := (Config{StepsPerFile: -1}).Validate(); err == nil || len(strings.Split(err.Error(), "\n")) != 5 {
		t.Errorf("got %v, want 5 faults", err)
	}
	for name, change := range map[string]func(c *Config){
		"more shards than coordinates": func(c *Config) { c.Shards = coordinates + 1 },
		"another recipe":               func(c *Config) { c.RecipeSHA256[0]++ },
		"no recipe":                    func(c *Config) { c.Dir = filepath.Join(c.Dir, "none") },
		"no key":                       func(c *Config) { c.KeyURI += "x" },
		"another key":                  func(c *Config) { c.KeyURI = newKey(t) },
		"a file in the way": func(c *Config) {
			must.Do(t, os.WriteFile(filepath.Join(c.Dir, manifest.NoiseShard(2, c.Shards)), nil, 0o600))
		},
	} {
		changed := c
		change(&changed)
		if _, err := run("direct", changed); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if r.Params.Coordinates != coordinates {
		t.Error("the recipe changed")
	}
}
