package verification

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
	"minsep/accounting/search"
	"minsep/sampling/stream"
)

// Estimate is an estimate of one divergence, never a certificate.
type Estimate struct {
	Direction montecarlo.Direction `json:"direction"` // P or Q
	Samples   uint64               `json:"samples"`   // 0: Mean is a proven bound, too small to matter
	Mean      float64              `json:"mean"`      // of the values, 0 to Bound
	StdErr    float64              `json:"std_err"`   // standard error of Mean, at most √(M·mean/samples); 0 for a proven bound
	Bound     float64              `json:"bound"`     // M, at least 0
	Effort    float64              `json:"effort"`    // M/δ: an estimate takes several times as many samples
	// Truncation is the cost of truncated batches, which adds to Mean (F3.11).
	Truncation float64 `json:"truncation,omitempty"`
}

// Delta is the estimate of the divergence plus the cost of truncation.
func (e Estimate) Delta() float64 { return e.Mean + e.Truncation }

// NoiseEstimate holds the estimates at one noise multiplier, one for each direction.
type NoiseEstimate struct {
	NoiseMultiplier float64     `json:"noise_multiplier"` // σ, above 0
	Estimates       [2]Estimate `json:"estimates"`        // in the order of montecarlo.Directions
}

// Delta is the estimate of δ: the worse direction.
func (l NoiseEstimate) Delta() float64 { return max(l.Estimates[0].Delta(), l.Estimates[1].Delta()) }

// estimateSamples bounds an estimate where there is no budget: some ten seconds of one processor.
func estimateSamples(steps int) float64 { return float64(DefaultSamples(steps)) }

// TooFewError has the number of samples that some work takes, and their time on this machine. It
// wraps accounting.ErrTooFewSamples.
type TooFewError struct {
	What    string        // the work that takes the samples, as the subject of a sentence
	Need    float64       // samples; 0 when that is not known
	Allowed float64       // samples, at least 0
	Budget  string        // the whole budget, in words; Allowed is the rest of it; "" if there is none
	Each    time.Duration // a sample, on this machine; 0 when that is not known
	CPU     float64       // seconds of processors that a sample takes here; 0 when that is not known

	// Advised is a budget that is enough, in samples, and AdvisedCPU its least cost in seconds
	// of processors; 0 when that is not known.
	Advised, AdvisedCPU float64

	// Proven is a noise multiplier that needs no samples, since it needs no amplification either; 0
	// if none is known.
	Proven float64

	Cause error // says all but the time, if it is not nil

	plain bool // samples are plain losses, whatever the noise
	spent bool // an estimate that the share of estimates was enough for at first
}

func (e *TooFewError) Error() string {
	s := fmt.Sprintf("verification: too few samples: %s takes at least %.3g samples, and %.3g are allowed", e.What, e.Need, e.Allowed)
	if e.Budget != "" {
		s = fmt.Sprintf("verification: too few samples: %s takes at least %.3g samples, and the budget, %s, leaves %.2g", e.What, e.Need, e.Budget, math.Floor(e.Allowed))
	}
	if e.Cause != nil {
		s = e.Cause.Error()
	}
	switch {
	case e.Need > maxBudget:
		s += "; no verification can draw so many"
	case e.Need > 0 && e.Each > 0:
		s += fmt.Sprintf("; on this machine they take about %s", roughly(e.Need*e.Each.Seconds()))
		if e.CPU > 0 {
			s += fmt.Sprintf(", or %s of one processor", roughly(e.Need*e.CPU))
		}
	}
	return s
}

func (e *TooFewError) Unwrap() error { return accounting.ErrTooFewSamples }

// roughly writes a time in words of two digits.
func roughly(seconds float64) string {
	switch {
	case seconds < 100:
		return fmt.Sprintf("%.2g s", seconds)
	case seconds < 6000:
		return fmt.Sprintf("%.2g min", seconds/60)
	case seconds < 48*3600:
		return fmt.Sprintf("%.2g h", seconds/3600)
	}
	return fmt.Sprintf("%.2g days", seconds/86400)
}

// estimator estimates δ at noise multipliers.
type estimator struct {
	last           map[montecarlo.Direction]hockeyStick // of the noise multiplier that was looked at last
	stick          func(ctx context.Context, noiseMultiplier float64, d montecarlo.Direction) (hockeyStick, error)
	cut            func(noiseMultiplier float64, d montecarlo.Direction) (*accounting.Truncated, error)
	epsilon, delta float64
	scale          *search.Scale // of the claim
	limit          float64       // samples of one estimate
	workers        int
	share          share

	cost             // of all samples
	of       [2]cost // cost of the samples of each direction
	measured uint64  // samples of all that were drawn only to know their time

	kept keptSampler

	estimates int     // noise multipliers that were looked at
	tables    float64 // seconds of processors that their tables took

	watch func(Phase)
	doing string // the phase
	count int    // of the noise multipliers that were tried
}

