package accounting

import (
	"fmt"

	"minsep/internal/accounting/pld"
	"minsep/mechanism"
	"minsep/sampling"
)

// analysis accounts for the runs of one scheme. Each scheme has one, in the file of its name. The
// interfaces below hold the other functions that its method needs.
type analysis interface {
	// method returns how a claim about a valid run is verified, or a RefusedError.
	method() (Method, error)
}

// eventAnalysis is needed by the method PLD.
type eventAnalysis interface {
	// cases returns lists of events; each list dominates the run in one case, and the worst case
	// counts.
	cases(noiseMultiplier float64) [][]pld.Step
}

// majorizedAnalysis is for runs of the method MonteCarlo that are no worse than an eventAnalysis
// proves.
type majorizedAnalysis interface {
	eventAnalysis
	majorized() bool
}

// boundedAnalysis is needed by the methods ClosedForm and MonteCarlo, but for runs that are
// majorized.
type boundedAnalysis interface {
	// sensitivity returns the strategy's sensitivity under the participations that the scheme
	// allows to an example.
	sensitivity() (mechanism.Sensitivity, error)
}

// analyses holds the analysis of each scheme by its name.
var analyses = map[string]func(Run) analysis{}

// register sets the analysis of scheme S. The scheme's file calls it in init.
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

// refuse returns the RefusedError of a run.
func (r Run) refuse(format string, args ...any) (Method, error) {
	return r.refuseBy(refusal{reason: fmt.Sprintf(format, args...)})
}

// refuseBy returns the RefusedError of a run for a reason that several schemes share.
func (r Run) refuseBy(why refusal) (Method, error) {
	return "", &RefusedError{r.Sampler.Scheme().Name(), why.reason, why.help}
}

// refuseBands refuses a strategy of more bands than min-sep, which reason says in other words.
func (r Run) refuseBands(or, reason string) (Method, error) {
	bands, minSep := r.Strategy.Bands(), r.Sampler.Scheme().Separation()
	help := fmt.Sprintf("a strategy of at most %d bands (--bands), or --min-sep %d or more", max(1, minSep), bands)
	return "", &RefusedError{r.Sampler.Scheme().Name(), fmt.Sprintf(reason, bands, minSep), help + or}
}

const (
	exampleOnly = "is analysed for owners of one example only"
	overlap     = "the strategy has %d bands, more than min-sep %d: participations overlap"
)

// refusal is a reason of a [RefusedError], and its Help.
type refusal struct{ reason, help string }

// Refusals that several schemes share.
var (
	oneExample    = refusal{"it " + exampleOnly, "--max-per-owner 1, or --scheme b-min-sep"}
	ownersInParts = refusal{oneExample.reason + ": an owner's examples may be in different parts", oneExample.help}
	noTruncation  = refusal{"no analysis is known for a maximum batch size", "no --max-batch-size"}
	negativeEntry = refusal{
		"the strategy has a negative entry, which the analysis of random participations does not cover",
		"a strategy without negative entries, such as banded-toeplitz, or --scheme fixed, whose proof takes every strategy",
	}
	secretSizes = refusal{
		"a maximum batch size needs the public partition: the sizes of secret parts are random",
		"no --secret-partition, or no --max-batch-size",
	}
)
