package calibration

import (
	"context"
	"errors"
	"math"
	"time"

	"minsep/internal/accounting"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/tilt"
)

// Forecast is about how long a verification takes, all of it, if the noise multiplier that comes out
// is near a given one. It certifies nothing.
type Forecast struct {
	Seconds    float64 // of processors, above 0
	Additional float64 // of these for additional ε, at least 0; they come on top of a budget

	// Enough is a budget in seconds of processors that is enough to accept up to .85 δ. A smaller one
	// costs noise. 0 if no samples are drawn.
	Enough float64

	Tables float64 // seconds of processors for the tables of one noise multiplier; 0 if no samples are drawn
	Sample float64 // seconds of processors a sample; 0 likewise
	Effort float64 // M/δ at the noise multiplier, at least 0; of H(Q,P), whose divergence is mostly far below δ, the part FarShare
}

// Seconds of verifications without samples, as measured: of privacy loss distributions, of those of
// cyclic Poisson sampling, and of closed forms.
const poissonSeconds, cyclicSeconds, closedSeconds = 2.0, 0.4, 0.1

// tablesOfAll is the number of noise multipliers that a verification makes tables of: for estimates,
// for candidates, and for the workers that draw their samples.
const tablesOfAll = 7

// ForecastProven is the forecast of a run that is proven by a method without samples; ok says that
// the method is one.
func ForecastProven(run accounting.Run) (f Forecast, ok bool) {
	method, err := run.Method()
	switch {
	case err != nil || !WithoutSamples(method):
		return f, false
	case method == accounting.ClosedForm:
		return Forecast{Seconds: closedSeconds}, true
	case run.Sampler.CyclicPoisson != nil:
		return Forecast{Seconds: cyclicSeconds}, true
	}
	return Forecast{Seconds: poissonSeconds}, true
}

// Forecast makes the tables of a noise multiplier and draws some samples, to know their time.
func (p Problem) Forecast(ctx context.Context, sigma float64) (f Forecast, err error) {
	if f, ok := ForecastProven(p.Run); ok {
		return f, nil
	}
	const leastTimed = 0.05 // seconds that samples are timed for
	for i, d := range montecarlo.Directions {
		begun := clock(1)
		of, err := newDivergence(
			ctx,
			tilt.Config{Spec: p.Run.Loss(sigma), Epsilon: p.Epsilon, Direction: d},
			mostTables,
		)
		if err != nil {
			return f, err
		}
		f.Tables += clock(1) - begun
		if of.proof.bound <= Negligible*p.Delta {
			continue
		}
		s, l, err := of.lookAt(1, p.Delta)
		if err != nil {
			return f, err
		}
		for want := uint64(Few); want == Few || s.seconds < leastTimed; want *= 2 {
			if err := s.draw(ctx, l, want); err != nil {
				return f, err
			}
		}
		effort := of.bound() / p.Delta
		if i > 0 {
			effort *= FarShare
		}
		f.Sample = (f.Sample*f.Effort + effort*s.seconds/float64(s.drawn)) / (f.Effort + effort)
		f.Effort += effort
	}
	return p.Within(f, p.CPUTime), nil
}

// Within is the forecast f of p with another budget in time; 0 is the default one.
func (p Problem) Within(f Forecast, budget time.Duration) Forecast {
	tables := tablesOfAll * f.Tables
	if p.NoiseMultiplier != 0 {
		tables = 2 * f.Tables
	}
	samples := VerifySamples * f.Effort * f.Sample
	switch {
	case p.Samples > 0:
		samples = float64(p.Samples) * f.Sample
	case budget > 0: // is used up
		samples = max(0, budget.Seconds()-tables)
	default:
		samples = min(samples, max(0, DefaultCPUTime.Seconds()-tables))
	}
	f.Additional = 0
	if n := float64(len(p.AlsoEpsilon)); n > 0 {
		f.Additional = samples/2 + 4*n*f.Tables
	}
	f.Seconds = tables + samples + f.Additional
	f.Enough = tables + enoughSamples*f.Effort*f.Sample
	return f
}

