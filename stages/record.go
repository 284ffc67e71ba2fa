package stages

import (
	"context"
	"fmt"
	"minsep/internal/digest"
	"minsep/internal/store"
	"minsep/manifest"
)

// PlanRecord is a plan as run.json has it: with the hashes of its inputs, and without the places of
// key, directories and inputs.
type PlanRecord struct {
	Plan
	Inputs map[string]manifest.Digest `json:"inputs,omitempty"` // SHA-256 by the name of the input
}

// Record is the plan for run.json.
func (p Plan) Record(inputs map[string]manifest.Digest) (*manifest.RunPlan, error) {
	p.Name, p.Key, p.Out, p.Privacy.From = "", "", "", ""
	if p.Graph != nil {
		g := *p.Graph
		g.Paths = nil
		p.Graph = &g
	}
	if p.Materialize != nil {
		m := *p.Materialize
		m.Examples = nil
		p.Materialize = &m
	}
	var r manifest.RunPlan
	var err error
	r.Plan, r.SHA256, err = manifest.Params(PlanRecord{p, inputs})
	return &r, err
}

// Unusable is the error for a result that cannot be read, or not be held against anything. Of a
// request to an object store that failed it is the error itself: nothing is known of the result.
func Unusable(path string, err error) error {
	if store.Failed(err) {
		return err
	}
	return fmt.Errorf("%w: %w", &ParamError{Package: "pipelines", Param: "out", Value: path, Rule: "cannot be used"}, err)
}

// TextDigest hashes a file of text, as those are that vouch for results.
func TextDigest(ctx context.Context, path string) (d manifest.Digest, err error) {
	f, err := store.Open(ctx, path)
	if err != nil {
		return d, err
	}
	defer f.Close()
	return digest.Of(store.Text(f))
}
