package manifest

import (
	"fmt"
	"strings"
)

// mostFaults is how many faults the text of [Faults] says.
const mostFaults = 20

// Faults are faults of the files of a folder, up to as many as an index can list. All of them
// are wrapped, and the text has the first.
type Faults []error

func (f Faults) Error() string {
	var lines []string
	for _, err := range f[:min(mostFaults, len(f))] {
		lines = append(lines, err.Error())
	}
	if len(f) > mostFaults {
		lines = append(lines, fmt.Sprintf("and %d more faults of files of this folder", len(f)-mostFaults))
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns all of them.
func (f Faults) Unwrap() []error { return f }

// add adds those that are not nil.
func (f *Faults) add(errs ...error) {
	for _, err := range errs {
		if err != nil {
			*f = append(*f, err)
		}
	}
}

// err is nil without faults.
func (f Faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}
