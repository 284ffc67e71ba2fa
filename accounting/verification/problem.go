package verification

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
	"minsep/internal/param"
)

// ParamError is a parameter whose value breaks a rule.
type ParamError = param.Error

// Problem is a claim to be verified: (Epsilon, Delta)-differential privacy of a run.
type Problem struct {
	Run     accounting.Run
	Unit    accounting.Unit // "" for accounting.UnitOwner
	Epsilon float64
	Delta   float64

	// NoiseMultiplier is the only candidate; 0 looks for the smallest.
	NoiseMultiplier float64

	// Samples is the budget of the verification, over all candidates and both directions; 0 is for what DefaultSamples says.
	Samples uint64

	// Accept is the part of δ up to which means are accepted, δ'/δ, where Samples is 0: whatever it takes. 0 is for the default,
	// which is 0.9 where DefaultSamples allows it.
	Accept float64

	Earlier     []accounting.Earlier // protocols for the same run whose samples were seen
	CodeVersion string
	PlanSHA256  string

	// Workers is the number of goroutines for estimates, 0 for one a processor. It changes no result.
	Workers int
}

// protocolUnit is the unit as a protocol has it: nothing for the default.
func (p Problem) protocolUnit() accounting.Unit {
	if p.Unit == accounting.UnitOwner {
		return ""
	}
	return p.Unit
}

// Validate reports every fault. It does not say whether the combination can be accounted for.
func (p Problem) Validate() error {
	c := param.Checker{Package: "verification"}
	c.Add(p.Run.Validate())
	c.Require(p.Epsilon >= 0 && !math.IsInf(p.Epsilon, 1), "epsilon", p.Epsilon, "must be a finite number, at least 0")
	c.Require(p.Delta >= 1e-300 && p.Delta < 1, "delta", p.Delta, "must be at least 1e-300 and below 1")
	c.Require(p.Accept >= 0 && p.Accept < 1, "accept", p.Accept, "must be at least 0 and below 1")
	c.Require(p.Accept == 0 || p.Samples == 0, "accept and samples", p.Accept, "only one of them may be given")
	if p.NoiseMultiplier != 0 {
		c.Positive("noise multiplier", p.NoiseMultiplier)
	}
	return c.Err()
}

// Row is one line of the table of noise multipliers against samples: what one candidate costs whose estimated δ is just accepted.
type Row struct {
	Accept          float64 `json:"accept"` // δ'
	NoiseMultiplier float64 `json:"noise_multiplier"`
	Samples         float64 `json:"samples"`
	Seconds         float64 `json:"seconds"` // on this machine, about
}

// Plan is what there is to know before the first sample of a verification.
type Plan struct {
	Protocol *accounting.Protocol
	Method   accounting.Method
	// Estimate is the estimated smallest noise multiplier, without any slack for the verification; 0 where none was made. For proven
	// methods it is that of the protocol.
	Estimate float64
	Looks    []Look
	Table    []Row
	// Each is the time of one sample on this machine, 0 if not known.
	Each time.Duration
}

// ErrNotPrivate says that a given noise multiplier was proven to be too small, or could not be proven to be enough by a method that knows no
// samples. It wraps accounting.ErrNotVerified.
var ErrNotPrivate = fmt.Errorf("%w by the bound", accounting.ErrNotVerified)

// Plan chooses candidates and thresholds. Its errors wrap accounting.RefusedError where no analysis is known, accounting.ErrTooFewSamples where
// the budget is too small, and accounting.ErrNotVerified where the given noise multiplier is not enough.
func (p Problem) Plan(ctx context.Context) (*Plan, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	method, err := p.Run.Method()
	if err != nil {
		return nil, err
	}
	out := &Plan{Method: method}
	if method == accounting.ClosedForm || method == accounting.PLD {
		return out, p.proven(out)
	}
	e := &estimator{run: p.Run, epsilon: p.Epsilon, delta: p.Delta, workers: p.Workers}
	if e.workers <= 0 {
		e.workers = runtime.GOMAXPROCS(0)
	}
	e.limit = max(estimateSamples(p.steps()), float64(p.Samples)/4)
	if p.NoiseMultiplier != 0 {
		err = p.fixed(ctx, e, out)
	} else {
		err = p.calibrated(ctx, e, out)
	}
	out.Each = e.each()
	if p.Run.Majorized() && errors.Is(err, accounting.ErrTooFewSamples) { // without samples the claim costs more noise, but it can be made
		without := &Plan{Method: accounting.PLD, Looks: out.Looks, Table: out.Table, Each: out.Each}
		if p.proven(without) == nil {
			return without, nil
		}
	}
	return out, err
}

