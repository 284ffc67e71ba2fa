package accounting

import (
	"minsep/accounting/montecarlo"
	"minsep/sampling"
)

func init() {
	register(func(r Run, s sampling.Rotation) analysis { return rotation{allocationEvents{r}, s} })
}

// rotation is participation of an owner once in each period, through any of its examples (F3.12).
type rotation struct {
	allocationEvents
	scheme sampling.Rotation
}

func (a rotation) method() (Method, error) {
	switch {
	case a.run.MaxExamplesPerOwner > 1:
		return a.run.refuse("it is for one example per owner in each pool: leave out max per owner")
	case a.run.allocated():
		return PLD, nil
	}
	return a.run.refuse("with correlated noise its likelihoods are not in this version; with independent noise of one size it has a proof: take a strategy of kind identity, or one band")
}

// loss: with independent noise it is epoch-min-sep without a least distance.
func (a rotation) loss(spec *montecarlo.Spec) {
	spec.Scheme, spec.EpochSteps = montecarlo.EpochMinSep, a.scheme.EpochSteps
}

// participation: in a period's pool, every step has rate 1/T, and no whole period passes without a
// participation.
func (a rotation) participation() participation {
	n, epoch := a.scheme.Steps, a.scheme.EpochSteps
	return participation{rates: []rate{{upward / float64(epoch), n}}, drawn: a.run.Examples, never: max(0, 1-float64(n)/float64(epoch)) / upward}
}
