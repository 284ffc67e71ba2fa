package accounting

import (
	"errors"
	"fmt"

	"minsep/accounting/montecarlo"
	"minsep/accounting/pld"
	"minsep/internal/param"
	"minsep/mechanism"
	"minsep/sampling"
)

// Run is what privacy is claimed for: everything that the privacy loss depends on but the noise multiplier. All of it is public.
type Run struct {
	Sampler             sampling.Spec       `json:"sampler"`
	Strategy            *mechanism.Strategy `json:"strategy"`
	MaxExamplesPerOwner int                 `json:"max_examples_per_owner"` // k_u; 1 is example-level privacy
	Examples            int64               `json:"examples,omitempty"`     // size of the data set; needed with truncation only
}

// Method is how a claim is verified.
type Method string

// Methods, in the words of the certificate.
const (
	ClosedForm  Method = "closed-form"           // the Gaussian mechanism with the strategy's sensitivity (F2, F6)
	PLD         Method = "pld"                   // composition of independent events (F3.5, F6)
	RenyiBound  Method = "renyi bound M<=delta"  // a bound of the divergence that needs no sample (F5.2, F5.4)
	MonteCarlo  Method = "monte carlo"           // samples, by the protocol of F5
	Unproven    Method = "published, not proven" // Algorithm 3 of arXiv 2602.09338: never certified
	exampleOnly        = "is analysed for owners of one example only"
)

// RefusedError says that no analysis is known for a combination of scheme, bands, owners and truncation.
type RefusedError struct {
	Scheme, Reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("accounting: %s: refused: %s", e.Scheme, e.Reason)
}

// Validate reports every fault of the parameters. It does not say whether the combination can be accounted for; Method does.
func (r Run) Validate() error {
	c := param.Checker{Package: "accounting"}
	c.Add(r.Sampler.Validate())
	c.AtLeast("examples per owner", r.MaxExamplesPerOwner, 1)
	c.Require(r.Examples >= 0, "examples", r.Examples, "must be at least 0")
	if r.Strategy == nil {
		c.Require(false, "strategy", "none", "is needed")
	} else {
		c.Add(r.Strategy.Validate())
	}
	if err := c.Err(); err != nil {
		return err
	}
	c.Require(r.Strategy.Steps == r.steps(), "steps of the strategy", r.Strategy.Steps, fmt.Sprintf("must be those of the sampler, %d", r.steps()))
	if r.Sampler.Truncation != nil {
		c.Require(r.Examples >= 1, "examples", r.Examples, "must be given with a maximum batch size")
	}
	return c.Err()
}

func (r Run) steps() int { return r.Sampler.Scheme().NumSteps() }

// Method says how a claim about the run is verified, or refuses with a RefusedError (the table of schemes in the documentation).
func (r Run) Method() (Method, error) {
	if err := r.Validate(); err != nil {
		return "", err
	}
	s := r.Sampler
	scheme := s.Scheme()
	refuse := func(format string, args ...any) (Method, error) {
		return "", &RefusedError{scheme.Name(), fmt.Sprintf(format, args...)}
	}
	bands, minSep := r.Strategy.Bands(), scheme.Separation()
	truncated := s.Truncation != nil
	if truncated && r.MaxExamplesPerOwner > 1 {
		return refuse("a maximum batch size %s", exampleOnly)
	}
	switch {
	case s.Fixed != nil:
		return ClosedForm, nil
	case s.Poisson != nil && bands == 1:
		return PLD, nil
	case s.CyclicPoisson != nil:
		switch {
		case bands > minSep:
			return refuse("the strategy has %d bands, more than min-sep %d: participations overlap", bands, minSep)
		case r.MaxExamplesPerOwner > 1:
			return refuse("it %s: an owner's examples may be in different parts", exampleOnly)
		case truncated && s.CyclicPoisson.SecretPartition:
			return refuse("a maximum batch size needs the public partition: the sizes of secret parts are random")
		case s.CyclicPoisson.SecretPartition && minSep > 1 && r.Strategy.NonNegative():
			return MonteCarlo, nil
		}
		return PLD, nil
	case s.BallsInBins != nil && r.MaxExamplesPerOwner > 1:
		return refuse("it %s", exampleOnly)
	case (s.BallsInBins != nil || s.MultiOwner != nil) && truncated:
		return refuse("no analysis is known for a maximum batch size")
	case s.MultiOwner != nil && bands > minSep:
		return refuse("the strategy has %d bands, more than min-sep %d", bands, minSep)
	case truncated && bands > minSep:
		return refuse("a maximum batch size needs a strategy of at most min-sep bands: it has %d, min-sep is %d", bands, minSep)
	case s.BallsInBins == nil && bands > minSep && r.MaxExamplesPerOwner > 1:
		return refuse("several examples per owner need a strategy of at most min-sep bands: it has %d, min-sep is %d", bands, minSep)
	case !r.Strategy.NonNegative():
		return refuse("the strategy has a negative entry: the analysis of random participations needs none")
	case s.MultiOwner != nil:
		return Unproven, nil
	}
	return MonteCarlo, nil
}