func (p Problem) steps() int { return p.Run.Sampler.Scheme().NumSteps() }

// protocol is one without candidates.
func (p Problem) protocol(t accounting.Thresholds) *accounting.Protocol {
	return &accounting.Protocol{Format: 1, Run: p.Run, Unit: p.protocolUnit(), CodeVersion: p.CodeVersion, PlanSHA256: p.PlanSHA256,
		Points: []accounting.Point{{Epsilon: p.Epsilon, Delta: p.Delta, Thresholds: t}}}
}

// proven finds the smallest noise multiplier whose δ is proven without samples.
func (p Problem) proven(out *Plan) error {
	bounds := func(sigma float64) (b [2]float64, err error) {
		pq, qp, err := p.Run.Prove(sigma, p.Epsilon)
		return [2]float64{pq.Upper, qp.Upper}, err
	}
	sigma := p.NoiseMultiplier
	if sigma == 0 {
		least, err := p.Run.Calibrate(p.Epsilon, p.Delta)
		if err != nil {
			return err
		}
		sigma = least.Upper
	}
	out.Estimate = sigma
	b, err := bounds(sigma)
	if err != nil {
		return err
	}
	if most := max(b[0], b[1]); most > p.Delta {
		return fmt.Errorf("%w: at noise multiplier %g the bound of delta at epsilon %g is %.6g, above %g", ErrNotPrivate, sigma, p.Epsilon, most, p.Delta)
	}
	out.Protocol = p.protocol(accounting.Thresholds{Verify: p.Delta})
	out.Protocol.Candidates = []accounting.Candidate{{NoiseMultiplier: sigma, Trials: []accounting.Trial{
		{Direction: montecarlo.P, Method: out.Method, Bound: b[0]},
		{Direction: montecarlo.Q, Method: out.Method, Bound: b[1]},
	}}}
	return nil
}

// DefaultSamples is the budget where none is given: as many samples as take a minute or less of one processor.
func DefaultSamples(steps int) uint64 { return uint64(1.5e9 / float64(2000+steps)) }

// defaultShare is the part of δ up to which the default budget raises δ': beyond it samples buy little.
const defaultShare = 0.9

func (p Problem) claim() accounting.Claim {
	c := accounting.Claim{Delta: p.Delta}
	for _, e := range p.Earlier {
		c.Earlier += e.FailureProbability
	}
	return c
}

// spend chooses thresholds for trials of the given bounds.
func (p Problem) spend(bounds []float64) (accounting.Thresholds, []uint64, error) {
	claim := p.claim()
	budget := p.Samples
	if p.Accept > 0 {
		return claim.Samples(p.Accept*(p.Delta-claim.Earlier), bounds)
	}
	if budget == 0 {
		budget = DefaultSamples(p.steps())
		t, samples, err := claim.Samples(defaultShare*(p.Delta-claim.Earlier), bounds)
		total := 0.0
		for _, s := range samples {
			total += float64(s)
		}
		if err == nil && total <= float64(budget) {
			return t, samples, nil
		}
	}
	return claim.Spend(bounds, budget)
}

// fixed makes the protocol for the given noise multiplier.
func (p Problem) fixed(ctx context.Context, e *estimator, out *Plan) error {
	sides, err := p.sides([]float64{p.NoiseMultiplier})
	if err != nil {
		return err
	}
	out.Protocol, err = p.fix(sides, out.Method)
	if errors.Is(err, accounting.ErrTooFewSamples) {
		return e.timed(ctx, sides[0], err)
	}
	return err
}

