package transforms

import (
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/noise"
	"minsep/internal/stages"
	"minsep/internal/stream"
	"minsep/mechanism"
)

func init() { register.Function1x0(takeBlock) }

var blocks struct {
	sync.Mutex
	list []NoiseBlock
}

func takeBlock(b NoiseBlock) {
	blocks.Lock()
	defer blocks.Unlock()
	blocks.list = append(blocks.list, b)
}

func noiseConfig(t testing.TB) NoiseParams {
	t.Helper()
	return NoiseParams{Strategy: must.Get(mechanism.BSR(scheme.Steps, 4))(t), Coordinates: 100, NoiseMultiplier: .75, ClipNorm: 1}
}

// noiseOf returns the noise of a training by step.
func noiseOf(t *testing.T, runner string, l NoiseLayout) [][]float32 {
	t.Helper()
	p, s := beam.NewPipelineWithRoot()
	b := must.Get(SampleBatches(s, Sampling{Params: scheme}, NumberedExamples(newTraining(t), 2000)))(t)
	made := must.Get(Noise(t.Context(), s, b, noiseConfig(t), l))(t)
	beam.ParDo0(s, takeBlock, beam.Reshuffle(s, made))
	var steps [][]float32
	for range 2 { // a bundle that is repeated makes the same noise
		blocks.list = nil
		must.Get(beam.Run(t.Context(), runner, p))(t)
		slices.SortFunc(blocks.list, func(a, b NoiseBlock) int {
			return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.First, b.First))
		})
		again := make([][]float32, scheme.Steps)
		for _, b := range blocks.list {
			width := int(b.End - b.First)
			for i := range b.Steps {
				again[b.Step+i] = append(again[b.Step+i], b.Values[i*width:(i+1)*width]...)
			}
		}
		if steps != nil && !reflect.DeepEqual(steps, again) {
			t.Error("the same pipeline made other noise")
		}
		steps = again
	}
	return steps
}

// TestNoise: every step has its coordinates, on both runners and in every layout, and no two
// trainings share a value.
func TestNoise(t *testing.T) {
	seen := map[float32]bool{}
	repeated, all := 0, 0
	for runner, l := range map[string]NoiseLayout{"direct": {}, "prism": {Coordinates: 33, Steps: 7, Workers: 1}} {
		steps := noiseOf(t, runner, l)
		for step, row := range steps {
			if len(row) != 100 {
				t.Fatalf("%s: step %d has %d coordinates", runner, step, len(row))
			}
			for _, x := range row {
				if seen[x] {
					repeated++
				}
				all++
			}
		}
		for _, row := range steps {
			for _, x := range row {
				seen[x] = true
			}
		}
	}
	if repeated > all/100 {
		t.Errorf("%d of %d values are those of the other training", repeated, all)
	}
}

// TestNoiseRefuses: another number of steps, a second noise, and examples in a table that is not
// written.
func TestNoiseRefuses(t *testing.T) {
	_, s := beam.NewPipelineWithRoot()
	b := must.Get(SampleBatches(s, Sampling{Params: scheme}, NumberedExamples(newTraining(t), 2000)))(t)
	bounded := must.Get(SampleBatches(s, Sampling{Params: scheme}, examples(t, s, newTraining(t), limits)))(t)
	short, none := noiseConfig(t), noiseConfig(t)
	short.Strategy = must.Get(mechanism.BSR(scheme.Steps-1, 4))(t)
	none.Strategy = nil
	for _, c := range []struct {
		b    Batches
		c    NoiseParams
		l    NoiseLayout
		want string
	}{
		{b, short, NoiseLayout{}, "steps of the strategy 59: must be 60"},
		{b, none, NoiseLayout{}, "strategy nil: must be given"},
		{b, noiseConfig(t), NoiseLayout{Steps: -1}, "steps of a block -1"},
		{Batches{}, noiseConfig(t), NoiseLayout{}, "no batches are given"},
		{bounded, noiseConfig(t), NoiseLayout{}, "ReadTable"},
		{b, noiseConfig(t), NoiseLayout{}, "<nil>"},
		{b, noiseConfig(t), NoiseLayout{}, "has a noise already"},
	} {
		if _, err := Noise(t.Context(), s, c.b, c.c, c.l); !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("want %q: %v", c.want, err)
		}
	}
}