// Loss is the problem for package montecarlo. The run's method must be MonteCarlo, Unproven or PLD.
func (r Run) Loss(noiseMultiplier float64) montecarlo.Spec {
	spec := montecarlo.Spec{Scheme: r.Sampler.Scheme().Name(), NoiseMultiplier: noiseMultiplier, Strategy: r.Strategy,
		Steps: r.steps(), MinSep: r.Sampler.Scheme().Separation()}
	if r.MaxExamplesPerOwner > 1 {
		spec.MaxExamplesPerOwner = r.MaxExamplesPerOwner
	}
	switch s := r.Sampler; {
	case s.BMinSep != nil:
		spec.Prob, spec.WarmStart = s.BMinSep.Prob, s.BMinSep.WarmStart
	case s.Poisson != nil:
		spec.Prob = s.Poisson.Prob
	case s.CyclicPoisson != nil:
		spec.Prob, spec.WarmStart = s.CyclicPoisson.Prob, s.CyclicPoisson.SecretPartition
	case s.MultiOwner != nil:
		spec.Prob, spec.WarmStart = s.MultiOwner.Prob, true // its coins begin before the first step
	}
	if t := r.Sampler.Truncation; t != nil {
		spec.MaxBatchSize, spec.Examples = t.MaxBatchSize, int(r.Examples)
	}
	return spec
}

// ErrNoProof says that a run has no proof by closed form or privacy loss distribution.
var ErrNoProof = errors.New("accounting: no closed form and no composition of independent events")

// Majorized says that a run whose method is MonteCarlo has a proof as well, which claims more δ than there is: cyclic Poisson sampling
// with a secret partition is a mixture over the parts, and divergences are jointly convex, so that none is above that of the worst part (F3.5).
func (r Run) Majorized() bool {
	c := r.Sampler.CyclicPoisson
	return c != nil && c.SecretPartition && c.MinSep > 1
}

// Prove returns δ(epsilon) as bounds of both directions, for a run whose method is ClosedForm or PLD, and upper bounds for one that is
// Majorized; for others the error is ErrNoProof.
func (r Run) Prove(noiseMultiplier, epsilon float64) (pq, qp pld.Bracket, err error) {
	method, err := r.Method()
	if err != nil {
		return pq, qp, err
	}
	switch {
	case method == ClosedForm:
		delta, err := r.gaussianDelta(noiseMultiplier, epsilon)
		return delta, delta, err
	case r.Majorized():
		pq, qp, err = r.composedDelta(noiseMultiplier, epsilon)
		pq.Lower, qp.Lower = 0, 0
		return pq, qp, err
	case method == PLD:
		return r.composedDelta(noiseMultiplier, epsilon)
	}
	return pq, qp, ErrNoProof
}

// Calibrate returns the smallest noise multiplier at which the run is proven (epsilon, delta)-DP, Upper, and one that is proven to
// be too small, Lower (0 if none is known), for a run whose method is ClosedForm or PLD; for others the error is ErrNoProof.
func (r Run) Calibrate(epsilon, delta float64) (pld.Bracket, error) {
	method, err := r.Method()
	if err != nil {
		return pld.Bracket{}, err
	}
	switch {
	case method == ClosedForm:
		sens, err := r.sensitivity()
		if err != nil {
			return pld.Bracket{}, err
		}
		sigma, err := GaussianNoiseMultiplier(epsilon, delta*(1-2e-9), sens.Value)
		b := pld.Bracket{Upper: sigma}
		if sens.Exact {
			b.Lower = sigma * (1 - 1e-6)
		}
		return b, err
	case method == PLD || r.Majorized():
		var worst pld.Bracket
		for i := 0; ; i++ {
			cases := 0
			b, err := pld.Calibrate(epsilon, delta, func(sigma float64) (*pld.Composition, error) {
				list, err := r.compositions(sigma)
				if err != nil {
					return nil, err
				}
				cases = len(list)
				return list[i], nil
			})
			if err != nil {
				return pld.Bracket{}, err
			}
			worst = pld.Bracket{Lower: max(worst.Lower, b.Lower), Upper: max(worst.Upper, b.Upper)}
			if i+1 == cases {
				if r.Majorized() {
					worst.Lower = 0
				}
				return worst, nil
			}
		}
	}
	return pld.Bracket{}, ErrNoProof
}

