package stages

import (
	"cmp"
	_ "embed"
	"slices"
	"strings"
	"time"

	"minsep/accounting"
	"minsep/internal/store"
	"minsep/internal/strictjson"
	"minsep/manifest"
	"minsep/mechanism"
	"minsep/mechanism/noise"
	"minsep/sampling"
	"minsep/sampling/ownergraph"
	"minsep/sampling/ownergraph/graphio"
)

// PlanExample is a commented plan to start from.
//
//go:embed planexample.json
var PlanExample string

// Stages are the names of a plan's stages in the order in which they run. A plan has the first one
// only with a graph, and the last one only where it asks for it.
var Stages = []string{"bound", "strategy", "account", "form", "noise", "materialize"}

// MaxName is how many bytes the name of a plan has at most.
const MaxName = 200

// Plan is a whole run: a graph, or a number of examples, to a directory with a certificate, batches
// and noise.
type Plan struct {
	Name     string            `json:"name,omitempty"`     // of the data or the training, the title of its report: a line of at most MaxName bytes; it decides nothing
	Graph    *PlanGraph        `json:"graph,omitempty"`    // with Bound; or
	Bound    *ownergraph.Bound `json:"bound,omitempty"`    // how to bound it
	Examples int64             `json:"examples,omitempty"` // this many examples, each its own owner

	Scheme   sampling.Params  `json:"scheme"`   // how examples take part
	Strategy mechanism.Params `json:"strategy"` // its steps may be left out: the scheme has them
	Privacy  PlanPrivacy      `json:"privacy"`  // the claim
	Batches  PlanBatches      `json:"batches"`  // the files of the batches
	Noise    PlanNoise        `json:"noise"`    // the noise and its files

	Materialize *PlanMaterialize `json:"materialize,omitempty"` // write the examples themselves in the order of the steps; nil: not at all

	Key string `json:"key,omitempty"` // file of the root key
	Out string `json:"out,omitempty"` // run directory

	unread []strictjson.Fault // of the text that the plan was read from
}

// PlanGraph says which graph to read, and how: [graphio.Options].
type PlanGraph struct {
	Paths         []string `json:"paths,omitempty"`          // files, folders and patterns
	Format        string   `json:"format,omitempty"`         // as the flag --format; "" for auto
	ExampleColumn string   `json:"example_column,omitempty"` // name or 1-based position; "" for example_id
	OwnerColumn   string   `json:"owner_column,omitempty"`   // name or 1-based position; "" for owner_id or owners
	Delimiter     string   `json:"delimiter,omitempty"`      // one byte; "" for the format's own
	Header        string   `json:"header,omitempty"`         // auto, yes or no; "" for auto
	ExampleType   string   `json:"example_type,omitempty"`   // auto, int64 or string; "" for auto
	OwnerType     string   `json:"owner_type,omitempty"`     // auto, int64 or string; "" for auto
	SkipOwnerless bool     `json:"skip_ownerless,omitempty"` // leave out examples without owners

	stamp string // of the graph that was hashed: the one that is to be read
}

// PlanPrivacy is the claim to certify: see [Account].
type PlanPrivacy struct {
	Epsilon         float64   `json:"epsilon" strict:"required"`  // 0 to 1e6
	Delta           float64   `json:"delta" strict:"required"`    // at least 1e-300, below 1
	NoiseMultiplier float64   `json:"noise_multiplier,omitempty"` // verify this one only, above 0; 0 for the smallest
	Samples         uint64    `json:"samples,omitempty"`          // budget of estimates and verification; or
	CPUTime         string    `json:"cpu_time,omitempty"`         // of one processor, such as "10m"
	AlsoEpsilon     []float64 `json:"also_epsilon,omitempty"`     // further ε at which δ is certified
	Unit            string    `json:"unit,omitempty"`             // whom to protect: owner, the default, or example
	From            string    `json:"from,omitempty"`             // a run directory; its certificate is taken over
}

// PlanBatches says in which files the batches are: see [Form].
type PlanBatches struct {
	Shards  int  `json:"shards,omitempty"`  // at least 1; 0 for as many as the size calls for
	Parquet bool `json:"parquet,omitempty"` // write the long form as well
}

// PlanNoise says which noise to make: see [Noise]. Its multiplier is the certificate's.
type PlanNoise struct {
	Coordinates  int64      `json:"coordinates"`              // 1 to 2^48
	ClipNorm     float64    `json:"clip_norm,omitempty"`      // 0 for 1
	Grid         noise.Grid `json:"grid,omitempty"`           // a power of two, or "none"
	DType        string     `json:"dtype,omitempty"`          // float32 or float64; "" for float32
	Words        string     `json:"words,omitempty"`          // aes-128 or chacha12; "" for aes-128
	Shards       int        `json:"shards,omitempty"`         // at least 1; 0 for as many as the size calls for
	StepsPerFile int        `json:"steps_per_file,omitempty"` // at least 1; 0 for 1000
	RecipeOnly   bool       `json:"recipe_only,omitempty"`    // write no files of noise
}