// Phase is the work in progress before there is a protocol, for people who wait for it.
type Phase struct {
	Text     string // such as "estimating σ: candidate 4, δ between 0.0012 and 0.0009"
	Done, Of uint64 // of this phase: samples or, while tables are made, those that are made; Of is 0 where it has none

	// Left is how many seconds of processors this work may still take, with the work that shares
	// its part of the budget; 0 where nothing limits it.
	Left float64
}

func (e *estimator) report(p Phase) {
	e.doing = p.Text
	if e.watch != nil {
		e.watch(p)
	}
}

// cost is the time that samples took.
type cost struct {
	drawn  uint64        // samples
	spent  time.Duration // of a clock on the wall
	worked time.Duration // of processors
}

func (c *cost) add(samples uint64, spent, worked time.Duration) {
	c.drawn, c.spent, c.worked = c.drawn+samples, c.spent+spent, c.worked+worked
}

// each is the average time of a sample so far, in seconds of processors. Without a clock of
// processors it is the time on the wall times workers.
func (c cost) each(workers int) float64 {
	switch {
	case c.drawn == 0:
		return 0
	case c.worked > 0:
		return c.worked.Seconds() / float64(c.drawn)
	}
	return c.spent.Seconds() * float64(workers) / float64(c.drawn)
}

// eachCPU is how many seconds of processors a sample takes so far.
func (e *estimator) eachCPU() float64 { return e.cost.each(e.workers) }

// weights are the cost of a sample of each direction, over the mean cost of all samples drawn:
// tilted samples take several times as long as plain ones. A budget in samples counts them.
func (e *estimator) weights() weights {
	w := weights{1, 1}
	if e.share.seconds == 0 {
		return w
	}
	for i, of := range e.of {
		if each := of.each(e.workers); each > 0 {
			w[i] = each / e.eachCPU()
		}
	}
	return w
}

// each is the time of a sample so far, in wall time.
func (e *estimator) each() time.Duration {
	if e.drawn == 0 {
		return 0
	}
	return e.spent / time.Duration(e.drawn)
}

// estimateAt estimates both directions at one noise multiplier.
func (e *estimator) estimateAt(ctx context.Context, noiseMultiplier float64) (l NoiseEstimate, err error) {
	l.NoiseMultiplier = noiseMultiplier
	e.estimates++
	begin, worked := e.used(), e.worked
	defer func() { e.tables += e.used() - begin - (e.worked - worked).Seconds() }()
	for i, d := range montecarlo.Directions {
		s, known := e.last[d]
		if !known || s.spec.NoiseMultiplier != noiseMultiplier {
			if s, err = e.stick(ctx, noiseMultiplier, d); err != nil {
				return l, err
			}
			if s.cut, err = e.cut(noiseMultiplier, d); err != nil {
				return l, err
			}
			e.last[d] = s
		}
		// Where the first direction says that the noise is too little, the other one decides
		// nothing.
		brief := i > 0 && l.Estimates[0].Delta()-search.Apart*l.Estimates[0].StdErr > e.delta
		if l.Estimates[i], err = e.estimate(ctx, s, leastEfforts[i], brief); err != nil {
			return l, err
		}
	}
	return l, nil
}