func (r Run) sensitivity() (mechanism.Sensitivity, error) {
	fixed := r.Sampler.Fixed
	most := fixed.MaxParticipations
	if most == 0 {
		most = (fixed.Steps + fixed.MinSep - 1) / fixed.MinSep
	}
	return r.Strategy.Sensitivity(mechanism.Participation{MinSep: fixed.MinSep, MaxParticipations: most})
}

// gaussianDelta is the same in both directions.
func (r Run) gaussianDelta(noiseMultiplier, epsilon float64) (pld.Bracket, error) {
	sens, err := r.sensitivity()
	if err != nil {
		return pld.Bracket{}, err
	}
	delta, err := Gaussian{sens.Value, noiseMultiplier}.Delta(epsilon)
	b := pld.Bracket{Upper: min(1, delta*(1+1e-9))} // the closed form and the sensitivity are rounded
	if sens.Exact {
		b.Lower = delta * (1 - 1e-9)
	}
	return b, err
}

func (r Run) composedDelta(noiseMultiplier, epsilon float64) (pq, qp pld.Bracket, err error) {
	compositions, err := r.compositions(noiseMultiplier)
	for _, c := range compositions {
		for _, d := range []struct {
			loss pld.Loss
			into *pld.Bracket
		}{{c.PQ, &pq}, {c.QP, &qp}} {
			b, err := d.loss.Delta(epsilon)
			if err != nil {
				return pq, qp, err
			}
			*d.into = pld.Bracket{Lower: max(d.into.Lower, b.Lower), Upper: max(d.into.Upper, b.Upper)}
		}
	}
	return pq, qp, err
}

// compositions returns the cases of which the worst counts: with parts of two sizes and a maximum batch size, one for each size.
func (r Run) compositions(noiseMultiplier float64) (list []*pld.Composition, err error) {
	if p := r.Sampler.Poisson; p != nil {
		c, err := pld.Compose(r.poissonSteps(*p, noiseMultiplier), pld.Options{})
		if err != nil {
			return nil, err
		}
		return []*pld.Composition{c}, nil
	}
	s, events := r.Sampler.CyclicPoisson, r.cyclicEvents(noiseMultiplier)
	sizes := []int{0}
	if t := r.Sampler.Truncation; t != nil {
		small := int(r.Examples) / s.MinSep
		sizes = []int{max(small, 1)}
		if int(r.Examples)%s.MinSep != 0 && small > 0 {
			sizes = append(sizes, small+1)
		}
		events.Truncation = &pld.Truncation{MaxBatchSize: t.MaxBatchSize}
	}
	for _, size := range sizes {
		if events.Truncation != nil {
			events.Truncation = &pld.Truncation{MaxBatchSize: events.Truncation.MaxBatchSize, Others: size - 1}
		}
		c, err := events.Compose(pld.Options{})
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// cyclicEvents are the events of cyclic Poisson sampling, of any part, without truncation.
func (r Run) cyclicEvents(noiseMultiplier float64) pld.CyclicPoisson {
	s := r.Sampler.CyclicPoisson
	return pld.CyclicPoisson{Prob: s.Prob, Steps: s.Steps, MinSep: s.MinSep, NoiseMultiplier: noiseMultiplier, ColumnNorms: r.ColumnNorms()}
}

// ColumnNorms returns the Euclidean norms of the columns of C, one a step: of a normalised strategy they are 1, whatever the columns that it
// is held by.
func (r Run) ColumnNorms() []float64 {
	norms := r.Strategy.ColumnNorms()
	if r.Strategy.Normalized {
		for i := range norms {
			norms[i] = 1
		}
	}
	return norms
}

// poissonSteps are the events of a run with independent noise, equal ones together.
func (r Run) poissonSteps(p sampling.Poisson, noiseMultiplier float64) (steps []pld.Step) {
	event := pld.Event{Prob: p.Prob, NoiseMultiplier: noiseMultiplier, Examples: r.MaxExamplesPerOwner}
	if t := r.Sampler.Truncation; t != nil {
		event.Truncation = &pld.Truncation{MaxBatchSize: t.MaxBatchSize, Others: int(r.Examples) - 1}
	}
	counts := map[float64]int{}
	for _, norm := range r.ColumnNorms() {
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
