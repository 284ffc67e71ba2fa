package manifest

import (
	"fmt"
	"strings"
)

// mostFaults is the number of faults in the text of [Faults].
const mostFaults = 20

// Faults are the faults of the files of a folder, possibly one for each file. All are wrapped; the
// text has the first mostFaults.
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

// Unwrap returns all faults.
func (f Faults) Unwrap() []error { return f }

// add appends the errors that are not nil.
func (f *Faults) add(errs ...error) {
	for _, err := range errs {
		if err != nil {
			*f = append(*f, err)
		}
	}
}

// err returns the faults, or nil if there are none.
func (f Faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}
