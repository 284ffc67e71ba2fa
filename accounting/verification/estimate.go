package verification

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
	"minsep/sampling/stream"
)

// Estimate is an estimate of one divergence, never a certificate.
type Estimate struct {
	Direction montecarlo.Direction `json:"direction"` // P or Q
	Samples   uint64               `json:"samples"`   // 0: Mean is a proven bound, too small to matter
	Mean      float64              `json:"mean"`      // of the values, 0 to Bound
	StdErr    float64              `json:"std_err"`   // standard error of Mean, at most √(M·mean/samples); 0 for a proven bound
	Bound     float64              `json:"bound"`     // M, at least 0
	Effort    float64              `json:"effort"`    // M/δ: an estimate takes at least 10 times as many samples
	// Truncation is what truncated batches add to Mean (F3.11).
	Truncation float64 `json:"truncation,omitempty"`
}

// Delta is the estimate of the divergence with what truncation adds.
func (e Estimate) Delta() float64 { return e.Mean + e.Truncation }

// NoiseEstimate holds the estimates at one noise multiplier, one for each direction.
type NoiseEstimate struct {
	NoiseMultiplier float64     `json:"noise_multiplier"` // σ, above 0
	Estimates       [2]Estimate `json:"estimates"`        // in the order of montecarlo.Directions
}

// Delta is the estimate of δ: the worse direction.
func (l NoiseEstimate) Delta() float64 { return max(l.Estimates[0].Delta(), l.Estimates[1].Delta()) }

// usual is how many times M/δ samples an estimate takes: a relative standard error of 7 % where the divergence is δ.
const (
	usual        = 200
	leastSamples = 4000
	farAway      = 10 // from δ, by this factor: 10 M/δ samples show on which side
	fewest       = 50 // samples of an estimate, where the budget allows no more
)

// estimateSamples bounds an estimate where there is no budget: some ten seconds of one processor.
func estimateSamples(steps int) float64 { return math.Floor(2e9 / float64(2000+steps)) }

// TooFewError says how many samples something takes and how long that is here. It wraps accounting.ErrTooFewSamples.
type TooFewError struct {
	What    string        // what takes the samples, as the subject of a sentence
	Need    float64       // samples; 0 when that is not known
	Allowed float64       // samples, at least 0
	Budget  string        // of which these are what is left, in words; "" if there is none
	Each    time.Duration // a sample, on this machine; 0 when that is not known
	CPU     float64       // seconds of processors that a sample takes here; 0 when that is not known

	// Advised is a budget that is enough, in samples, and AdvisedCPU what it takes at least in seconds of processors; 0 when that
	// is not known.
	Advised, AdvisedCPU float64

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
		s += "; no verification has so many"
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
	run            accounting.Run // without truncation where its cost is added
	cost           func(noiseMultiplier float64, d montecarlo.Direction) (*accounting.Truncated, error)
	epsilon, delta float64
	limit          float64 // samples of one estimate
	workers        int
	share          share

	drawn    uint64
	measured uint64 // of these, only to know their time
	spent    time.Duration
	worked   time.Duration // of processors

	estimates int     // noise multipliers that were looked at
	tables    float64 // seconds of processors that their tables took

	watch func(Phase)
	doing string // the phase
	count int    // of the noise multipliers that were tried
}

// Phase is what is being done before there is a protocol, for people who wait for it.
type Phase struct {
	Text     string // such as "estimating σ: candidate 4, δ between 0.0012 and 0.0009"
	Done, Of uint64 // of this phase: samples or, while tables are made, those that are made; Of is 0 where it has none
}

func (e *estimator) report(p Phase) {
	e.doing = p.Text
	if e.watch != nil {
		e.watch(p)
	}
}

// eachCPU is how many seconds of processors a sample takes so far.
func (e *estimator) eachCPU() float64 {
	switch {
	case e.drawn == 0:
		return 0
	case e.worked > 0:
		return e.worked.Seconds() / float64(e.drawn)
	}
	return e.spent.Seconds() * float64(e.workers) / float64(e.drawn)
}

// each is the time of a sample so far, in wall time.
func (e *estimator) each() time.Duration {
	if e.drawn == 0 {
		return 0
	}
	return e.spent / time.Duration(e.drawn)
}

