// Package stages has the parameters of each stage as users give them, whole plans of them, and
// the comparison of the results in a run directory with each other. It reads run
// directories and writes nothing: package pipelines runs the stages, and package inspect reads
// their results. It knows neither Beam nor the services of object stores.
//
// A [Stage] is one value, declared in the stage's file beside its parameters: [Bound], [Account],
// [Form] and [Noise], and mechanism.Params for a strategy. A [Plan] holds all of
// them. [Present] compares the results in a run directory with each other, and [Directory] tells
// whether they are those that run.json names.
package stages

import (
	"context"

	"minsep/internal/param"
	"minsep/internal/store"
)

// ParamError is a parameter that a stage refuses.
type ParamError = param.Error

// maxText bounds in bytes the text files that are read whole. Certificates and requests can hold a
// whole matrix.
const maxText = 8 << 30

// ReadFile returns the contents of a text file, local or in an object store.
func ReadFile(ctx context.Context, name string) ([]byte, error) {
	return store.ReadText(ctx, name, maxText)
}
