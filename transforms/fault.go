package transforms

import (
	"errors"
	"fmt"
	"strings"

	"minsep/internal/graphio"
)

// Fault returns the useful part of the error of a run: the faults of the input that workers found,
// such as a batch size that the counted examples cannot give, one a line, or else the error of the
// task, in both cases without the plan of the pipeline that Beam puts before it. A runner with
// workers in other processes passes on only the text of an error; there a fault is known by its first
// words. A nil error stays nil.
func Fault(err error) error {
	if err == nil {
		return nil
	}
	var faults []string
	collectFaults(err, &faults)
	if faults == nil {
		faults = faultLines(err.Error())
	}
	if faults != nil {
		return &InputError{faults}
	}
	for strings.HasSuffix(fmt.Sprintf("%T", err), ".beamError") && errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err
}

// InputError has the faults of the input that workers found. Each says how to mend it.
type InputError struct{ Faults []string }

// Error has one fault a line.
func (e *InputError) Error() string { return strings.Join(e.Faults, "\n") }

// faultPrefixes begin the faults of graphs, tables, batch sizes and what comes into a pipeline.
var faultPrefixes = []string{graphio.FaultPrefix + " ", "bounded table", "batch size", "input: "}

// faultLines returns the faults in the text of an error.
func faultLines(text string) (faults []string) {
	for line := range strings.SplitSeq(text, "\n") {
		for _, prefix := range faultPrefixes {
			if at := strings.Index(line, prefix); at >= 0 {
				faults = append(faults, line[at:])
				break
			}
		}
	}
	return faults
}

// collectFaults appends the faults of the graph's files in an error.
func collectFaults(err error, faults *[]string) {
	switch e := err.(type) {
	case nil:
	case *graphio.Fault:
		*faults = append(*faults, e.Error())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			collectFaults(one, faults)
		}
	case interface{ Unwrap() error }:
		collectFaults(e.Unwrap(), faults)
	}
}