// estimate draws samples until the error of ln σ is at most tolerance, in its part of the budget:
// at least `least` times M/δ, or none where a proven bound says enough. A brief estimate draws
// leastSamples at most.
func (e *estimator) estimate(ctx context.Context, s hockeyStick, least float64, brief bool) (Estimate, error) {
	out := Estimate{Direction: s.direction, Bound: s.bound(), Effort: s.bound() / e.delta, Truncation: s.cost()}
	if s.divergence() <= search.Negligible*e.delta {
		out.Bound, out.Mean, out.Effort = s.divergence(), s.divergence(), 0
		return out, nil
	}
	need := max(fewest, math.Ceil(least*out.Effort))
	if brief {
		need = fewest
	}
	if e.drawn == 0 && (e.share.seconds > 0 || need > min(e.limit, e.left())) {
		if _, err := e.time(ctx, s); err != nil {
			return out, err
		}
	}
	left := e.left() / e.weights()[direction(s.direction)]
	e.share.most = max(e.share.most, left)
	if need > min(e.limit, left) {
		return out, &TooFewError{What: fmt.Sprintf("an estimate for δ = %.3g at noise multiplier %.4g (%g M/δ, M = %.3g)", e.delta, s.spec.NoiseMultiplier, least, out.Bound),
			Need: need, Allowed: min(e.limit, left), Budget: e.share.budget, Each: e.each(), CPU: e.eachCPU(), Advised: advisedEstimates * need,
			AdvisedCPU: e.used() + advisedEstimates*need*e.eachCPU(),
			plain:      s.untilted, spent: left < fewest || need <= min(e.limit, e.share.most)}
	}
	worker, err := e.worker(s)
	if err != nil {
		return out, err
	}
	// The samples say how many there must be. Each estimate takes a part of the budget that the
	// ones before it have left.
	most := max(need, min(e.limit, left/estimateParts))
	if brief {
		most = min(most, max(need, leastSamples))
	}
	return e.drawUntil(ctx, out, worker, uint64(max(need, min(leastSamples, most))), func(out Estimate) (uint64, bool) {
		want, done := e.scale.More(out.drawn(s.spec.NoiseMultiplier), tolerance)
		return min(want, uint64(most)), done
	})
}

// drawUntil draws the samples of an estimate. It begins with first samples, and goes on to the
// total that more returns. It ends when it has this total, or when more says that the samples are
// enough.
func (e *estimator) drawUntil(ctx context.Context, out Estimate, w sampler, first uint64, more func(Estimate) (want uint64, enough bool)) (Estimate, error) {
	var sum montecarlo.Sum
	for want, enough := first, false; !enough && want > out.Samples; {
		part, err := e.draw(ctx, out.Direction, w, out.Samples, want-out.Samples)
		if err != nil {
			return out, err
		}
		sum.Merge(part)
		out.Samples, out.Mean = want, sum.Mean(want)*out.Bound
		out.StdErr = math.Sqrt(out.Bound * out.Mean / float64(want))
		want, enough = more(out)
	}
	return out, nil
}

// worker draws with a key of the estimates. The last one is kept, since its tables may take
// seconds.
func (e *estimator) worker(s hockeyStick) (sampler, error) {
	config, err := json.Marshal(tilt.Config{Spec: s.spec, Epsilon: s.epsilon, Direction: s.direction})
	if err != nil {
		return nil, fmt.Errorf("verification: %w", err)
	}
	if e.kept.sampler != nil && e.kept.config == string(config) {
		return e.kept.sampler, nil
	}
	e.kept = keptSampler{} // its tables go before there are others
	w, err := s.worker(stream.PublicKey("estimate", config))
	if err == nil {
		e.kept = keptSampler{string(config), w}
	}
	return w, err
}

// keptSampler is the sampler of a divergence.
type keptSampler struct {
	config string // of the divergence, in JSON
	sampler
}

// draw sums values over M of a direction, and keeps the time.
func (e *estimator) draw(ctx context.Context, d montecarlo.Direction, w sampler, first, count uint64) (montecarlo.Sum, error) {
	var sum montecarlo.Sum
	for done := uint64(0); done < count; {
		piece := min(count-done, e.piece())
		begin, worked := time.Now(), e.share.clock()
		r, err := w.Run(ctx, first+done, piece, e.workers)
		if err != nil {
			return sum, err
		}
		spent, busy := time.Since(begin), e.share.clock()-worked
		e.of[direction(d)].add(piece, spent, busy)
		e.cost.add(piece, spent, busy)
		sum.Merge(r.Sum)
		done += piece
		if e.watch != nil && e.doing != "" {
			e.watch(Phase{Text: e.doing, Done: done, Of: count, Left: e.timeLeft(e.share.seconds)})
		}
	}
	return sum, nil
}

// piece is the number of samples that take about half a second, so that progress is told in time.
// It changes no sum.
func (e *estimator) piece() uint64 {
	if e.each() <= 0 {
		return leastSamples
	}
	return max(leastSamples, uint64(500*time.Millisecond/e.each()))
}

// time measures a sample.
func (e *estimator) time(ctx context.Context, s hockeyStick) (time.Duration, error) {
	worker, err := e.worker(s)
	if err != nil {
		return 0, err
	}
	before := e.spent
	_, err = e.draw(ctx, s.direction, worker, 0, fewTimed)
	e.measured += fewTimed
	return (e.spent - before) / fewTimed, err
}
