package formation

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/manifest"
	"minsep/internal/ownergraph"
	"minsep/internal/stages"
	"minsep/sampling"
)

// Request asks for batches of examples that are counted later. It travels in the pipeline graph, which
// depends on its blocks.
type Request struct {
	Params sampling.Params `json:"params"`
	Settings
}

// Validate reports every fault that can be found without the examples.
func (r Request) Validate() error {
	return errors.Join(r.Params.Validate(), r.Key.Validate())
}

// Resolved is a request whose examples are counted.
type Resolved struct {
	Config Config                `json:"config"`
	Facts  manifest.BatchesFacts `json:"facts"` // of the index of its files
}

// Numbered is the summary of the examples 0 to n-1, each its own owner.
func Numbered(n int64) ownergraph.Summary {
	return ownergraph.Summary{Kept: n, KeptCopies: n, Neighborhoods: ownergraph.Histogram{{Value: 1, Count: n}}}
}

// Resolve returns the configuration for examples with this summary. A batch size that they cannot
// give is a [sampling.InfeasibleError].
func (r Request) Resolve(summary ownergraph.Summary) (Resolved, error) {
	if summary.Kept < 1 {
		return Resolved{}, errors.New("there are no examples")
	}
	of := stages.PopulationOf(summary)
	spec, err := r.Params.Spec(of)
	if err != nil {
		return Resolved{}, err
	}
	_, digest, err := manifest.Params(manifest.BatchesParams{Scheme: spec})
	if err != nil {
		return Resolved{}, err
	}
	steps := spec.Scheme().NumSteps()
	c := Config{Settings: r.Settings, Spec: spec, Examples: summary.Kept}
	c.Key.Params = digest
	if c.Blocks == 0 {
		c.Blocks = manifest.BatchBlocks(spec.DrawnPerStep(of))
	}
	if c.Shards == 0 {
		c.Shards = manifest.BatchShards(spec.DrawnPerStep(of)*float64(steps), steps)
	}
	if summary.Coverage != nil {
		c.Pools = summary.Coverage.Pools
	}
	rowsOf := manifest.RowsOfBounded
	if r.IDs.AreRow {
		rowsOf = manifest.RowsOfRange
	}
	return Resolved{c, stages.BatchesFacts(spec, of, summary.Kept, c.Shards, rowsOf)}, c.Validate()
}

// Collection returns r as a PCollection of one element.
func (r Resolved) Collection(s beam.Scope) (beam.PCollection, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return beam.PCollection{}, err
	}
	return beam.CreateList(s, [][]byte{b}), nil
}

// Resolve resolves the request as soon as summary, a PCollection<[]byte> of one
// [ownergraph.Summary] as JSON, is there.
func Resolve(s beam.Scope, r Request, summary beam.PCollection) beam.PCollection {
	return beam.ParDo(s.Scope("formation.Resolve"), &resolveFn{Request: r}, summary)
}

type resolveFn struct{ Request Request }

func (f *resolveFn) ProcessElement(summary []byte, emit func([]byte)) error {
	var s ownergraph.Summary
	if err := json.Unmarshal(summary, &s); err != nil {
		return fmt.Errorf("summary: %w", err)
	}
	r, err := f.Request.Resolve(s)
	if err != nil {
		return err
	}
	b, err := json.Marshal(r)
	emit(b)
	return err
}

// side is a side input of one element.
type side = func(*[]byte) bool

// ReadResolved reads the side input of a DoFn.
func ReadResolved(resolved func(*[]byte) bool) (r Resolved, err error) {
	var b []byte
	if !resolved(&b) {
		return r, errors.New("no configuration came")
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, err
	}
	return r, r.Config.Spec.Validate() // a law that was read is ready once it is valid
}
