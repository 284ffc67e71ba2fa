package pipelines

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/sampling/ownergraph"
	"minsep/sampling/ownergraph/graphio"
)

// PlanExample is a commented plan to start from.
//
//go:embed planexample.json
var PlanExample string

// Stages are the names of a plan's stages in the order in which they run.
var Stages = []string{"bound", "strategy", "account", "form", "noise"}

// Plan is a whole run: a graph, or a number of examples, to a directory with a certificate, batches and noise.
type Plan struct {
	Graph    *PlanGraph        `json:"graph,omitempty"`    // with Bound; or
	Bound    *ownergraph.Bound `json:"bound,omitempty"`    // how to bound it
	Examples int64             `json:"examples,omitempty"` // this many examples, each its own owner

	Scheme   SchemeParams   `json:"scheme"`
	Strategy StrategyParams `json:"strategy"` // its steps may be left out: they are those of the scheme
	Privacy  PlanPrivacy    `json:"privacy"`
	Batches  PlanBatches    `json:"batches"`
	Noise    PlanNoise      `json:"noise"`

	Key string `json:"key,omitempty"` // file of the root key
	Out string `json:"out,omitempty"` // run directory
}

// PlanGraph says which graph to read, and how: [graphio.Options].
type PlanGraph struct {
	Paths         []string `json:"paths,omitempty"` // files, folders and patterns
	Format        string   `json:"format,omitempty"`
	ExampleColumn string   `json:"example_column,omitempty"`
	OwnerColumn   string   `json:"owner_column,omitempty"`
	Delimiter     string   `json:"delimiter,omitempty"`
	Header        string   `json:"header,omitempty"`
	ExampleType   string   `json:"example_type,omitempty"`
	OwnerType     string   `json:"owner_type,omitempty"`
	SkipOwnerless bool     `json:"skip_ownerless,omitempty"`
}

// PlanPrivacy is what is to be certified: see [Account].
type PlanPrivacy struct {
	Epsilon         float64 `json:"epsilon"`
	Delta           float64 `json:"delta"`
	NoiseMultiplier float64 `json:"noise_multiplier,omitempty"` // verify this one only
	Samples         uint64  `json:"samples,omitempty"`          // budget of the verification
}

// PlanBatches says in which files the batches are: see [Form].
type PlanBatches struct {
	Shards  int  `json:"shards,omitempty"`
	Parquet bool `json:"parquet,omitempty"`
}

// PlanNoise says which noise to make: see [Noise]. Its multiplier is the certificate's.
type PlanNoise struct {
	Coordinates  int64   `json:"coordinates"`
	ClipNorm     float64 `json:"clip_norm,omitempty"` // 0 for 1
	Grid         float64 `json:"grid,omitempty"`
	DType        string  `json:"dtype,omitempty"`
	Shards       int     `json:"shards,omitempty"`
	StepsPerFile int     `json:"steps_per_file,omitempty"`
	RecipeOnly   bool    `json:"recipe_only,omitempty"`
}

// ParsePlan reads a plan: JSON, in which // comments and commas behind the last element are allowed. It reports every unknown field, every
// field given twice and every value of a wrong type; what the values mean is for [Plan.Validate].
func ParsePlan(name string, b []byte) (Plan, error) {
	var p Plan
	c := param.Checker{Package: "pipelines"}
	for _, fault := range decodeStrict(withoutComments(b), &p) {
		c.Require(false, "plan", name, fault)
	}
	if err := c.Err(); err != nil {
		return Plan{}, err
	}
	if p.Strategy.Steps == 0 {
		p.Strategy.Steps = p.Scheme.Steps
	}
	if p.Noise.ClipNorm == 0 {
		p.Noise.ClipNorm = 1
	}
	return p, nil
}

