package transforms

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/param"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/stream"
	"minsep/internal/transforms/formation"
	"minsep/internal/transforms/noiseshards"
	"minsep/mechanism"
	"minsep/sampling"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[noiseFn]())
	beam.RegisterDoFn(reflect.TypeFor[publishNoiseFn]())
	beam.RegisterType(reflect.TypeFor[coordinates]())
	beam.RegisterCoder(reflect.TypeFor[NoiseBlock](), encodeBlock, decodeBlock)
	register.Emitter1[NoiseBlock]()
	register.Function1x2(boundedExamples)
}

// NoiseBlock is the noise of some consecutive steps and coordinates: Values[i*(End-First)+j] is that
// of step Step+i and coordinate First+j. It is as secret as the gradients.
type NoiseBlock struct {
	Step, Steps int
	First, End  int64 // coordinates [First, End)
	Values      []float32
}

// NoiseParams are the parameters of the noise of a training.
type NoiseParams struct {
	Strategy        *mechanism.Strategy // C, of as many steps as the batches
	Coordinates     int64               // of a gradient, at least 1
	NoiseMultiplier float64             // σ: standard deviation of the white noise over ClipNorm, as a certificate says
	ClipNorm        float64             // to which gradients are clipped, 2⁻⁸⁰ to 2⁸⁰
	Float64         bool                // the noise is added in float64, on a finer grid
}

// NoiseLayout says how noise is divided into blocks. It changes no value.
type NoiseLayout struct {
	Coordinates int64 // of a block; 0 means 65,536
	Steps       int   // of a block; 0 for blocks of about 1 MiB
	Workers     int   // goroutines of a block; 0 for one a processor
}

// Noise makes the correlated noise of the training of batches: a PCollection<NoiseBlock>. The blocks
// of a range of coordinates come from one worker, step after step, and are the same if it is
// repeated. Every call draws fresh bytes for the key of each step, so that no two trainings share
// noise; a training has one noise.
//
// The noise names the examples of the batches. So these are numbered, or in a table: one that
// [ReadTable] reads, or one that the same pipeline bounds, and writes before the batches are sampled
// ([Examples.Write]); the noise then begins when the table is there. c.Strategy has at most 4 MiB in
// the pipeline.
func Noise(ctx context.Context, s beam.Scope, b Batches, c NoiseParams, l NoiseLayout) (beam.PCollection, error) {
	s = s.Scope("minsep.Noise")
	if err := errors.Join(ctx.Err(), b.check()); err != nil {
		return beam.PCollection{}, err
	}
	k := param.Checker{}
	k.Require(l.Coordinates >= 0, "coordinates of a block", l.Coordinates, "must be at least 0")
	k.AtLeast("steps of a block", l.Steps, 0)
	k.AtLeast("workers", l.Workers, 0)
	if err := k.Err(); err != nil {
		return beam.PCollection{}, err
	}
	t := b.training
	r, err := b.draft(c)
	if err != nil {
		return beam.PCollection{}, err
	}
	table, err := b.examples.identity(s)
	if err != nil {
		return beam.PCollection{}, err
	}
	var draft bytes.Buffer
	if err := r.Write(&draft); err != nil {
		return beam.PCollection{}, err
	}
	const most = 4 << 20
	if draft.Len() > most {
		return beam.PCollection{}, fmt.Errorf(
			"the recipe of the noise has %d bytes: at most %d can travel with a pipeline: give another strategy, or call WriteNoise",
			draft.Len(),
			most,
		)
	}
	l = l.withDefaults(c.Coordinates)
	if err := t.claim("noise"); err != nil {
		return beam.PCollection{}, err
	}
	var ranges []coordinates
	for first := int64(0); first < c.Coordinates; first += l.Coordinates {
		ranges = append(ranges, coordinates{first, min(c.Coordinates, first+l.Coordinates)})
	}
	spread := beam.Reshuffle(s, beam.CreateList(s, ranges))
	return beam.ParDo(s, &noiseFn{Draft: draft.Bytes(), KeyFile: t.keyFile, Layout: l}, spread,
		beam.SideInput{Input: b.drawn.Resolved}, beam.SideInput{Input: table}), nil
}

