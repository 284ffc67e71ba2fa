package verification

import (
	"context"
	"math"

	"minsep/accounting/search"
)

// Outlook is a forecast of a verification before its estimates: whether the budget is enough
// for one. It certifies nothing, and nothing is drawn for it but the samples that measure their
// time.
type Outlook struct {
	// Samples is false where the method needs none; then nothing else is set.
	Samples bool `json:"samples"`

	Budget  string  `json:"budget,omitempty"`      // in words
	Seconds float64 `json:"cpu_seconds,omitempty"` // of processors that the whole takes at most, about; 0 for a budget in samples with an unknown time

	// Expected is about how many seconds of processors the whole takes: see [Forecast]. 0 where that
	// is not known.
	Expected float64 `json:"expected_cpu_seconds,omitempty"`

	// Proven is a noise multiplier that needs no samples; 0 where there is none. Where it needs no
	// amplification either, it is certified only if it is given, or hardly more than was estimated.
	Proven      float64 `json:"proven_noise_multiplier,omitempty"`
	Unamplified bool    `json:"proven_without_amplification,omitempty"`

	// An estimate, or the verification of the only noise multiplier, takes at least Least samples
	// at NoiseMultiplier: the first that was tried at which the budget is Enough, or the last. M/δ
	// there is Effort.
	NoiseMultiplier float64 `json:"noise_multiplier,omitempty"` // σ, above 0; 0 where none was tried
	Effort          float64 `json:"effort,omitempty"`           // M/δ, at least 0
	Least           float64 `json:"least_samples,omitempty"`    // in samples
	Enough          bool    `json:"enough"`                     // whether the budget allows Least

	CPU float64 `json:"cpu_seconds_a_sample,omitempty"` // seconds of processors that a sample takes, about
	// A budget that is enough if this one is not, in samples and in seconds of processors.
	Advised    float64 `json:"advised_samples,omitempty"`     // in samples; 0 if not known
	AdvisedCPU float64 `json:"advised_cpu_seconds,omitempty"` // in seconds of processors; 0 if not known

	untilted bool
}

// Refused says that a verification would end without a certificate.
func (o Outlook) Refused() bool { return o.Samples && !o.Enough && (o.Proven == 0 || o.Unamplified) }

// Hopeless says that more samples are needed than any verification may have.
func (o Outlook) Hopeless() bool { return o.Least > maxBudget }

// Outlook makes the tables of the first noise multipliers that a plan would try, with more noise
// each, until the budget is enough for an estimate. It may take some seconds of a processor.
func (p Problem) Outlook(ctx context.Context) (*Outlook, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	_, proven, err := search.Provable(p.Run)
	if err != nil || proven {
		return &Outlook{}, err
	}
	if p.Run.Sampler.Truncation != nil { // as a plan does, by the cost where that is possible
		most, err := p.mostNoise()
		if err != nil {
			return nil, err
		}
		dear := p.tooDear(ctx, most)
		p.byCost = !p.Run.TruncatedPair() || dear == nil
		if p.byCost && dear != nil {
			return nil, dear
		}
	}
	e := p.newEstimator()
	o := &Outlook{Samples: true, Budget: e.share.budget, Seconds: e.share.seconds}
	if p.NoiseMultiplier != 0 {
		return o, p.outlook(ctx, e, o, p.NoiseMultiplier)
	}
	start, provable, err := p.start(ctx, e)
	if err != nil {
		return nil, err
	}
	o.Proven, o.Unamplified = provable.NoiseMultiplier, p.unamplified(provable.NoiseMultiplier)
	e.beginEstimates()
	x := math.Log(start)
	for range search.MaxLooks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		before := o.Least
		if err := p.outlook(ctx, e, o, math.Exp(x)); err != nil {
			return nil, err
		}
		plain := o.Effort*e.delta >= 1-1e-9
		helps := before == 0 || plain || o.Least < before // more noise
		if o.Enough || o.untilted || e.left() == 0 || !helps {
			break
		}
		x += search.Farthest
	}
	return o, nil
}

// outlook sets the cost of an estimate at a noise multiplier or, for the only candidate, of a
// verification.
func (p Problem) outlook(ctx context.Context, e *estimator, o *Outlook, noiseMultiplier float64) error {
	divergences, err := p.divergences(ctx, e, []float64{noiseMultiplier})
	if err != nil {
		return err
	}
	o.NoiseMultiplier, o.Effort, o.Least = noiseMultiplier, 0, 0
	proven, bounds := true, []float64{}
	for i, s := range divergences[0] {
		bounds = append(bounds, s.bound())
		proven = proven && s.total() <= p.Delta-p.claim().Earlier
		if s.divergence() <= search.Negligible*e.delta {
			continue
		}
		if e.drawn == 0 {
			if _, err := e.time(ctx, s); err != nil {
				return err
			}
		}
		o.Effort, o.untilted = max(o.Effort, s.bound()/e.delta), o.untilted || s.untilted
		o.Least = max(o.Least, fewest, math.Ceil(leastEfforts[i]*s.bound()/e.delta))
	}
	o.CPU, o.Least = e.eachCPU(), max(fewest, o.Least)
	o.Enough, o.Advised = o.Least <= e.left(), advisedEstimates*o.Least
	o.AdvisedCPU = e.used() + o.Advised*o.CPU
	if p.NoiseMultiplier == 0 {
		return nil
	}
	if proven {
		o.Proven = noiseMultiplier
	}
	// The fewest samples accept a mean of 0 only; the advised number accepts half of δ.
	count := func(accept float64) float64 {
		_, samples, _ := p.claim().Samples(accept, bounds)
		return sum(samples)
	}
	left, _ := p.priced(e).allowance()
	o.Least, o.Advised = count(0), count(p.Delta/2)
	o.Enough, o.AdvisedCPU = proven || o.Least > 0 && o.Least <= left, e.used()+o.Advised*o.CPU
	return nil
}
