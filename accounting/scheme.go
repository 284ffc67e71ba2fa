package accounting

import (
	"fmt"

	"minsep/accounting/montecarlo"
	"minsep/accounting/pld"
	"minsep/mechanism"
	"minsep/sampling"
)

// analysis is how the runs of one scheme are accounted for. Each scheme has one, in the file of
// its name; the interfaces below hold the other needs of its method.
type analysis interface {
	// method says how a claim about a valid run is verified, or refuses with a RefusedError.
	method() (Method, error)
}

// lossAnalysis is for the methods MonteCarlo and Unproven.
type lossAnalysis interface {
	// loss sets the parameters of the scheme in a problem that holds all others.
	loss(spec *montecarlo.Spec)
}

// eventAnalysis is for the method PLD.
type eventAnalysis interface {
	// compositions returns the cases; the worst one counts.
	compositions(noiseMultiplier float64) ([]*pld.Composition, error)
	// dominating are events that dominate the run together, without truncation.
	dominating(noiseMultiplier float64) ([]pld.Step, error)
}

// majorizedAnalysis is for runs of the method MonteCarlo that are never worse than an eventAnalysis
// says.
type majorizedAnalysis interface {
	eventAnalysis
	majorized() bool
}

// boundedAnalysis is for the method ClosedForm.
type boundedAnalysis interface {
	// sensitivity is the strategy's, under the participations that the scheme allows.
	sensitivity() (mechanism.Sensitivity, error)
}

// analyses are the analyses of the schemes by their names.
var analyses = map[string]func(Run) analysis{}

// register sets the analysis of the runs with scheme S, for init in the file of the scheme.
func register[S sampling.Scheme](analyse func(Run, S) analysis) {
	var zero S
	analyses[zero.Name()] = func(r Run) analysis { return analyse(r, r.Sampler.Scheme().(S)) }
}

// analysis returns the analysis of a valid run. A scheme without one is refused.
func (r Run) analysis() analysis {
	scheme := r.Sampler.Scheme()
	if analyse, ok := analyses[scheme.Name()]; ok {
		return analyse(r)
	}
	return unknown{r}
}

// unknown refuses a scheme that has no analysis.
type unknown struct{ run Run }

func (u unknown) method() (Method, error) { return u.run.refuse("no analysis is known for it") }

// refuse is the answer of a method that refuses.
func (r Run) refuse(format string, args ...any) (Method, error) {
	return "", &RefusedError{r.Sampler.Scheme().Name(), fmt.Sprintf(format, args...)}
}

// Reasons of several schemes.
const (
	exampleOnly   = "is analysed for owners of one example only"
	noTruncation  = "no analysis is known for a maximum batch size"
	negativeEntry = "the strategy has a negative entry: the analysis of random participations needs none"
)
