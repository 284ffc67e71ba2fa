package pipelines

import (
	"errors"
	"minsep/internal/graphio"
	"strings"
)

// planOptions replaces options of graphs by fields of a plan.
var planOptions = strings.NewReplacer(
	"--graph",
	"graph.paths",
	"--id-type",
	"graph.example_type and graph.owner_type",
	"--example-column",
	"graph.example_column",
	"--owner-column",
	"graph.owner_column",
	"--header",
	"graph.header",
	"--delimiter",
	"graph.delimiter",
	"--encoding",
	"graph.encoding",
	"--format",
	"graph.format",
	"--owner-separator",
	"graph.owner_separator",
	"--row-ids",
	"graph.row_ids",
	"--skip-ownerless",
	"graph.skip_ownerless",
)

// planFault is a fault of a graph, in the words of a plan.
type planFault struct{ err error }

// Error names the fields of the plan.
func (e planFault) Error() string { return planOptions.Replace(e.err.Error()) }
func (e planFault) Unwrap() error { return e.err }

// inPlanWords puts the faults of a graph into the words of a plan.
func inPlanWords(err error) error {
	isInput := errors.Is(err, ErrInput)
	if _, isFault := errors.AsType[*graphio.Fault](err); isFault || isInput {
		return planFault{err}
	}
	return err
}