// timed adds the time of a sample here to an error about too few of them.
func (e *estimator) timed(ctx context.Context, pair [2]side, err error) error {
	worst := pair[0]
	if pair[1].bound() > worst.bound() {
		worst = pair[1]
	}
	each, fault := e.time(ctx, worst)
	if fault != nil {
		return errors.Join(err, fault)
	}
	return fmt.Errorf("%w; on this machine 1e6 samples take about %s", err, roughly(1e6*each.Seconds()))
}

func (p Problem) sides(sigmas []float64) (sides [][2]side, err error) {
	for _, sigma := range sigmas {
		var pair [2]side
		for i, d := range montecarlo.Directions {
			if pair[i], err = newSide(p.Run, sigma, p.Epsilon, d); err != nil {
				return nil, err
			}
		}
		if p.Run.Majorized() {
			pq, qp, err := p.Run.Prove(sigma, p.Epsilon)
			if err != nil {
				return nil, err
			}
			pair[0].composed, pair[1].composed = pq.Upper, qp.Upper
		}
		sides = append(sides, pair)
	}
	return sides, nil
}

// fix makes the protocol of candidates by rising noise multiplier.
func (p Problem) fix(sides [][2]side, method accounting.Method) (*accounting.Protocol, error) {
	var all []side
	for _, pair := range sides {
		all = append(all, pair[0], pair[1])
	}
	// A proven divergence of at most δ_v needs no samples. Where δ_v comes out below it, the trial draws after all.
	bounds := make([]float64, len(all))
	for i, s := range all {
		bounds[i] = s.bound()
		if s.divergence() < p.Delta-p.claim().Earlier {
			bounds[i] = s.divergence()
		}
	}
	var thresholds accounting.Thresholds
	var samples []uint64
	for again := true; again; {
		var err error
		if thresholds, samples, err = p.spend(bounds); err != nil {
			return nil, err
		}
		again = false
		for i, s := range all {
			if samples[i] > 0 && bounds[i] < s.bound() {
				bounds[i], again = s.bound(), true
			}
		}
	}
	protocol := p.protocol(thresholds)
	drawn := false
	for i := 0; i < len(all); i += 2 {
		c := accounting.Candidate{NoiseMultiplier: all[i].spec.NoiseMultiplier}
		for j := i; j < i+2; j++ {
			t, err := all[j].trial(method, samples[j])
			if err != nil {
				return nil, err
			}
			drawn = drawn || t.Samples > 0
			c.Trials = append(c.Trials, t)
		}
		protocol.Candidates = append(protocol.Candidates, c)
	}
	if drawn {
		protocol.KernelID, protocol.Earlier = montecarlo.KernelID(), p.Earlier
	}
	return protocol, protocol.Validate()
}

// provableShare is the part of δ that the bound of the provable candidate may take: δ_v is above it in all but the smallest budgets.
const provableShare = 0.9

// provable finds a noise multiplier that needs no samples.
func (p Problem) provable(start float64) (tilt.Provable, error) {
	if !p.Run.Majorized() {
		return tilt.SmallestProvable(p.Run.Loss(start), p.Epsilon, provableShare*p.Delta)
	}
	least, err := p.Run.Calibrate(p.Epsilon, provableShare*p.Delta)
	return tilt.Provable{NoiseMultiplier: roundUp(least.Upper)}, err
}

