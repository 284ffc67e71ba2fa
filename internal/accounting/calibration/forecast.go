package calibration

import (
	"context"
	"errors"
	"math"

	"minsep/internal/accounting"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/tilt"
)

// Outlook is a forecast of a verification, by the estimates and tables that a plan begins with. It
// certifies nothing.
type Outlook struct {
	// Samples is false if the method needs none; then only Expected is set.
	Samples bool `json:"samples"`

	Budget   string  `json:"budget,omitempty"`               // in words
	Seconds  float64 `json:"cpu_seconds,omitempty"`          // of processors that the whole takes at most, about; 0 for a budget in samples
	Expected float64 `json:"expected_cpu_seconds,omitempty"` // about how many seconds of processors the whole takes, with additional ε, which come on top of a budget; 0 if that is not known

	// Proven is a noise multiplier that needs no samples; 0 if there is none. If it needs no
	// amplification either, it is certified only if it is given, or hardly more than was estimated.
	Proven      float64 `json:"proven_noise_multiplier,omitempty"`
	Unamplified bool    `json:"proven_without_amplification,omitempty"`

	NoiseMultiplier float64 `json:"noise_multiplier,omitempty"` // σ near the one that comes out, or the given one; 0 if none was found
	Effort          float64 `json:"effort,omitempty"`           // M/δ there, at least 0, of both directions
	Least           float64 `json:"least_samples,omitempty"`    // that an estimate takes there, or the verification of a given one
	Enough          bool    `json:"enough"`                     // whether the budget allows them

	CPU float64 `json:"cpu_seconds_a_sample,omitempty"` // seconds of processors that a sample takes, about
	// A budget that is enough if this one is not, in samples and in seconds of processors.
	Advised    float64 `json:"advised_samples,omitempty"`     // in samples; 0 if not known
	AdvisedCPU float64 `json:"advised_cpu_seconds,omitempty"` // in seconds of processors; 0 if not known

	// Ample is a budget in seconds of processors with which up to .85 δ is accepted; a smaller one
	// costs noise. 0 if no samples are drawn.
	Ample float64 `json:"-"`
}

// Refused says that a verification would end without a certificate.
func (o Outlook) Refused() bool { return o.Samples && !o.Enough && (o.Proven == 0 || o.Unamplified) }

// Hopeless says that more samples are needed than any verification may have.
func (o Outlook) Hopeless() bool { return o.Least > maxBudget }

// Seconds of verifications without samples, as measured: of privacy loss distributions, of those of
// cyclic Poisson sampling, and of closed forms.
const poissonSeconds, cyclicSeconds, closedSeconds = 2.0, 0.4, 0.1

// tablesOfAll is the number of noise multipliers that a verification makes tables of: for estimates,
// for candidates, and for the workers that draw their samples.
const tablesOfAll = 7

// outlookSeconds is the time of processors that an outlook may take to come near the noise
// multiplier, about.
const outlookSeconds = 1.5

// ProvenSeconds is about how many seconds of processors the verification of a run takes without
// samples; 0 if it needs them.
func ProvenSeconds(run accounting.Run) float64 {
	method, err := run.Method()
	switch {
	case err != nil || !WithoutSamples(method):
		return 0
	case method == accounting.ClosedForm:
		return closedSeconds
	case run.Sampler.CyclicPoisson != nil:
		return cyclicSeconds
	}
	return poissonSeconds
}