// PlanMaterialize says which examples to write in the order of the steps, and how: see
// [Materialize].
type PlanMaterialize struct {
	Examples []string `json:"examples,omitempty"`  // Parquet files, folders or patterns; with ByName folders of files
	ByName   bool     `json:"by_name,omitempty"`   // each file is an example, with its id as name
	IDColumn string   `json:"id_column,omitempty"` // the column of ids; "" for [DefaultIDColumn]
	Pad      int      `json:"pad,omitempty"`       // every step has a multiple of so many entries; 0: no padding
	Shards   int      `json:"shards,omitempty"`    // at least 1; 0 for as many as the expected size calls for
}

func (p Plan) BoundParams() Bound {
	b := Bound{Graph: p.Graph.Paths, Read: p.Graph.Options(), Stamp: p.Graph.stamp}
	if p.Bound != nil {
		b.Bound = *p.Bound
	}
	if s := p.Scheme; s.Kind().Pools && b.Pools == 0 && s.EpochSteps > 0 && s.Steps > 0 { // a pool for each period
		b.Pools = min(sampling.Rotation{Steps: s.Steps, EpochSteps: s.EpochSteps}.Periods(), ownergraph.MaxPools)
	}
	return b
}

// cpuTime is the budget in time; 0 if it is not given so.
func (p PlanPrivacy) cpuTime() (time.Duration, error) {
	if p.CPUTime == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(p.CPUTime)
	if err != nil || d <= 0 {
		return 0, &ParamError{Package: "stages", Param: "cpu-time", Value: p.CPUTime, Rule: `must be a time above 0, such as "10m"`}
	}
	return d, nil
}

// SetStamp says which graph is to be read, by [graphio.Source.Stamp]. Another one is a fault.
func (g *PlanGraph) SetStamp(stamp string) { g.stamp = stamp }

// Options say how to read the graph.
func (g PlanGraph) Options() graphio.Options {
	return graphio.Options{Format: g.Format, ExampleColumn: g.ExampleColumn, OwnerColumn: g.OwnerColumn, Delimiter: g.Delimiter, Header: g.Header,
		ExampleType: g.ExampleType, OwnerType: g.OwnerType, SkipOwnerless: g.SkipOwnerless}
}

// strategyPath is the file of the run's strategy.
func (p Plan) strategyPath() string {
	return store.Join(p.Out, manifest.StrategyFolder, manifest.StrategyFile)
}

// Table is where the plan's bounded table is; "" if it has none.
func (p Plan) Table() string {
	if p.Graph == nil && p.Examples != 0 {
		return ""
	}
	return cmp.Or(p.Out, ".")
}

// numbered is how many numbered examples the plan is for.
func (p Plan) numbered() int64 {
	if p.Graph != nil {
		return 0
	}
	return p.Examples
}

// AccountParams are for k_u of the plan even where no owner has so many examples.
func (p Plan) AccountParams() Account {
	a := Account{Params: p.Scheme, Bounded: p.Table(), Examples: p.numbered(), Strategy: p.strategyPath(),
		Epsilon: p.Privacy.Epsilon, Delta: p.Privacy.Delta, NoiseMultiplier: p.Privacy.NoiseMultiplier, Samples: p.Privacy.Samples, AlsoEpsilon: p.Privacy.AlsoEpsilon}
	a.CPUTime, _ = p.Privacy.cpuTime() // its faults are told with the plan's
	a.Unit, a.From = p.Privacy.Unit, p.Privacy.From
	if p.Bound != nil && p.Scheme.Sample != sampling.SampleOwners && a.Unit != string(accounting.UnitExample) {
		a.MaxPerOwner = p.Bound.MaxExamplesPerOwner
	}
	return a
}

func (p Plan) FormParams() Form {
	return Form{Params: p.Scheme, Bounded: p.Table(), Examples: p.numbered(), Shards: p.Batches.Shards, Parquet: p.Batches.Parquet}
}

func (p Plan) NoiseParams(multiplier float64) Noise {
	n := p.Noise
	return Noise{Strategy: p.strategyPath(), Steps: p.Scheme.Steps, Coordinates: n.Coordinates, NoiseMultiplier: multiplier, ClipNorm: n.ClipNorm,
		Grid: n.Grid, RecipeOnly: n.RecipeOnly, DType: n.DType, Words: n.Words, Shards: n.Shards, StepsPerFile: n.StepsPerFile}
}

// MaterializeParams are the parameters of a plan that materializes.
func (p Plan) MaterializeParams() Materialize {
	m := p.Materialize
	return Materialize{Examples: m.Examples, ByName: m.ByName, IDColumn: m.IDColumn, Pad: m.Pad, Shards: m.Shards}
}

// Stages are the plan's stages up to the last one that is wanted; "" is for all.
func (p Plan) Stages(until string) ([]string, error) {
	all := Stages
	if p.Materialize == nil {
		all = all[:len(all)-1]
	}
	last := len(all) - 1
	if until != "" {
		last = slices.Index(all, until)
	}
	if last < 0 {
		rule := "must be one of " + strings.Join(all, ", ")
		if slices.Contains(Stages, until) {
			rule += ": the plan has no group " + until
		}
		return nil, &ParamError{Package: "stages", Param: "until", Value: until, Rule: rule}
	}
	names := slices.Clone(all[:last+1])
	if p.Graph == nil {
		names = names[1:]
	}
	return names, nil
}
