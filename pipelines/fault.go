package pipelines

import (
	"errors"
	"strings"

	"minsep/sampling/ownergraph/graphio"
)

// ErrBrokenPromise says that a run directory does not hold what it promises: a hash, a separation,
// a bound or a distribution.
var ErrBrokenPromise = errors.New("pipelines: a promise does not hold")

// InputFaults returns the faults of the user's input in err, without what a runner wraps around them, one a line. A runner
// whose workers are other processes hands on only the text of an error: then a fault is known by how it begins.
func InputFaults(err error) (faults string, ok bool) {
	var lines []string
	collectFaults(err, &lines)
	if lines == nil && err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			if _, fault, found := strings.Cut(line, faultPrefix); found {
				lines = append(lines, faultPrefix+fault)
			}
		}
	}
	return strings.Join(lines, "\n"), lines != nil
}

const faultPrefix = "graphio: "

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