// Outlook is a forecast of a verification whose noise multiplier is not known: whether the budget is
// enough for one. It certifies nothing.
type Outlook struct {
	// Samples is false if the method needs none; then nothing else is set.
	Samples bool `json:"samples"`

	Budget   string  `json:"budget,omitempty"`               // in words
	Seconds  float64 `json:"cpu_seconds,omitempty"`          // of processors that the whole takes at most, about; 0 for a budget in samples
	Expected float64 `json:"expected_cpu_seconds,omitempty"` // about how many seconds of processors the whole takes; 0 if that is not known

	// Proven is a noise multiplier that needs no samples; 0 if there is none. If it needs no
	// amplification either, it is certified only if it is given, or hardly more than was estimated.
	Proven      float64 `json:"proven_noise_multiplier,omitempty"`
	Unamplified bool    `json:"proven_without_amplification,omitempty"`

	NoiseMultiplier float64 `json:"noise_multiplier,omitempty"` // σ near the one that comes out, or the given one; 0 if none was found
	Effort          float64 `json:"effort,omitempty"`           // M/δ there, at least 0
	Least           float64 `json:"least_samples,omitempty"`    // that an estimate takes there, or the verification of a given one
	Enough          bool    `json:"enough"`                     // whether the budget allows them

	CPU float64 `json:"cpu_seconds_a_sample,omitempty"` // seconds of processors that a sample takes, about
	// A budget that is enough if this one is not, in samples and in seconds of processors.
	Advised    float64 `json:"advised_samples,omitempty"`     // in samples; 0 if not known
	AdvisedCPU float64 `json:"advised_cpu_seconds,omitempty"` // in seconds of processors; 0 if not known
}

// Refused says that a verification would end without a certificate.
func (o Outlook) Refused() bool { return o.Samples && !o.Enough && (o.Proven == 0 || o.Unamplified) }

// Hopeless says that more samples are needed than any verification may have.
func (o Outlook) Hopeless() bool { return o.Least > maxBudget }

// outlookSeconds is the time of processors that an outlook may take to come near the noise
// multiplier, about.
const outlookSeconds = 2

// Outlook comes near the noise multiplier in a few seconds of a processor, and says what a
// verification takes there.
func (p Problem) Outlook(ctx context.Context) (*Outlook, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	method, err := p.Run.Method()
	if err != nil || WithoutSamples(method) {
		return &Outlook{}, err
	}
	c, err := p.begin(p.Run.Sampler.Truncation != nil)
	if err != nil {
		return nil, err
	}
	o := &Outlook{Samples: true, Budget: c.budget(), Seconds: c.seconds, NoiseMultiplier: p.NoiseMultiplier}
	whole := c.seconds
	if c.byCost {
		if err := c.tooDear(); err != nil && !p.Run.TruncatedPair() {
			return nil, err
		}
	}
	if c.seconds == 0 || c.seconds > outlookSeconds/estimateShare {
		c.seconds = outlookSeconds / estimateShare
	}
	if p.NoiseMultiplier == 0 {
		start, err := c.start(ctx)
		if err != nil {
			return nil, err
		}
		if o.Proven, err = c.unamplified(ctx); err != nil {
			return nil, err
		}
		o.Unamplified = o.Proven > 0 && !c.run.Majorized()
		if err := c.estimate(ctx, start, Rough/Apart); err != nil && !errors.Is(err, ErrTooDear) {
			return nil, err
		}
		for _, l := range c.searches[0].looks {
			if sigma := l.Spec.NoiseMultiplier; c.isProven(l.divergence) && (o.Proven == 0 || sigma < o.Proven) {
				o.Proven, o.Unamplified = sigma, false
			}
		}
		if o.NoiseMultiplier = c.out.Estimate; o.NoiseMultiplier == 0 {
			o.NoiseMultiplier = math.Exp(c.searches[0].looks[len(c.searches[0].looks)-1].x)
		}
	}
	var f Forecast
	if p.NoiseMultiplier == 0 {
		f, err = c.forecast(ctx)
	} else {
		f, err = p.Forecast(ctx, o.NoiseMultiplier)
	}
	if errors.Is(err, tilt.ErrTable) {
		return o, nil
	}
	if err != nil {
		return nil, err
	}
	o.Effort, o.CPU = f.Effort, f.Sample
	o.Least = max(leastSamples*f.Effort, 1)
	o.Advised, o.AdvisedCPU = samplesFor*f.Effort, samplesFor*f.Effort*f.Sample+tablesOfAll*f.Tables
	allowed := float64(p.Samples)
	if p.Samples == 0 {
		allowed = max(0, whole-tablesOfAll*f.Tables) / max(f.Sample, 1e-12)
	}
	o.Enough = 3*o.Least <= allowed || f.Effort == 0
	if o.Enough {
		o.Expected = f.Seconds
	}
	return o, nil
}