// look estimates both directions at one noise multiplier.
func (e *estimator) estimateAt(ctx context.Context, noiseMultiplier float64) (l NoiseEstimate, err error) {
	l.NoiseMultiplier = noiseMultiplier
	e.estimates++
	begin, worked := e.used(), e.worked
	defer func() { e.tables += e.used() - begin - (e.worked - worked).Seconds() }()
	for i, d := range montecarlo.Directions {
		s, err := newSide(e.run, noiseMultiplier, e.epsilon, d)
		if err != nil {
			return l, err
		}
		if s.cut, err = e.cost(noiseMultiplier, d); err != nil {
			return l, err
		}
		if l.Estimates[i], err = e.estimate(ctx, s); err != nil {
			return l, err
		}
	}
	return l, nil
}

// estimate draws at least 10 M/δ samples, or none where a proven bound says enough.
func (e *estimator) estimate(ctx context.Context, s side) (Estimate, error) {
	out := Estimate{Direction: s.direction, Bound: s.bound(), Effort: s.bound() / e.delta, Truncation: s.cost()}
	if s.divergence() <= e.delta/1000 {
		out.Bound, out.Mean, out.Effort = s.divergence(), s.divergence(), 0
		return out, nil
	}
	need := max(fewest, math.Ceil(10*out.Effort))
	if e.drawn == 0 && (e.share.seconds > 0 || need > min(e.limit, e.left())) {
		if _, err := e.time(ctx, s); err != nil {
			return out, err
		}
	}
	left := e.left()
	e.share.most = max(e.share.most, left)
	if need > min(e.limit, left) {
		return out, &TooFewError{What: fmt.Sprintf("an estimate for δ = %.3g at noise multiplier %.4g (10 M/δ, M = %.3g)", e.delta, s.spec.NoiseMultiplier, out.Bound),
			Need: need, Allowed: min(e.limit, left), Budget: e.share.budget, Each: e.each(), CPU: e.eachCPU(), Advised: advisedEstimates * need,
			AdvisedCPU: e.used() + advisedEstimates*need*e.eachCPU(),
			plain:      s.untilted, spent: left < fewest || need <= min(e.limit, e.share.most)}
	}
	worker, err := e.worker(s)
	if err != nil {
		return out, err
	}
	// The fewest samples say how many there must be. Each estimate takes a part of what the ones before it have left.
	out.Samples = uint64(max(need, min(leastSamples, left/12)))
	sum, err := e.draw(ctx, worker, 0, out.Samples)
	if err != nil {
		return out, err
	}
	out.Mean = sum.Mean(out.Samples) * out.Bound
	goal := usual * out.Bound / max(out.Mean, e.delta/4)
	switch far := max(out.Mean/e.delta, e.delta/out.Mean); {
	case far > farAway: // the direction is clear: more samples, which are many where M is large, say nothing that is of use
		goal = 0
	case out.Mean > 2*e.delta || out.Mean < e.delta/4:
		goal /= 5 // only the direction matters
	}
	if all := uint64(min(goal, e.limit, left/5)); all > out.Samples {
		more, err := e.draw(ctx, worker, out.Samples, all-out.Samples)
		if err != nil {
			return out, err
		}
		sum.Merge(more)
		out.Samples = all
		out.Mean = sum.Mean(all) * out.Bound
	}
	out.StdErr = math.Sqrt(out.Bound * out.Mean / float64(out.Samples))
	return out, nil
}

// worker draws with a key of the estimates.
func (e *estimator) worker(s side) (*Worker, error) {
	config, err := json.Marshal(tilt.Config{Spec: s.spec, Epsilon: s.epsilon, Direction: s.direction})
	if err != nil {
		return nil, fmt.Errorf("verification: %w", err)
	}
	return s.worker(stream.PublicKey("estimate", config))
}

// draw sums values over M, and keeps the time.
func (e *estimator) draw(ctx context.Context, w *Worker, first, count uint64) (montecarlo.Sum, error) {
	var sum montecarlo.Sum
	for done := uint64(0); done < count; {
		piece := min(count-done, e.piece())
		begin, worked := time.Now(), processorTime()
		r, err := w.Run(ctx, first+done, piece, e.workers)
		if err != nil {
			return sum, err
		}
		e.drawn, e.spent, e.worked = e.drawn+piece, e.spent+time.Since(begin), e.worked+processorTime()-worked
		sum.Merge(r.Sum)
		done += piece
		if e.watch != nil && e.doing != "" {
			e.watch(Phase{e.doing, done, count})
		}
	}
	return sum, nil
}

// piece is how many samples take about half a second, so that progress is told in time. It changes no sum.
func (e *estimator) piece() uint64 {
	const least = 4096
	if e.each() <= 0 {
		return least
	}
	return max(least, uint64(500*time.Millisecond/e.each()))
}

