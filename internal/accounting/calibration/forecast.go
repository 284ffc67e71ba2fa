package calibration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"minsep/internal/accounting"
	"minsep/internal/digits"
	"minsep/internal/montecarlo/tilt"
)

// Forecast is what a verification by samples takes, about. It certifies nothing.
type Forecast struct {
	NoiseMultiplier float64 `json:"noise_multiplier,omitempty"`     // σ near the one that comes out, or the given one; 0 if none was found
	Effort          float64 `json:"effort,omitempty"`               // M/δ there, at least 0, of both directions
	CPU             float64 `json:"cpu_seconds_a_sample,omitempty"` // seconds of processors that a sample takes, about; 0 if that is not known
	Need            float64 `json:"least_samples,omitempty"`        // samples; 0 if that is not known

	// A budget that is enough, in samples and in seconds of processors; 0 if that is not known.
	Advised    float64 `json:"advised_samples,omitempty"`
	AdvisedCPU float64 `json:"advised_cpu_seconds,omitempty"`

	// Proven is a noise multiplier that needs no samples; 0 if none is known. If it needs no
	// amplification either, it is certified only if it is given, or hardly more than was estimated.
	Proven      float64 `json:"proven_noise_multiplier,omitempty"`
	Unamplified bool    `json:"proven_without_amplification,omitempty"`

	tables float64 // seconds of processors that the tables of one noise multiplier take
}

// Outlook is a forecast of a verification, by the estimates and tables that a plan begins with.
type Outlook struct {
	Forecast

	// Samples is false if the method needs none; then only Expected is set.
	Samples bool `json:"samples"`

	Budget   string  `json:"budget,omitempty"`               // in words
	Expected float64 `json:"expected_cpu_seconds,omitempty"` // about how many seconds of processors the whole takes, with additional ε, which come on top of a budget; 0 if that is not known
	Enough   bool    `json:"enough"`                         // whether the budget allows the samples that are needed

	// Ample is a budget in seconds of processors with which up to .85 δ is accepted; a smaller one
	// costs noise. 0 if no samples are drawn.
	Ample float64 `json:"-"`
}

// Refused says that a verification would end without a certificate.
func (o Outlook) Refused() bool { return o.Samples && !o.Enough && (o.Proven == 0 || o.Unamplified) }

// Hopeless says that more samples are needed than any verification may have.
func (o Outlook) Hopeless() bool { return o.Need > maxBudget }

// ProvenSeconds is about how many seconds of processors a verification without samples takes at most.
const ProvenSeconds = 2

// Outlook says what a verification takes, in a few seconds of a processor. near is a noise
// multiplier near the one that comes out, 0 to look for it as a plan does.
func (p Problem) Outlook(ctx context.Context, near float64) (*Outlook, error) {
	const seconds = 1.5 // of processors that the search for the noise multiplier may take, about
	if err := p.Validate(); err != nil {
		return nil, err
	}
	method, err := p.Run.Method()
	if err != nil || WithoutSamples(method) {
		return &Outlook{Expected: ProvenSeconds}, err
	}
	c, err := p.begin(p.Run.Sampler.Truncation != nil)
	if err != nil {
		return nil, err
	}
	o := &Outlook{Samples: true, Budget: c.budget()}
	total := c.total
	if c.inTime() {
		c.total = min(c.total, seconds/estimateShare)
		for _, s := range c.searches {
			s.tables = c.candidateTables()
		}
	}
	if near = max(near, p.NoiseMultiplier); near == 0 {
		start, err := c.start(ctx)
		if err != nil {
			return nil, err
		}
		if err := c.estimate(ctx, start, Rough/Apart); err != nil && !errors.Is(err, ErrTooExpensive) {
			return nil, err
		}
		last := c.searches[0].estimates[len(c.searches[0].estimates)-1]
		if near = c.out.Estimate; near == 0 {
			near = last.Spec.NoiseMultiplier
		}
	}
	o.Forecast, err = c.forecast(ctx, near)
	if errors.Is(err, tilt.ErrTable) {
		return o, nil
	}
	if err != nil {
		return nil, err
	}
	// A verification makes tables for estimates, for candidates, and for the workers that draw samples.
	tables := 7 * o.tables
	if p.NoiseMultiplier != 0 {
		tables = 2 * o.tables
	}
	samples, allowed := ample*o.Effort*o.CPU, total*o.CPU
	if c.inTime() {
		allowed = max(0, total-tables)
	}
	if p.Samples > 0 || p.CPUTime > 0 { // is used up
		samples = allowed
	}
	o.AdvisedCPU += tables
	o.Ample = tables + ample/2*o.Effort*o.CPU
	if o.Enough = 3*o.Need*o.CPU <= allowed || o.Effort == 0; o.Enough {
		samples = min(samples, allowed)
		o.Expected = tables + samples
		if n := float64(len(p.AlsoEpsilon)); n > 0 {
			o.Expected += samples/2 + 4*n*o.tables
		}
	}
	return o, nil
}

