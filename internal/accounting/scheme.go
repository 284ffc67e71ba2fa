package accounting

import (
	"fmt"
	"math"
	"slices"

	"minsep/internal/accounting/pld"
	"minsep/mechanism"
	"minsep/sampling"
)

// schemeMethod returns how a claim about a valid run is verified, or a RefusedError. The maximum
// batch size of examples that take part independently of each other is left out of account.
func (r Run) schemeMethod() (Method, error) {
	bands, minSep := r.Strategy.Bands(), r.Sampler.Scheme().Separation()
	several, negative := r.MaxExamplesPerOwner > 1, !r.Strategy.NonNegative()
	switch s := r.Sampler.Scheme().(type) {
	case sampling.Fixed: // the Gaussian mechanism, without amplification (F2)
		return ClosedForm, nil
	case sampling.MultiOwner: // Algorithm 3 of arXiv 2602.09338; F4.1 is for comparison
		switch {
		case r.Sampler.Truncation != nil:
			return r.refuseBy(noTruncation)
		case bands > minSep:
			return r.refuseBands("", overlap)
		case negative:
			return r.refuseBy(negativeEntry)
		}
		return Unproven, nil
	case sampling.Poisson: // with independent noise the steps are independent events (F6)
		if bands == 1 {
			return PLD, nil
		}
		return r.byLikelihoods()
	case sampling.BMinSep: // F3.2, F3.13, F4.2, F4.8
		if r.allocated() {
			return PLD, nil
		}
		return r.byLikelihoods()
	case sampling.EpochMinSep: // F3.8, F4.8
		switch {
		case r.allocated():
			return PLD, nil
		case bands > minSep:
			return r.refuseBands("", overlap)
		case negative:
			return r.refuseBy(negativeEntry)
		}
		return MonteCarlo, nil
	case sampling.CyclicPoisson: // F3.5
		switch {
		case bands > minSep:
			return r.refuseBands("", overlap)
		case several:
			return r.refuseBy(ownersInParts)
		case r.Majorized() && !negative:
			return MonteCarlo, nil
		}
		return PLD, nil
	case sampling.Rotation: // F3.12
		switch {
		case several:
			return r.refuse("it is for one example per owner in each pool: leave out max per owner")
		case r.allocated():
			return PLD, nil
		case negative:
			return r.refuseBy(negativeEntry)
		case bands > s.EpochSteps:
			return r.refuse(
				"the strategy has %d bands, epoch-steps is %d, and the bands must be at most epoch-steps, so that an example meets the examples of the period before and after alone: take a strategy of at most %d bands, or epoch-steps of at least %d",
				bands,
				s.EpochSteps,
				s.EpochSteps,
				bands,
			)
		}
		return MonteCarlo, nil
	case sampling.BallsInBins, *sampling.Table: // any strategy (F3.4, F3.13)
		switch {
		case several:
			return r.refuseBy(oneExample)
		case negative:
			return r.refuseBy(negativeEntry)
		case r.allocated():
			return PLD, nil
		}
		return MonteCarlo, nil
	}
	return r.refuse("no analysis is known for it")
}

// byLikelihoods is the method of schemes that equal b-min-sep for some parameters.
func (r Run) byLikelihoods() (Method, error) {
	switch {
	case r.MaxExamplesPerOwner > 1 && r.Strategy.Bands() > r.Sampler.Scheme().Separation():
		return r.refuseBands(
			", or --max-per-owner 1",
			"several examples per owner need a strategy of at most min-sep bands: it has %d, min-sep is %d",
		)
	case !r.Strategy.NonNegative():
		return r.refuseBy(negativeEntry)
	}
	return MonteCarlo, nil
}

// sensitivity returns the sensitivity of the strategy under the participations that the scheme allows
// to an example, or to an owner of several with scheme fixed.
func (r Run) sensitivity() (mechanism.Sensitivity, error) {
	schema := mechanism.Participation{MinSep: r.Sampler.Scheme().Separation()}
	switch s := r.Sampler.Scheme().(type) {
	case sampling.Fixed:
		schema.MaxParticipations = s.MaxParticipations
	case sampling.BallsInBins:
		schema.Phases = true
	case sampling.Rotation:
		// Of E periods an owner takes part once in each, and only columns of adjacent ones may overlap.
		// E squared norms and E-1 products of two columns, twice each, are at most 3E-2 times the
		// largest squared norm.
		bound := math.Sqrt(float64(3*s.Periods()-2)) * slices.Max(r.ColumnNorms())
		return mechanism.Sensitivity{Value: bound}, nil
	default:
		table, err := sampling.TableOf(s)
		if err != nil {
			return mechanism.Sensitivity{}, err
		}
		schema.MaxParticipations = max(1, table.MaxParticipations())
	}
	return r.Strategy.Sensitivity(schema)
}

