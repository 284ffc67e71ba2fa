package pipelines

import (
	"errors"

	"minsep/internal/graphio"
	"minsep/internal/stages"
)

// planFault is a fault of a graph, in the words of a plan.
type planFault struct{ err error }

// Error names the fields of the plan.
func (e planFault) Error() string { return stages.WithFields(e.err.Error()) }
func (e planFault) Unwrap() error { return e.err }

// inPlanWords puts the faults of a graph into the words of a plan.
func inPlanWords(err error) error {
	isInput := errors.Is(err, ErrInput)
	if _, isFault := errors.AsType[*graphio.Fault](err); isFault || isInput {
		return planFault{err}
	}
	return err
}
