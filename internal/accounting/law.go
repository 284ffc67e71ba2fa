package accounting

import (
	"minsep/mechanism"
	"minsep/sampling"
)

func init() {
	register(func(r Run, t *sampling.Table) analysis { return law{r, t} })
}

// law is any law of a table: its ratio is exact for any strategy (F3.13).
type law struct {
	run   Run
	table *sampling.Table
}

func (a law) method() (Method, error) {
	switch {
	case a.run.MaxExamplesPerOwner > 1:
		return a.run.refuseBy(oneExample)
	case !a.run.Strategy.NonNegative():
		return a.run.refuseBy(negativeEntry)
	}
	return MonteCarlo, nil
}

func (a law) sensitivity() (mechanism.Sensitivity, error) {
	return a.run.Strategy.Sensitivity(
		mechanism.Participation{
			MinSep:            a.table.Separation(),
			MaxParticipations: max(1, a.table.MaxParticipations()),
		},
	)
}

// participation: each step has a rate of its own. Rates and the probability of none are products of
// at most two factors a step.
func (a law) participation() participation {
	above := upward * (1 + float64(a.table.Steps)*0x1p-50)
	p := participation{drawn: a.run.Examples, never: a.table.Never() / above}
	for _, prob := range a.table.Rates() {
		prob = min(1, prob*above)
		if last := len(p.rates) - 1; last >= 0 && p.rates[last].prob == prob {
			p.rates[last].steps++
		} else {
			p.rates = append(p.rates, rate{prob, 1})
		}
	}
	return p
}