// TestWriteNoise: the files name the training of the batches, of a table in a second pipeline, and a
// pipeline that runs twice leaves the same.
func TestWriteNoise(t *testing.T) {
	training := newTraining(t)
	p, s := beam.NewPipelineWithRoot()
	e := examples(t, s, training, limits)
	must.Do(t, e.Write(t.Context(), s))
	must.Get(beam.Run(t.Context(), "direct", p))(t)
	p, s = beam.NewPipelineWithRoot()
	e = must.Get(ReadTable(t.Context(), s, training, filepath.Join(training.dir, manifest.BoundedFolder)))(t)
	b := must.Get(SampleBatches(s, Sampling{Params: scheme}, e))(t)
	must.Get(b.Write(t.Context(), s))(t)
	must.Get(WriteNoise(t.Context(), s, b, noiseConfig(t), NoiseFiles{Shards: 3}))(t)
	var indexes [2]*manifest.Index
	folder := filepath.Join(training.dir, manifest.NoiseFolder)
	for i, runner := range []string{"prism", "direct"} {
		must.Get(beam.Run(t.Context(), runner, p))(t)
		indexes[i] = must.Get(manifest.Read(t.Context(), folder))(t)
		if err := indexes[i].Verify(t.Context(), folder); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(indexes[0].Files, indexes[1].Files) || len(indexes[0].Files) != 4 {
		t.Errorf("files %v, then %v", indexes[0].Files, indexes[1].Files)
	}
	recipe := must.Get(stages.ReadRecipe(t.Context(), filepath.Join(folder, manifest.RecipeFile)))(t)
	batches := must.Get(manifest.OpenBatches(t.Context(), filepath.Join(training.dir, manifest.BatchesFolder)))(t)
	want := manifest.BoundedExamples(batches.Index.Inputs[manifest.BoundedFolder])
	if got := recipe.Params.Training; got.Examples != want || !got.Known() || recipe.RunID.String() != training.RunID() {
		t.Errorf("the noise is for %+v, run %v; want %s", got, recipe.RunID, want)
	}
}

// TestNoiseOfPairs: pairs that the same pipeline bounds and writes have noise, and a recipe that is
// completed on a worker is the one that is made for the training at once.
func TestNoiseOfPairs(t *testing.T) {
	training := newTraining(t)
	p, s := beam.NewPipelineWithRoot()
	e := examples(t, s, training, limits)
	must.Do(t, e.Write(t.Context(), s))
	b := must.Get(SampleBatches(s, Sampling{Params: scheme}, e))(t)
	blocks.list = nil
	beam.ParDo0(s, takeBlock, must.Get(Noise(t.Context(), s, b, noiseConfig(t), NoiseLayout{}))(t))
	must.Get(beam.Run(t.Context(), "prism", p))(t)
	values := 0
	for _, b := range blocks.list {
		values += len(b.Values)
	}
	if want := 100 * scheme.Steps; values != want {
		t.Errorf("%d values, want %d", values, want)
	}
	numbered := must.Get(SampleBatches(s, Sampling{Params: scheme}, NumberedExamples(newTraining(t), 2000)))(t)
	got := must.Get(numbered.draft(noiseConfig(t)))(t)
	keyFile := numbered.training.keyFile
	key := must.Get(bindNoise(got, "numbered 2000", numbered.spec, keyFile))(t)
	c := noiseConfig(t)
	sampler := must.Get(stages.SamplerText(numbered.spec))(t)
	want := must.Get(noise.NewRecipe(noise.Config{Strategy: c.Strategy, Coordinates: c.Coordinates,
		NoiseMultiplier: c.NoiseMultiplier, ClipNorm: c.ClipNorm, Training: noise.Training{Examples: "numbered 2000", Sampler: sampler}}))(t)
	root := must.Get(stream.ReadKeyFile(keyFile))(t)
	want.Bind(root, numbered.training.id, keyFile)
	want.StepBytes = got.StepBytes
	if !reflect.DeepEqual(got, want) || key.Commitment() != want.Key(root, want.RunID).Commitment() {
		t.Errorf("the recipe %+v, want %+v", got.Params, want.Params)
	}
}

func TestBlockCoder(t *testing.T) {
	want := NoiseBlock{Step: 3, Steps: 2, First: 5, End: 6, Values: []float32{1.5, -2}}
	encoded := must.Get(encodeBlock(want))(t)
	if got, err := decodeBlock(encoded); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := decodeBlock(encoded[:33]); err == nil {
		t.Error("half a value is a block")
	}
}
