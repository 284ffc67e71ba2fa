package stages

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"minsep/internal/digest"
	"minsep/internal/manifest"
	"minsep/internal/ownergraph"
	"minsep/internal/store"
	"minsep/internal/words"
	"minsep/mechanism"
	"minsep/sampling"
)

// PlanExample is a commented plan to start from.
//
//go:embed planexample.json
var PlanExample string

// All are the stages, in the order in which they run.
var All []*Stage

// init breaks the cycle between All and the stages, whose functions use it.
func init() {
	All = []*Stage{&boundStage, &strategyStage, &accountStage, &formStage, &noiseStage}
}

// MaxName is the largest length of a plan's name in bytes.
const MaxName = 200

// Plan is a whole run: from a graph, or a number of examples, to a directory with a certificate,
// batches and noise. A new stage has a group here, and an entry in [All].
//
// Fields with the tag decides:"nothing" say where things are, or how they are called. Those with
// decides:"files" say how results are laid out in files, or make results that no training needs.
// The others decide the training.
type Plan struct {
	Name     string            `json:"name,omitempty"     decides:"nothing"` // of the data or the training, the title of its report: a line of at most MaxName bytes
	Graph    *PlanGraph        `json:"graph,omitempty"`                      // with Bound; or
	Bound    *ownergraph.Bound `json:"bound,omitempty"`                      // how to bound it
	Examples int64             `json:"examples,omitempty"`                   // this many examples, each its own owner

	Scheme   sampling.Params  `json:"scheme"`                   // how examples take part
	Strategy mechanism.Params `json:"strategy"`                 // its steps may be left out: the scheme has them
	Privacy  PlanPrivacy      `json:"privacy"`                  // the claim
	Batches  PlanBatches      `json:"batches"  decides:"files"` // the files of the batches
	Noise    PlanNoise        `json:"noise"`                    // the noise and its files

	Key string `json:"key,omitempty" decides:"nothing"` // file of the root key
	Out string `json:"out,omitempty" decides:"nothing"` // run directory

	words.Nouns `decides:"nothing"` // of the data, for messages
}

// Table returns the place of the plan's bounded table, "" if it has none.
func (p Plan) Table() string {
	if p.Graph == nil && p.Examples != 0 {
		return ""
	}
	return cmp.Or(p.Out, ".")
}

// numbered returns the number of numbered examples, 0 with a graph.
func (p Plan) numbered() int64 {
	if p.Graph != nil {
		return 0
	}
	return p.Examples
}

// Stages returns the names of the plan's stages in the order in which they run, up to until; ""
// stands for all.
func (p Plan) Stages(until string) (names []string, err error) {
	var asked []string // that until may name: numbered examples are never bounded, and nothing is said of it
	for _, s := range All {
		asked = append(asked, s.Name)
		if s.has(p) {
			names = append(names, s.Name)
		}
		if s.Name == until {
			return names, nil
		}
	}
	if until == "" {
		return names, nil
	}
	return nil, &ParamError{Param: "until", Value: until, Rule: "must be one of " + strings.Join(asked, ", ")}
}

// PlanRecord is a plan in the form of run.json: with the hashes of its inputs, and without the
// places of key, directories and inputs.
type PlanRecord struct {
	Plan
	Inputs map[string]manifest.Digest `json:"inputs,omitempty"` // SHA-256 by the name of the input
}

// Record returns the plan for run.json.
func (p Plan) Record(inputs map[string]manifest.Digest) (*manifest.RunPlan, error) {
	var r manifest.RunPlan
	var err error
	r.Plan, r.SHA256, err = manifest.Params(PlanRecord{p.without("nothing"), inputs})
	return &r, err
}

// without returns the plan with zeros in place of the fields that have the given value of the tag
// decides.
func (p Plan) without(decide string) Plan {
	clearFields(reflect.ValueOf(&p).Elem(), decide)
	return p
}

// clearFields sets these fields to zero in a struct and in all structs in it.
func clearFields(v reflect.Value, decide string) {
	for i := range v.NumField() {
		f, of := v.Field(i), v.Type().Field(i)
		switch {
		case of.Tag.Get("decides") == decide:
			f.SetZero()
		case f.Kind() == reflect.Struct && of.IsExported():
			clearFields(f, decide)
		case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct && !f.IsNil():
			inner := reflect.New(f.Type().Elem())
			inner.Elem().Set(f.Elem())
			clearFields(inner.Elem(), decide)
			f.Set(inner)
		}
	}
}

// Unusable returns the error for a result that cannot be read or compared. For a failed request to
// an object store it returns err itself: nothing is known of the result.
func Unusable(path string, err error) error {
	if store.Failed(err) {
		return err
	}
	rule := "cannot be used"
	if _, told := errors.AsType[*ParamError](err); !told { // a fault of a parameter tells its own way out
		rule += ": restore it from a copy, or give another --out"
	}
	return fmt.Errorf("%w: %w", &ParamError{Param: "out", Value: path, Rule: rule}, err)
}

// TextDigest hashes a text file, such as one that vouches for a result.
func TextDigest(ctx context.Context, path string) (d manifest.Digest, err error) {
	f, err := store.Open(ctx, path)
	if err != nil {
		return d, err
	}
	defer f.Close()
	return digest.Of(store.Text(f))
}