// forecast is what a verification near a noise multiplier takes, by the nearest estimates or by tables of
// its own.
func (c *calibrator) forecast(ctx context.Context, sigma float64) (f Forecast, err error) {
	f.NoiseMultiplier = sigma
	f.Proven, f.Unamplified = c.gaussian, c.gaussian > 0 && !c.run.Majorized()
	for i, s := range c.searches {
		d := s.nearest(math.Log(sigma))
		if d == nil {
			if d, err = s.begin(ctx, roundUp(sigma), s.tables); err != nil {
				return f, err
			}
			s.estimates = append(s.estimates, d)
		}
		f.tables += s.making
		for _, d := range s.estimates {
			if x := d.Spec.NoiseMultiplier; i == 0 && c.isProven(d) && (f.Proven == 0 || x < f.Proven) {
				f.Proven, f.Unamplified = x, false
			}
		}
		if s.isExact(d) {
			continue
		}
		if s.seconds() == 0 && d.checkDrawn() == nil {
			if err := s.draw(ctx, d, fewest); err != nil {
				return f, err
			}
		}
		effort := d.bound() / c.Delta
		if i == 1 { // its divergence is mostly far below δ
			effort /= Few
		}
		f.CPU = (f.CPU*f.Effort + effort*s.seconds()) / (f.Effort + effort)
		f.Effort += effort
	}
	f.Need = max(Apart*Apart*f.Effort, 1)
	f.Advised, f.AdvisedCPU = advised*f.Effort, advised*f.Effort*f.CPU
	return f, nil
}

// tooFew is the error of a budget that leaves too few samples: with a larger one that is enough, and the
// noise multiplier that needs no samples.
func (c *calibrator) tooFew(ctx context.Context, err error) error {
	sigma := cmp.Or(c.NoiseMultiplier, c.out.Estimate)
	if p := c.searches[0].estimates; sigma == 0 && len(p) > 0 {
		sigma = p[len(p)-1].Spec.NoiseMultiplier
	}
	f, failed := c.forecast(ctx, sigma)
	if failed != nil {
		return errors.Join(err, failed)
	}
	if undrawn := c.searches[0].nearest(math.Log(sigma)).checkDrawn(); undrawn != nil { // no budget helps
		return &TooFewError{Forecast: Forecast{Proven: f.Proven, Unamplified: f.Unamplified}, What: undrawn.Error()}
	}
	few := &TooFewError{Forecast: f, What: "an estimate", Budget: c.budget()}
	if len(c.known) > 0 && !errors.Is(err, ErrTooExpensive) {
		pair := c.known[0]
		for _, other := range c.known {
			if other[0].x() > pair[0].x() {
				pair = other
			}
		}
		of := func(d *divergence) accounting.Goal { return accounting.Goal{Bound: d.bound(), Mean: c.Delta / 2} }
		_, tests, failed := c.claim().Allocate([]accounting.Goal{of(pair[0]), of(pair[1])})
		if failed != nil {
			return err
		}
		few.What = fmt.Sprintf("a verification of noise multiplier %.4g", pair[0].Spec.NoiseMultiplier)
		few.Need = float64(tests[0].Samples + tests[1].Samples)
		few.Advised = 1.2 * few.Need / (1 - estimateShare)
		few.AdvisedCPU = few.Advised * few.CPU
		if c.NoiseMultiplier != 0 && few.Need*c.each(0) <= c.left(1) { // samples are not what is missing
			return fmt.Errorf(
				"%w: at noise multiplier %g, delta at epsilon %g is estimated to be too near %g, or above it, for a verification",
				ErrEstimatedAbove,
				c.NoiseMultiplier,
				c.Epsilon,
				c.Delta,
			)
		}
	}
	if c.inTime() {
		few.AdvisedCPU = max(few.AdvisedCPU+c.used(), 1.5*c.total)
	}
	return few
}

// budget is the budget in words.
func (c *calibrator) budget() string {
	switch {
	case c.Samples > 0:
		return fmt.Sprintf("%d samples", c.Samples)
	case c.CPUTime > 0:
		return fmt.Sprintf("%v of one processor", c.CPUTime)
	}
	return fmt.Sprintf("%v of one processor, the default", DefaultCPUTime)
}

// TooFewError has the number of samples that some work takes, and their time on this machine. It
// wraps accounting.ErrTooFewSamples.
type TooFewError struct {
	Forecast
	What   string // the work that takes the samples, as the subject of a sentence; why there are none if Need is 0
	Budget string // the whole budget, in words
}

func (e *TooFewError) Error() string {
	if e.Need == 0 {
		return "too few samples: " + e.What
	}
	s := fmt.Sprintf(
		"too few samples: %s takes at least %.3g samples, which the budget, %s, does not leave",
		e.What,
		e.Need,
		e.Budget,
	)
	switch {
	case e.Need > maxBudget:
		s += "; no verification can draw so many"
	case e.Need > 0 && e.CPU > 0:
		s += fmt.Sprintf("; on this machine they take about %v of one processor", time.Duration(digits.Up(e.Need*e.CPU, 2)*float64(time.Second)))
	}
	return s
}

func (e *TooFewError) Unwrap() error { return accounting.ErrTooFewSamples }
