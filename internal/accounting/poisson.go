package accounting

import (
	"minsep/internal/accounting/pld"
	"minsep/mechanism"
	"minsep/sampling"
)

func init() {
	register(func(r Run, s sampling.Poisson) analysis { return poisson{r, s} })
}

// poisson is Poisson subsampling. With independent noise its steps are independent events (F6);
// otherwise it is b-min-sep with min-sep 1 (F3.13).
type poisson struct {
	run    Run
	scheme sampling.Poisson
}

func (a poisson) method() (Method, error) {
	if a.run.Strategy.Bands() == 1 {
		return PLD, nil
	}
	return a.run.byLikelihoods()
}

func (a poisson) sensitivity() (mechanism.Sensitivity, error) {
	return a.run.Strategy.Sensitivity(mechanism.Participation{MinSep: 1})
}

func (a poisson) participation() participation {
	return a.run.renewalParticipation(sampling.BMinSep{Prob: a.scheme.Prob, Steps: a.scheme.Steps, MinSep: 1})
}

func (a poisson) compositions(noiseMultiplier float64) ([]*pld.Composition, error) {
	c, err := pld.Compose(a.events(noiseMultiplier), pld.Options{})
	if err != nil {
		return nil, err
	}
	return []*pld.Composition{c}, nil
}

func (a poisson) dominating(noiseMultiplier float64) ([]pld.Step, error) {
	return a.events(noiseMultiplier), nil
}

// events returns the events of a run with independent noise, equal ones as one step with a count.
func (a poisson) events(noiseMultiplier float64) (steps []pld.Step) {
	event := pld.Event{Prob: a.scheme.Prob, NoiseMultiplier: noiseMultiplier, Examples: a.run.MaxExamplesPerOwner}
	if t := a.run.Sampler.Truncation; t != nil {
		event.Truncation = &pld.Truncation{MaxBatchSize: t.MaxBatchSize, Others: int(a.run.Examples) - 1}
	}
	counts := map[float64]int{}
	for _, norm := range a.run.ColumnNorms() {
		if counts[norm] == 0 {
			event.Sensitivity = norm
			steps = append(steps, pld.Step{Event: event})
		}
		counts[norm]++
	}
	for i := range steps {
		steps[i].Count = counts[steps[i].Sensitivity]
	}
	return steps
}