// Majorized reports whether a run of the method MonteCarlo also has a proof of a larger δ. Cyclic
// Poisson sampling with a secret partition has one: it is a mixture over the parts, and by joint
// convexity its divergence is at most the worst part's (F3.5).
func (r Run) Majorized() bool {
	s, ok := r.Sampler.Scheme().(sampling.CyclicPoisson)
	return ok && s.SecretPartition && s.MinSep > 1
}

// events returns lists of independent events for a run of the method PLD, or one that is Majorized:
// each list dominates the run in one case, and the worst case counts.
func (r Run) events(noiseMultiplier float64) (cases [][]pld.Step) {
	if periods, ok := r.Allocations(noiseMultiplier); ok {
		return [][]pld.Step{periods}
	}
	each := pld.Release{NoiseMultiplier: noiseMultiplier, Examples: r.MaxExamplesPerOwner}
	parts := 1
	switch s := r.Sampler.Scheme().(type) {
	case sampling.Poisson:
		each.Prob = s.Prob
	case sampling.CyclicPoisson:
		each.Prob, parts = s.Prob, s.MinSep
	}
	norms, t := r.ColumnNorms(), r.Sampler.Truncation
	if t == nil {
		return [][]pld.Step{pld.Cyclic(each, norms, parts)}
	}
	// Parts of two sizes have a case each.
	small := int(r.Examples) / parts
	sizes := []int{max(small, 1)}
	if int(r.Examples)%parts != 0 && small > 0 {
		sizes = append(sizes, small+1)
	}
	for _, size := range sizes {
		each.Truncation = &pld.Truncation{MaxBatchSize: t.MaxBatchSize, Others: size - 1}
		cases = append(cases, pld.Cyclic(each, norms, parts))
	}
	return cases
}

// Allocations returns the periods that compose a run (F6.3). ok is false unless an owner
// takes part at most once in each period, at every step with the same probability, and the noise is
// independent and the same at every step.
func (r Run) Allocations(noiseMultiplier float64) (periods []pld.Step, ok bool) {
	if r.MaxExamplesPerOwner != 1 || r.Sampler.Truncation != nil || r.Strategy.Bands() != 1 ||
		!r.Strategy.NonNegative() {
		return nil, false
	}
	norms := r.ColumnNorms()
	most := slices.Max(norms)
	if slices.Min(norms) < most*(1-1e-9) {
		return nil, false
	}
	each, steps := pld.Allocation{NoiseMultiplier: noiseMultiplier, Sensitivity: most}, r.steps()
	switch s := r.Sampler.Scheme().(type) {
	case sampling.Rotation:
		return inPeriods(each, steps, s.EpochSteps), true
	case sampling.EpochMinSep:
		if s.MinSep == 1 || s.EpochSteps >= steps {
			return inPeriods(each, steps, s.EpochSteps), true
		}
	case sampling.BallsInBins: // a bin's epochs are one step with √epochs times less noise
		if epochs := max(1, steps/s.Period); epochs == 1 && steps <= s.Period || steps%s.Period == 0 {
			each.Sensitivity *= math.Sqrt(float64(epochs)) * upward
			return inPeriods(each, min(steps, s.Period), s.Period), true
		}
	case sampling.BMinSep:
		if s.MinSep >= steps && s.WarmStart {
			each.Steps, each.Places = max(float64(steps), 1/(s.Rate()*upward)), steps
			return []pld.Step{{Event: each, Count: 1}}, true
		}
	}
	return nil, false
}

// allocated reports whether a run, without its truncation, is composed of allocations.
func (r Run) allocated() bool {
	_, ok := r.Untruncated().Allocations(1)
	return ok
}

// inPeriods divides steps into periods; the last one may be shorter.
func inPeriods(each pld.Allocation, steps, period int) (periods []pld.Step) {
	each.Steps = float64(period)
	if each.Places = period; steps >= period {
		periods = append(periods, pld.Step{Event: each, Count: steps / period})
	}
	if each.Places = steps % period; each.Places > 0 {
		periods = append(periods, pld.Step{Event: each, Count: 1})
	}
	return periods
}

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