// time measures a sample.
func (e *estimator) time(ctx context.Context, s side) (time.Duration, error) {
	const few = 512
	worker, err := e.worker(s)
	if err != nil {
		return 0, err
	}
	before := e.spent
	_, err = e.draw(ctx, worker, 0, few)
	e.measured += few
	return (e.spent - before) / few, err
}

// gridRatio is that of the noise multipliers that are tried (arXiv 2602.09338, Algorithm 5).
const gridRatio = 1.01

func onGrid(j int) float64 { return math.Pow(gridRatio, float64(j)) }

func gridIndex(noiseMultiplier float64) int {
	return int(math.Round(math.Log(noiseMultiplier) / math.Log(gridRatio)))
}

// maxLooks bounds the search for a noise multiplier.
const maxLooks = 24

// search looks at noise multipliers of the grid, from the first on, until two neighbours, at most three grid steps apart, have δ on both sides
// of target. It returns the looks by rising noise multiplier. Where M is so large that an estimate takes too many samples, the
// noise multiplier counts as too small. Where the share of estimates in a budget is used up, it returns the looks that there are.
func (e *estimator) search(ctx context.Context, first int, target float64) (estimates []NoiseEstimate, err error) {
	slope := -0.15 // of ln δ by grid steps
	excess := func(l NoiseEstimate) float64 { return math.Log(max(l.Delta(), 1e-6*e.delta) / target) }
	low, high := math.MinInt, math.MaxInt // grid indices with δ above and at most target
	var atLow, atHigh float64             // excess there; +Inf where there is no estimate
	var tooFew error
	cheapest := math.Inf(1) // samples that an estimate takes
	next, up := first, 0    // up: where there is no estimate yet
	for range maxLooks {
		e.candidate(estimates)
		l, err := e.estimateAt(ctx, onGrid(next))
		var few *TooFewError
		value := math.Inf(1)
		switch {
		case errors.As(err, &few):
			tooFew = err
			if few.spent && nearest(estimates, target) <= fitReach { // what is known must do
				return estimates, nil
			}
			if few.plain || few.spent || high == math.MaxInt && few.Need > 0.9*cheapest && few.Need < 9.99/e.delta { // more noise does not help
				return nil, err
			}
			up = stepUp(few.Need, e.delta)
			cheapest = min(cheapest, few.Need)
		case err != nil:
			return nil, err
		default:
			estimates = insert(estimates, l)
			value = excess(l)
		}
		if value > 0 {
			low, atLow = next, value
			up = max(up, step(min(atLow, 3)/-slope))
		} else {
			high, atHigh = next, value
		}
		switch {
		case low == math.MinInt:
			next = high - min(mostDown(atHigh), step(atHigh/slope))
		case high == math.MaxInt:
			next, up = low+up, 0
		case high-low <= 3 && !math.IsInf(atLow, 1), high-low == 1:
			return e.widen(ctx, estimates, low, high)
		default:
			if !math.IsInf(atLow, 1) {
				slope = min(-0.02, (atHigh-atLow)/float64(high-low))
				next = low + int(math.Round(atLow/-slope))
			} else {
				next = max((low+high)/2, high-min(mostDown(atHigh), step(atHigh/slope)))
			}
			next = min(max(next, low+1), high-1)
		}
	}
	if tooFew != nil {
		return nil, tooFew
	}
	return nil, &ParamError{Package: "verification", Param: "delta", Value: e.delta,
		Rule: fmt.Sprintf("no noise multiplier was found for it at epsilon %g: its estimates do not cross it near %.4g; give another delta or epsilon, or a noise multiplier", e.epsilon, onGrid(next))}
}

// mostDown is how many steps of the grid to go down from an excess at most: M grows quickly on the way.
func mostDown(excess float64) int {
	if excess < -6 {
		return 16
	}
	return 8
}

// candidate reports that another noise multiplier is tried, and between which estimates of δ the target is.
func (e *estimator) candidate(estimates []NoiseEstimate) {
	e.count++
	text := fmt.Sprintf("estimating σ: candidate %d", e.count)
	above, below := math.Inf(1), 0.0
	for _, l := range estimates {
		if d := l.Delta(); d > e.delta {
			above = min(above, d)
		} else {
			below = max(below, d)
		}
	}
	switch {
	case below > 0 && !math.IsInf(above, 1):
		text += fmt.Sprintf(", δ between %.2g and %.2g", below, above)
	case below > 0:
		text += fmt.Sprintf(", δ above %.2g", below)
	case !math.IsInf(above, 1):
		text += fmt.Sprintf(", δ below %.2g", above)
	}
	e.report(Phase{Text: text})
}

