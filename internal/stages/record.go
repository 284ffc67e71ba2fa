package stages

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"minsep/internal/digest"
	"minsep/internal/manifest"
	"minsep/internal/store"
)

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