// calibrated estimates the noise multiplier, then fixes candidates around it.
func (p Problem) calibrated(ctx context.Context, e *estimator, out *Plan) error {
	start, err := accounting.GaussianNoiseMultiplier(p.Epsilon, p.Delta, slices.Max(p.Run.ColumnNorms()))
	if err != nil {
		return err
	}
	provable, err := p.provable(start)
	switch {
	case err == nil:
		start = provable.NoiseMultiplier / math.Pow(gridRatio, 5)
	case !errors.Is(err, tilt.ErrNotTilted) && !errors.Is(err, tilt.ErrNotProvable):
		return err
	}
	if out.Looks, err = e.search(ctx, gridIndex(start), 0.75*p.Delta); err != nil {
		return err
	}
	line := fitLooks(out.Looks, 0.8*p.Delta)
	out.Estimate = line.at(p.Delta)
	p.table(e, line, out)
	sigmas, err := p.candidates(out.Looks, line, provable.NoiseMultiplier)
	if err == nil {
		var sides [][2]side
		if sides, err = p.sides(sigmas); err != nil {
			return err
		}
		out.Protocol, err = p.fix(sides, out.Method)
	}
	if errors.Is(err, accounting.ErrTooFewSamples) && e.each() > 0 {
		return fmt.Errorf("%w; on this machine 1e6 samples take about %s", err, roughly(1e6*e.each().Seconds()))
	}
	return err
}

// candidateSteps are the candidates over the noise multiplier that is expected to be accepted: one to try, it, and two in case the
// estimate was too low.
var candidateSteps = []float64{1 / 1.005, 1, 1.005, 1.015}

// candidates returns noise multipliers by rising order. The second is the one whose estimate leaves room below δ' for the errors of
// estimate and verification; the last is the provable one, if there is one.
func (p Problem) candidates(looks []Look, line fit, provable float64) ([]float64, error) {
	share := 0.8
	var center float64
	for range 4 {
		center = line.at(0.88 * share * p.Delta)
		var bounds []float64
		for _, step := range candidateSteps {
			for _, side := range [2]int{0, 1} {
				m := func(l Look) float64 { return l.Estimates[side].Bound }
				bounds = append(bounds, min(1, boundAt(looks, center*step, m)))
			}
		}
		thresholds, _, err := p.spend(bounds)
		if err != nil {
			return nil, err
		}
		spent := thresholds.Accept / p.Delta
		if math.Abs(spent-share) < 0.01 {
			break
		}
		share = max(spent, 0.02)
	}
	var sigmas []float64
	for _, step := range candidateSteps {
		sigma := roundUp(center * step)
		if provable > 0 && sigma >= provable {
			break
		}
		sigmas = append(sigmas, sigma)
	}
	if provable > 0 {
		sigmas = append(sigmas, provable)
	}
	return sigmas, nil
}

// boundAt interpolates M of the looks at a noise multiplier.
func boundAt(looks []Look, noiseMultiplier float64, bound func(Look) float64) float64 {
	i := 1
	for i+1 < len(looks) && looks[i].NoiseMultiplier < noiseMultiplier {
		i++
	}
	a, b := looks[i-1], looks[i]
	if !(bound(a) > 0 && bound(b) > 0) {
		return bound(b)
	}
	x := math.Log(noiseMultiplier/a.NoiseMultiplier) / math.Log(b.NoiseMultiplier/a.NoiseMultiplier)
	return bound(a) * math.Pow(bound(b)/bound(a), min(max(x, -2), 3))
}

// roundUp rounds to five digits, so that files and people copy the number without loss.
func roundUp(x float64) float64 {
	scale := math.Pow(10, 4-math.Floor(math.Log10(x)))
	return math.Ceil(x*scale) / scale
}

// tableShares are the parts of δ that the table shows as δ'.
var tableShares = []float64{0.25, 0.5, 0.8, 0.9, 0.95}

func (p Problem) table(e *estimator, line fit, out *Plan) {
	for _, share := range tableShares {
		row := Row{Accept: share * p.Delta}
		row.NoiseMultiplier = line.at(row.Accept)
		var bounds []float64
		for _, side := range [2]int{0, 1} {
			bounds = append(bounds, min(1, boundAt(out.Looks, row.NoiseMultiplier, func(l Look) float64 { return l.Estimates[side].Bound })))
		}
		_, samples, err := p.claim().Samples(row.Accept, bounds)
		if err != nil {
			continue // more samples than any verification may have
		}
		for _, s := range samples {
			row.Samples += float64(s)
		}
		row.Seconds = row.Samples * e.each().Seconds()
		out.Table = append(out.Table, row)
	}
}