// widen adds looks until they are far enough apart for a slope.
func (e *estimator) widen(ctx context.Context, estimates []NoiseEstimate, low, high int) ([]NoiseEstimate, error) {
	for _, j := range []int{low - 3, high + 4} {
		if len(estimates) > 1 && estimates[len(estimates)-1].NoiseMultiplier > estimates[0].NoiseMultiplier*math.Pow(gridRatio, 3.5) && estimates[0].Delta() > e.delta {
			break
		}
		e.candidate(estimates)
		l, err := e.estimateAt(ctx, onGrid(j))
		var few *TooFewError
		if errors.As(err, &few) {
			continue
		}
		if err != nil {
			return nil, err
		}
		estimates = insert(estimates, l)
	}
	return estimates, nil
}

// step is a number of grid steps to go where the target has not been passed yet: a little beyond the guess.
func step(guess float64) int {
	return int(min(40, max(1, math.Ceil(guess*1.1))))
}

// stepUp is how many grid steps to go up where an estimate takes too many samples: with M < 1, where plans take long, twice as many.
func stepUp(need, delta float64) int {
	if need < 9.99/delta {
		return 44
	}
	return 22
}

// insert keeps looks sorted by noise multiplier.
func insert(estimates []NoiseEstimate, l NoiseEstimate) []NoiseEstimate {
	i := 0
	for i < len(estimates) && estimates[i].NoiseMultiplier < l.NoiseMultiplier {
		i++
	}
	estimates = append(estimates, NoiseEstimate{})
	copy(estimates[i+1:], estimates[i:])
	estimates[i] = l
	return estimates
}

// fit is a line through ln δ by ln noise multiplier of the looks near δ.
type fit struct{ x, y, slope float64 }

// fitReach is how far ln δ of a look may be from the target for the line to go through it.
const fitReach = 1.5

func fitEstimates(estimates []NoiseEstimate, target float64) fit {
	var near []point
	for _, l := range inReach(estimates, target) {
		near = append(near, point{l.NoiseMultiplier, max(l.Delta(), 1e-300)})
	}
	return fitLine(near)
}

// inReach are the estimates that a line through the target may go through: those within fitReach of it or, where there are none, all.
func inReach(estimates []NoiseEstimate, target float64) []NoiseEstimate {
	if nearest(estimates, target) > fitReach {
		return estimates
	}
	var near []NoiseEstimate
	for _, l := range estimates {
		if l.distance(target) <= fitReach {
			near = append(near, l)
		}
	}
	return near
}

// nearest is how far ln δ of the estimate closest to the target is from it, +Inf without estimates.
func nearest(estimates []NoiseEstimate, target float64) float64 {
	least := math.Inf(1)
	for _, l := range estimates {
		least = min(least, l.distance(target))
	}
	return least
}

// distance is |ln(δ/target)|.
func (l NoiseEstimate) distance(target float64) float64 {
	return math.Abs(math.Log(max(l.Delta(), 1e-300) / target))
}

// point is a value at a noise multiplier.
type point struct{ noiseMultiplier, value float64 }

// fitLine fits a line to at least one point.
func fitLine(points []point) fit {
	var x, y, xx, xy float64
	n := float64(len(points))
	for _, p := range points {
		s, d := math.Log(p.noiseMultiplier), math.Log(p.value)
		x, y, xx, xy = x+s, y+d, xx+s*s, xy+s*d
	}
	f := fit{x: x / n, y: y / n, slope: flattest}
	if spread := xx - x*x/n; spread > 1e-12 {
		f.slope = min(f.slope, (xy-x*y/n)/spread)
	}
	return f
}

// flat is a line of one value.
func flat(value float64) fit { return fit{y: math.Log(value)} }

// flattest is a slope flatter than any in use: the errors of estimates close to each other must not turn the line around.
const flattest = -2

// at is the noise multiplier at which the line has so large a value.
func (f fit) at(value float64) float64 {
	return math.Exp(f.x + (math.Log(value)-f.y)/f.slope)
}

// value is that of the line at a noise multiplier.
func (f fit) value(noiseMultiplier float64) float64 {
	return math.Exp(f.y + f.slope*(math.Log(noiseMultiplier)-f.x))
}
