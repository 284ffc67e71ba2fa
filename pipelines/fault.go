package pipelines

import (
	"errors"
	"fmt"
	"strings"

	"minsep/sampling/ownergraph/graphio"
)

// ErrInput says that the user's input is at fault, and the message how to mend it.
var ErrInput = errors.New("pipelines: input")

// inputError is what tasks of a pipeline found wrong with the input.
type inputError struct{ faults []string }

func (e *inputError) Error() string        { return strings.Join(e.faults, "\n") }
func (e *inputError) Is(target error) bool { return target == ErrInput }

// runnerError returns what a user can do something with in the error of a run: the faults of the input, or the error of
// the task without the plan of the pipeline that Beam puts before it. A runner whose workers are other processes hands
// on only the text of an error: there a fault is known by how it begins.
func runnerError(runner string, err error) error {
	var faults []string
	collectFaults(err, &faults)
	if faults == nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			for _, prefix := range faultPrefixes {
				if _, fault, found := strings.Cut(line, prefix); found {
					faults = append(faults, prefix+fault)
				}
			}
		}
	}
	if faults != nil {
		return &inputError{faults}
	}
	for strings.HasSuffix(fmt.Sprintf("%T", err), ".beamError") && errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return fmt.Errorf("pipelines: runner %s: %w", runner, err)
}

// faultPrefixes begin the faults of graphs, tables and batch sizes.
var faultPrefixes = []string{graphio.FaultPrefix + " ", "manifest: bounded table", "sampling: batch size"}

func collectFaults(err error, lines *[]string) {
	switch e := err.(type) {
	case nil:
	case *graphio.Fault:
		*lines = append(*lines, e.Error())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			collectFaults(one, lines)
		}
	case interface{ Unwrap() error }:
		collectFaults(e.Unwrap(), lines)
	}
}

// planOptions are the options of graphs, and the fields of a plan in their places.
var planOptions = strings.NewReplacer("--graph", "graph.paths", "--id-type", "graph.example_type and graph.owner_type",
	"--example-column", "graph.example_column", "--owner-column", "graph.owner_column", "--header", "graph.header",
	"--delimiter", "graph.delimiter", "--format", "graph.format", "--skip-ownerless", "graph.skip_ownerless")

// planFault is a fault of a graph in the words of a plan.
type planFault struct{ err error }

func (e planFault) Error() string { return planOptions.Replace(e.err.Error()) }
func (e planFault) Unwrap() error { return e.err }

// graphInPlan puts the faults of a graph into the words of a plan.
func graphInPlan(err error) error {
	_, isInput := errors.AsType[*inputError](err)
	if _, isFault := errors.AsType[*graphio.Fault](err); isFault || isInput {
		return planFault{err}
	}
	return err
}