// Validate reports every fault that can be seen without the files.
func (p Plan) Validate() error {
	c := param.Checker{Package: "pipelines"}
	c.Require((p.Graph != nil) != (p.Examples != 0), "graph and examples", fmt.Sprintf("%v, %d", p.Graph != nil, p.Examples), "exactly one of them must be given")
	c.Require((p.Graph != nil) == (p.Bound != nil), "bound", p.Bound != nil, "must be given with a graph, and only then")
	if p.Graph != nil {
		c.Add(p.bound().Validate())
	}
	c.Require(p.Strategy.Steps == p.Scheme.Steps, "steps of the strategy", p.Strategy.Steps, fmt.Sprintf("must be %d, as the scheme has, or left out", p.Scheme.Steps))
	c.Add(p.Strategy.Validate())
	c.Add(p.account().Validate())
	c.Add(p.form().Validate())
	c.Add(p.noise(1).Validate())
	c.Require(p.Out != "", "out", `""`, "must name the run directory")
	return once(c.Err())
}

// once drops the faults that are there already: stages share parameters.
func once(err error) error {
	var seen []string
	var list []error
	var walk func(err error)
	walk = func(err error) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, one := range joined.Unwrap() {
				walk(one)
			}
		} else if err != nil && !slices.Contains(seen, err.Error()) {
			seen, list = append(seen, err.Error()), append(list, err)
		}
	}
	walk(err)
	return errors.Join(list...)
}

func (p Plan) bound() Bound {
	b := Bound{Graph: p.Graph.Paths, Read: p.Graph.options()}
	if p.Bound != nil {
		b.Bound = *p.Bound
	}
	return b
}

func (g PlanGraph) options() graphio.Options {
	return graphio.Options{Format: g.Format, ExampleColumn: g.ExampleColumn, OwnerColumn: g.OwnerColumn, Delimiter: g.Delimiter, Header: g.Header,
		ExampleType: g.ExampleType, OwnerType: g.OwnerType, SkipOwnerless: g.SkipOwnerless}
}

// strategyPath is the file of the run's strategy.
func (p Plan) strategyPath() string { return store.Join(p.Out, StrategyFolder, strategyName) }

// account is for k_u of the plan even where no owner has so many examples.
func (p Plan) account() Account {
	a := Account{SchemeParams: p.Scheme, Examples: p.Examples, Strategy: p.strategyPath(),
		Epsilon: p.Privacy.Epsilon, Delta: p.Privacy.Delta, NoiseMultiplier: p.Privacy.NoiseMultiplier, Samples: p.Privacy.Samples}
	if p.Graph != nil {
		a.Bounded = or(p.Out, ".")
	}
	if p.Bound != nil {
		a.MaxPerOwner = p.Bound.MaxExamplesPerOwner
	}
	return a
}

func (p Plan) form() Form {
	f := Form{SchemeParams: p.Scheme, Examples: p.Examples, Shards: p.Batches.Shards, Parquet: p.Batches.Parquet}
	if p.Graph != nil {
		f.Bounded = or(p.Out, ".")
	}
	return f
}

func (p Plan) noise(multiplier float64) Noise {
	n := p.Noise
	return Noise{Strategy: p.strategyPath(), Steps: p.Scheme.Steps, Coordinates: n.Coordinates, NoiseMultiplier: multiplier, ClipNorm: n.ClipNorm,
		Grid: n.Grid, RecipeOnly: n.RecipeOnly, DType: n.DType, Shards: n.Shards, StepsPerFile: n.StepsPerFile}
}

// stages are the plan's stages up to the last one that is wanted; "" is for all.
func (p Plan) stages(until string) ([]string, error) {
	last := len(Stages) - 1
	if until != "" {
		last = slices.Index(Stages, until)
	}
	if last < 0 {
		return nil, &ParamError{Package: "pipelines", Param: "until", Value: until, Rule: "must be one of " + strings.Join(Stages, ", ")}
	}
	names := slices.Clone(Stages[:last+1])
	if p.Graph == nil {
		names = names[1:]
	}
	return names, nil
}