// Outlook says what a verification takes, in a few seconds of a processor. near is a noise
// multiplier near the one that comes out, 0 to look for it.
func (p Problem) Outlook(ctx context.Context, near float64) (*Outlook, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	method, err := p.Run.Method()
	if err != nil || WithoutSamples(method) {
		return &Outlook{Expected: ProvenSeconds(p.Run)}, err
	}
	c, err := p.begin(p.Run.Sampler.Truncation != nil)
	if err != nil {
		return nil, err
	}
	o := &Outlook{Samples: true, Budget: c.budget(), NoiseMultiplier: max(p.NoiseMultiplier, near)}
	whole := *c
	if c.inTime() {
		o.Seconds, c.total = c.total, min(c.total, outlookSeconds/estimateShare)
	}
	if _, err := c.checkTruncation(); err != nil && !p.Run.TruncatedPair() {
		return nil, err
	}
	if o.NoiseMultiplier == 0 {
		if err := c.near(ctx, o); err != nil {
			return nil, err
		}
	}
	making, err := c.effort(ctx, o)
	if errors.Is(err, tilt.ErrTable) {
		return o, nil
	}
	if err != nil {
		return nil, err
	}
	tables := tablesOfAll * making
	if p.NoiseMultiplier != 0 {
		tables = 2 * making
	}
	samples := VerifySamples * o.Effort * o.CPU
	allowed := whole.total * o.CPU
	if whole.inTime() {
		allowed = max(0, whole.total-tables)
	}
	if p.Samples > 0 || p.CPUTime > 0 { // is used up
		samples = allowed
	}
	o.Least = max(leastSamples*o.Effort, 1)
	o.Advised, o.AdvisedCPU = samplesFor*o.Effort, samplesFor*o.Effort*o.CPU+tables
	o.Enough = 3*o.Least*o.CPU <= allowed || o.Effort == 0
	o.Ample = tables + VerifySamples/2*o.Effort*o.CPU
	if o.Enough {
		samples = min(samples, allowed)
		o.Expected = tables + samples
		if n := float64(len(p.AlsoEpsilon)); n > 0 {
			o.Expected += samples/2 + 4*n*making
		}
	}
	return o, nil
}

// near comes near the noise multiplier as a plan does.
func (c *calibrator) near(ctx context.Context, o *Outlook) error {
	start, err := c.start(ctx)
	if err != nil {
		return err
	}
	if o.Proven, err = c.unamplified(ctx); err != nil {
		return err
	}
	o.Unamplified = o.Proven > 0 && !c.run.Majorized()
	if err := c.estimate(ctx, start, Rough/Apart); err != nil && !errors.Is(err, ErrTooExpensive) {
		return err
	}
	for _, l := range c.searches[0].estimates {
		if sigma := l.Spec.NoiseMultiplier; c.isProven(l.divergence) && (o.Proven == 0 || sigma < o.Proven) {
			o.Proven, o.Unamplified = sigma, false
		}
	}
	if o.NoiseMultiplier = c.out.Estimate; o.NoiseMultiplier == 0 {
		estimates := c.searches[0].estimates
		o.NoiseMultiplier = math.Exp(estimates[len(estimates)-1].x)
	}
	return nil
}

// effort finds M/δ and the time of a sample at the outlook's noise multiplier, by the nearest estimate or
// by tables of its own, and returns the seconds that these take.
func (c *calibrator) effort(ctx context.Context, o *Outlook) (making float64, err error) {
	x := math.Log(o.NoiseMultiplier)
	for i, d := range montecarlo.Directions {
		s := c.searches[i]
		if s == nil {
			if s, err = c.newSearch(d, 0); err != nil {
				return 0, err
			}
		}
		l := s.nearest(x)
		if l == nil {
			if l, err = s.begin(ctx, x, s.tables); err != nil {
				return 0, err
			}
			s.estimates = append(s.estimates, l)
		}
		making += s.making
		if s.isExact(l) {
			continue
		}
		if s.each() == 0 && l.checkDrawn() == nil {
			if err := s.draw(ctx, l, Few); err != nil {
				return 0, err
			}
		}
		effort := l.bound() / c.Delta
		if d == montecarlo.Q { // whose divergence is mostly far below δ
			effort /= Few
		}
		o.CPU = (o.CPU*o.Effort + effort*s.each()) / (o.Effort + effort)
		o.Effort += effort
	}
	return making, nil
}