// identity returns the name by which noise knows the examples, as a collection of one element.
func (e Examples) identity(s beam.Scope) (beam.PCollection, error) {
	if e.published.IsValid() {
		return beam.ParDo(s, boundedExamples, e.published), nil
	}
	name, err := e.knownIdentity()
	if err != nil {
		return beam.PCollection{}, err
	}
	return beam.CreateList(s, []string{name}), nil
}

// boundedExamples names the examples of a table by the digest of its index.
func boundedExamples(digest string) (string, error) {
	var of manifest.Digest
	err := of.UnmarshalText([]byte(digest))
	return manifest.BoundedExamples(of), err
}

// knownIdentity is identity for examples that are known before the pipeline runs.
func (e Examples) knownIdentity() (string, error) {
	switch {
	case e.isNumbered():
		return manifest.NumberedExamples(e.numbered), nil
	case e.table != nil:
		return manifest.BoundedExamples(e.table.Digest), nil
	}
	return "", errors.New("noise and statistics name the table of their examples: write it with Examples.Write before; " +
		"for WriteNoise sample the batches in another pipeline, from the table that ReadTable reads")
}

// draft returns the recipe of the noise of batches, with fresh bytes for each step and without its
// training.
func (b Batches) draft(c NoiseParams) (*noise.Recipe, error) {
	if c.Strategy != nil && c.Strategy.Steps != b.sampling.Steps {
		return nil, param.Fault("steps of the strategy", c.Strategy.Steps, "must be %d, those of the batches", b.sampling.Steps)
	}
	r, err := noise.NewRecipe(
		noise.Config{Strategy: c.Strategy, Coordinates: c.Coordinates, NoiseMultiplier: c.NoiseMultiplier,
			ClipNorm: c.ClipNorm, Float64: c.Float64},
	)
	if err != nil {
		return nil, err
	}
	r.RunID = b.training.id
	r.Draw()
	return r, nil
}

// bindNoise completes the recipe of a training.
func bindNoise(r *noise.Recipe, examples string, of sampling.Spec, keyFile string) (stream.Key, error) {
	sampler, err := stages.SamplerText(of)
	if err != nil {
		return stream.Key{}, err
	}
	if err := r.SetTraining(noise.Training{Examples: examples, Sampler: sampler}); err != nil {
		return stream.Key{}, err
	}
	root, err := stream.ReadKeyFile(keyFile)
	if err != nil {
		return stream.Key{}, err
	}
	r.Bind(root, r.RunID, keyFile)
	return r.Key(root, r.RunID), nil
}

// NoiseFiles says how noise is laid out in files. It changes no value.
type NoiseFiles struct {
	Shards       int // of the coordinates, each made by one worker; 0 means 1
	StepsPerFile int // 0 for 1000
}

// WriteNoise is [Noise] to files of the training's run directory, float32 or with Float64 float64, as `minsep noise` writes them, with
// their recipe, and their index when all files are there. It returns one element, the SHA-256 of the
// parameters in the index as text.
//
// The examples of the batches are numbered or in a table that [ReadTable] reads.
func WriteNoise(ctx context.Context, s beam.Scope, b Batches, c NoiseParams, l NoiseFiles) (beam.PCollection, error) {
	s = s.Scope("minsep.WriteNoise")
	if err := errors.Join(ctx.Err(), b.check()); err != nil {
		return beam.PCollection{}, err
	}
	t := b.training
	folder := store.Join(t.dir, manifest.NoiseFolder)
	config := noiseshards.Config{
		Dir:          folder,
		KeyURI:       t.keyFile,
		Shards:       max(1, l.Shards),
		DType:        manifest.DFloat32,
		StepsPerFile: l.StepsPerFile,
	}
	if c.Float64 {
		config.DType = manifest.DFloat64
	}
	r, err := b.draft(c)
	if err != nil {
		return beam.PCollection{}, err
	}
	name, err := b.examples.knownIdentity()
	if err != nil {
		return beam.PCollection{}, err
	}
	if _, err := bindNoise(r, name, b.spec, t.keyFile); err != nil {
		return beam.PCollection{}, err
	}
	if err := errors.Join(config.Validate(), t.claim("noise")); err != nil {
		return beam.PCollection{}, err
	}
	ix := manifest.Index{Format: manifest.NoiseFormat, RunID: t.id}
	if ix.Params, ix.ParamsSHA256, err = manifest.Params(r.Params); err != nil {
		return beam.PCollection{}, err
	}
	ix.Facts, err = json.Marshal(
		manifest.DescribedNoise{NoiseFacts: config.Facts(r.Params.Steps, r.Params.Coordinates)},
	)
	if err != nil {
		return beam.PCollection{}, err
	}
	if _, err := manifest.Begin(folder, true); err != nil {
		return beam.PCollection{}, err
	}
	recipe, err := noiseshards.WriteRecipe(folder, r)
	if err != nil {
		return beam.PCollection{}, err
	}
	ix.Files, config.RecipeSHA256 = []manifest.File{recipe}, recipe.SHA256
	files, err := noiseshards.Write(s, config)
	if err != nil {
		return beam.PCollection{}, err
	}
	publish := &publishNoiseFn{folder, t.keyFile, ix}
	return beam.ParDo(s, publish, beam.GroupByKey(s, beam.AddFixedKey(s, files))), nil
}

// withDefaults returns the layout for a number of coordinates.
func (l NoiseLayout) withDefaults(coordinates int64) NoiseLayout {
	const blockValues = 1 << 18
	if l.Coordinates == 0 {
		l.Coordinates = 1 << 16
	}
	l.Coordinates = min(l.Coordinates, coordinates)
	if l.Steps == 0 {
		l.Steps = int(max(1, blockValues/l.Coordinates))
	}
	return l
}

// coordinates is a range of coordinates that one worker makes.
type coordinates struct{ First, End int64 }

// noiseFn makes the noise of a range of coordinates.
type noiseFn struct {
	Draft   []byte // recipe without its training; holds no secret
	KeyFile string
	Layout  NoiseLayout

	recipe *noise.Recipe
	key    stream.Key
}

func (f *noiseFn) Setup() (err error) {
	f.key = stream.Key{} // of another run of the pipeline in this process
	f.recipe, err = noise.Read(bytes.NewReader(f.Draft))
	return err
}

func (f *noiseFn) ProcessElement(
	ctx context.Context,
	r coordinates,
	resolved func(*[]byte) bool,
	examples func(*string) bool,
	emit func(NoiseBlock),
) error {
	if f.key.IsZero() { // side inputs can be read here only
		of, err := formation.ReadResolved(resolved)
		if err != nil {
			return err
		}
		var name string
		if !examples(&name) {
			return errors.New("no table of the examples came")
		}
		if f.key, err = bindNoise(f.recipe, name, of.Config.Spec, f.KeyFile); err != nil {
			return err
		}
	}
	g, err := f.recipe.Generator(f.key, r.First, r.End)
	if err != nil {
		return err
	}
	g.Add(f.recipe.StepBytes...)
	g.Workers = f.Layout.Workers
	steps := f.recipe.Params.Steps
	for step := 0; step < steps; step += f.Layout.Steps {
		b := NoiseBlock{Step: step, Steps: min(f.Layout.Steps, steps-step), First: r.First, End: r.End}
		b.Values = make([]float32, int64(b.Steps)*(r.End-r.First))
		if err := errors.Join(g.Fill32(b.Values), ctx.Err()); err != nil {
			return err
		}
		emit(b)
	}
	return nil
}

// encodeBlock writes everything in little endian.
func encodeBlock(v NoiseBlock) ([]byte, error) {
	head := [blockHead]int64{int64(v.Step), int64(v.Steps), v.First, v.End}
	b, err := binary.Append(make([]byte, 0, 8*blockHead+4*len(v.Values)), binary.LittleEndian, head)
	if err != nil {
		return nil, err
	}
	return binary.Append(b, binary.LittleEndian, v.Values)
}

// blockHead is the number of integers before the values of an encoded block.
const blockHead = 4

func decodeBlock(b []byte) (v NoiseBlock, err error) {
	var head [blockHead]int64
	n, err := binary.Decode(b, binary.LittleEndian, &head)
	if err != nil || len(b)%4 != 0 {
		return v, errors.New("malformed block of noise")
	}
	v = NoiseBlock{Step: int(head[0]), Steps: int(head[1]), First: head[2], End: head[3]}
	v.Values = make([]float32, len(b[n:])/4)
	_, err = binary.Decode(b[n:], binary.LittleEndian, v.Values)
	return v, err
}
