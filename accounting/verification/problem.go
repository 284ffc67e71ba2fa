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
	Run     accounting.Run  // what privacy is claimed for
	Unit    accounting.Unit // "" for accounting.UnitOwner
	Epsilon float64         // finite, at least 0
	Delta   float64         // at least 1e-300 and below 1

	// NoiseMultiplier is the only candidate; 0 looks for the smallest.
	NoiseMultiplier float64

	// The budget in samples or in time of processors. With neither, it is DefaultCPUTime, less
	// where a part of it reaches 0.9 of δ. Estimates take a part of it, and what they
	// leave is for the verification, over all candidates and both directions. A time is turned into
	// samples once, by the speed at which this machine makes the estimates, before there is a
	// protocol. The samples that measure the speed for a given NoiseMultiplier do not count.

	Samples uint64        // over all candidates and both directions; 0 for none given
	CPUTime time.Duration // of one processor; 0 for none given

	// Accept is the part of δ up to which means are accepted, δ'/δ, whatever it takes, in place of
	// a budget. 0 is for none.
	Accept float64

	// AlsoEpsilon are further ε at which δ is certified for the same run at the noise multiplier
	// that is released for (Epsilon, Delta). The δ of each is fixed with the protocol, from
	// estimates; an ε whose δ would be above 1/2 is left out. Their samples are on top of the budget.
	AlsoEpsilon []float64

	Earlier     []accounting.Earlier // protocols for the same run whose samples were seen
	CodeVersion string               // of minsep, for the protocol
	PlanSHA256  string               // of the parameters of the batches, 64 hexadecimal digits; "" if not known

	bought uint64 // samples that the estimates leave for the verification
	budget string // in words
	before spent  // by a plan that was made before this one for the same budget
	byCost bool   // a maximum batch size is accounted for by its cost in δ

	simulated simulation // nil outside of tests

	// Watch, if not nil, is told what is being done, from one goroutine.
	Watch func(Phase)

	// Workers is the number of goroutines for estimates, 0 for one a processor. It changes no
	// result.
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
	c.Require(len(p.AlsoEpsilon) <= MostAlso, "also epsilon", len(p.AlsoEpsilon), fmt.Sprintf("must be at most %d numbers", MostAlso))
	for i, epsilon := range p.AlsoEpsilon {
		c.Require(epsilon >= 0 && !math.IsInf(epsilon, 1), "also epsilon", epsilon, "must be finite numbers, at least 0")
		c.Require(epsilon != p.Epsilon && !slices.Contains(p.AlsoEpsilon[:i], epsilon), "also epsilon", epsilon, "must be other numbers than epsilon, each once")
	}
	given := 0
	for _, is := range []bool{p.Accept != 0, p.Samples != 0, p.CPUTime != 0} {
		if is {
			given++
		}
	}
	c.Require(given <= 1, "samples and cpu-time", nil, "only one of them may be given")
	c.Require(p.CPUTime >= 0, "cpu-time", p.CPUTime, "must be above 0")
	if p.NoiseMultiplier != 0 {
		c.Positive("noise multiplier", p.NoiseMultiplier)
	}
	return c.Err()
}

// Row is one line of the table of noise multipliers against samples: what one candidate costs whose
// estimated δ is just accepted.
type Row struct {
	Accept          float64 `json:"accept"`           // δ', above 0 and below δ
	NoiseMultiplier float64 `json:"noise_multiplier"` // σ, above 0
	Samples         float64 `json:"samples"`          // of both directions together
	Seconds         float64 `json:"seconds"`          // of time on this machine, about; 0 if not known
}

// Proposal is what there is to know before the first sample of a verification.
type Proposal struct {
	Protocol *accounting.Protocol // nil where no candidate was chosen
	Method   accounting.Method    // of the run
	// Estimate is the estimated smallest noise multiplier, without any slack for the verification;
	// 0 where none was made. For proven methods it is that of the protocol.
	Estimate  float64
	Estimates []NoiseEstimate // in the order in which they were made
	Table     []Row           // by rising Accept; what takes too many samples is left out
	// Each is the time of one sample on this machine, and CPU the seconds of processors that it
	// takes; 0 if not known.
	Each time.Duration
	CPU  float64

	spent spent // of the budget
	// again chooses the candidates of a calibrated plan for what a second plan, of so many samples,
	// has left of the budget.
	again func(samples uint64) error
}

// ErrNotPrivate says that a given noise multiplier was proven to be too small, or could not be
// proven to be enough by a method that knows no samples. It wraps accounting.ErrNotVerified.
var ErrNotPrivate = fmt.Errorf("%w by the bound", accounting.ErrNotVerified)

// Plan chooses candidates and thresholds. Its errors wrap accounting.RefusedError where no analysis
// is known, accounting.ErrTooFewSamples where the budget is too small, and
// accounting.ErrNotVerified where the given noise multiplier is not enough.
func (p Problem) Plan(ctx context.Context) (*Proposal, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if p.Run.Sampler.Truncation != nil {
		return p.truncated(ctx)
	}
	return p.plan(ctx)
}

func (p Problem) plan(ctx context.Context) (*Proposal, error) {
	method, err := p.Run.Method()
	if err != nil {
		return nil, err
	}
	out := &Proposal{Method: method}
	if method == accounting.ClosedForm || method == accounting.PLD {
		if err := p.proven(out); err != nil {
			return out, err
		}
		return out, p.also(ctx, out)
	}
	e := p.newEstimator()
	if p.NoiseMultiplier != 0 {
		err = p.fixed(ctx, e, out)
	} else {
		err = p.calibrated(ctx, e, out)
	}
	out.Each, out.CPU, out.spent = e.each(), e.eachCPU(), spent{p.before.samples + e.drawn - e.measured, e.used()}
	if p.pair().Majorized() && errors.Is(err, accounting.ErrTooFewSamples) { // without samples the claim costs more noise, but it can be made
		without := &Proposal{Method: accounting.PLD, Estimates: out.Estimates, Table: out.Table, Each: out.Each, CPU: out.CPU}
		if p.proven(without) == nil {
			return without, p.also(ctx, without)
		}
	}
	if err == nil {
		err = p.also(ctx, out)
	}
	return out, err
}

func (p Problem) newEstimator() *estimator {
	e := &estimator{last: map[montecarlo.Direction]hockeyStick{}, stick: p.stick, cost: p.cost, epsilon: p.Epsilon, delta: p.Delta, workers: p.Workers, watch: p.Watch, share: p.newShare(), limit: math.Inf(1)}
	if e.workers <= 0 {
		e.workers = runtime.GOMAXPROCS(0)
	}
	if p.Accept > 0 {
		e.limit = estimateSamples(p.steps())
	}
	return e
}

func (p Problem) steps() int { return p.Run.Sampler.Scheme().NumSteps() }

// protocol is one without candidates.
func (p Problem) protocol(t accounting.Thresholds) *accounting.Protocol {
	return &accounting.Protocol{Format: 1, Run: p.Run, Unit: p.protocolUnit(), CodeVersion: p.CodeVersion, PlanSHA256: p.PlanSHA256,
		Points: []accounting.Point{{Epsilon: p.Epsilon, Delta: p.Delta, Thresholds: t}}}
}

// proven finds the smallest noise multiplier whose δ is proven without samples.
func (p Problem) proven(out *Proposal) error {
	sigma := p.NoiseMultiplier
	if sigma == 0 {
		var err error
		if sigma, err = p.leastProven(); err != nil {
			return err
		}
	}
	out.Estimate = sigma
	trials, err := p.provenTrials(sigma, out.Method)
	if err != nil {
		return err
	}
	most := 0.0
	for _, t := range trials {
		bound := t.Bound
		if t.Truncation != nil {
			bound += t.Truncation.Cost
		}
		most = max(most, bound)
	}
	if most > p.Delta {
		return fmt.Errorf("%w: at noise multiplier %g the bound of delta at epsilon %g is %.6g, above %g", ErrNotPrivate, sigma, p.Epsilon, most, p.Delta)
	}
	out.Protocol = p.protocol(accounting.Thresholds{Verify: p.Delta})
	out.Protocol.Candidates = []accounting.Candidate{{NoiseMultiplier: sigma, Trials: trials}}
	return nil
}

// leastProven is the smallest noise multiplier that is proven for what truncation leaves of δ.
// Truncation costs less at more noise: what is left at one noise multiplier is left at the next.
func (p Problem) leastProven() (sigma float64, err error) {
	for cost := 0.0; ; {
		least, err := p.pair().Calibrate(p.Epsilon, p.Delta-cost)
		if err != nil {
			return 0, err
		}
		next, err := p.mostCost(least.Upper)
		switch {
		case err != nil:
			return 0, err
		case next <= cost:
			return least.Upper, nil
		case next > dear*p.Delta:
			return 0, p.tooDear(least.Upper)
		}
		cost = next
	}
}

// provenTrials are those of a noise multiplier at which nothing is sampled.
func (p Problem) provenTrials(sigma float64, method accounting.Method) (trials []accounting.Trial, err error) {
	pq, qp, err := p.pair().Prove(sigma, p.Epsilon)
	if err != nil {
		return nil, err
	}
	bounds := [2]float64{pq.Upper, qp.Upper}
	for i, d := range montecarlo.Directions {
		cost, err := p.cost(sigma, d)
		if err != nil {
			return nil, err
		}
		trials = append(trials, accounting.Trial{Direction: d, Method: method, Bound: bounds[i], Truncation: cost})
	}
	return trials, nil
}

// DefaultCPUTime is the budget where none is given, in time of one processor.
const DefaultCPUTime = time.Minute

// DefaultSamples is about how many samples that is, for one example per owner; with several a
// sample takes many times as long.
func DefaultSamples(steps int) uint64 { return uint64(1.5e9 / float64(2000+steps)) }

// priced returns the problem with what is left of its budget, in samples at the speed that was
// measured; of a time two digits.
func (p Problem) priced(e *estimator) Problem {
	p.budget = e.share.budget
	switch {
	case p.Accept > 0:
		return p
	case p.Samples > 0:
		p.bought = p.Samples
		if p.NoiseMultiplier == 0 {
			p.bought = max(1, p.Samples-min(p.Samples, p.before.samples+e.drawn-e.measured))
		}
		return p
	}
	whole := p.CPUTime
	if whole == 0 {
		whole = DefaultCPUTime
	}
	left := max(0, whole.Seconds()-e.used()-tablesToCome*e.tables/float64(max(1, e.estimates)))
	samples := float64(DefaultSamples(p.steps())) * left / DefaultCPUTime.Seconds()
	if each := e.eachCPU(); each > 0 {
		samples = left / each
	}
	scale := math.Pow(10, math.Floor(math.Log10(max(1, samples)))-1)
	p.bought = max(1, uint64(math.Floor(samples/scale)*scale))
	return p
}

// defaultShare is the part of δ up to which the default budget raises δ': beyond it samples buy
// little.
const defaultShare = 0.9

func (p Problem) claim() accounting.Claim {
	c := accounting.Claim{Delta: p.Delta}
	for _, e := range p.Earlier {
		c.Earlier += e.FailureProbability
	}
	if len(p.AlsoEpsilon) > 0 {
		c.MostFailure = p.failureOfPoint()
		c.Earlier += float64(len(p.AlsoEpsilon)) * c.MostFailure
	}
	return c
}

// fixed makes the protocol for the given noise multiplier.
func (p Problem) fixed(ctx context.Context, e *estimator, out *Proposal) error {
	e.report(Phase{Text: PhaseTables})
	divergences, err := p.divergences(e, []float64{p.NoiseMultiplier})
	if err != nil {
		return err
	}
	e.doing = ""
	proven := max(divergences[0][0].total(), divergences[0][1].total()) <= p.Delta-p.claim().Earlier
	for _, s := range divergences[0] {
		if proven {
			break
		}
		if _, err := e.time(ctx, s); err != nil {
			return err
		}
	}
	p = p.priced(e)
	out.Protocol, err = p.fix(divergences, out.Method, nil)
	return e.priced(err, false, func() (need float64) {
		_, samples, _ := p.claim().Samples(p.Delta/2, []float64{divergences[0][0].bound(), divergences[0][1].bound()})
		for _, s := range samples {
			need += float64(s)
		}
		return need
	})
}

// priced adds the time of samples here, and a budget that is enough, to an error about too few
// samples. need says how many would be enough, where the error does not.
func (e *estimator) priced(err error, estimated bool, need func() float64) error {
	var few *TooFewError
	switch {
	case err == nil || !errors.Is(err, accounting.ErrTooFewSamples):
		return err
	case errors.As(err, &few):
		few.Each, few.CPU = e.each(), e.eachCPU()
	default:
		few = &TooFewError{Cause: err, Need: need(), Each: e.each(), CPU: e.eachCPU()}
	}
	if few.Advised == 0 {
		// Estimates take a third at most, or more where tables take long.
		few.Advised, few.AdvisedCPU = few.Need, few.Need*few.CPU+e.used()
		if estimated {
			few.Advised /= 1 - planShare
		}
	}
	return few
}

// PhaseTables is the text of a phase in which tables are made.
const PhaseTables = "tables"

func (p Problem) divergences(e *estimator, sigmas []float64) (divergences [][2]hockeyStick, err error) {
	for n, sigma := range sigmas {
		if n > 0 {
			e.report(Phase{Text: PhaseTables, Done: uint64(n), Of: uint64(len(sigmas))})
		}
		var pair [2]hockeyStick
		for i, d := range montecarlo.Directions {
			if pair[i], err = p.stick(sigma, d); err != nil {
				return nil, err
			}
			if pair[i].cut, err = p.cost(sigma, d); err != nil {
				return nil, err
			}
		}
		if p.pair().Majorized() {
			pq, qp, err := p.pair().Prove(sigma, p.Epsilon)
			if err != nil {
				return nil, err
			}
			pair[0].composed, pair[1].composed = pq.Upper, qp.Upper
		}
		divergences = append(divergences, pair)
	}
	return divergences, nil
}

// provableShare is the part of δ that the bound of the provable candidate may take: δ_v is above it
// in all but the smallest budgets.
const provableShare = 0.9

// costSlack is the part of δ by which truncation may cost more at the provable candidate than at
// the one before.
const costSlack = 0.01

// provable finds a noise multiplier that needs no samples, as long as more, if not nil, says to go
// on.
func (p Problem) provable(start float64, more func(proven bool) bool) (tilt.Provable, error) {
	least, cost := tilt.Provable{NoiseMultiplier: start}, 0.0
	for range 2 { // what truncation costs depends on the noise multiplier
		next, err := p.mostCost(least.NoiseMultiplier)
		if err != nil {
			return least, err
		}
		if cost > 0 && next <= cost+costSlack*p.Delta {
			break
		}
		cost = next
		if left := provableShare*p.Delta - cost; left <= 0 {
			return least, tilt.ErrNotProvable
		} else if least, err = p.provableAt(start, left, more); err != nil || cost == 0 {
			return least, err
		}
	}
	return least, nil
}

func (p Problem) provableAt(start, delta float64, more func(proven bool) bool) (tilt.Provable, error) {
	if p.simulated != nil {
		return p.simulated.provable(delta, more)
	}
	if !p.pair().Majorized() {
		return tilt.SmallestProvableWhile(p.pair().Loss(start), p.Epsilon, delta, more)
	}
	least, err := p.pair().Calibrate(p.Epsilon, delta)
	return tilt.Provable{NoiseMultiplier: roundUp(least.Upper)}, err
}

// start is the noise multiplier that is tried first, and one that needs no samples, if there is
// one.
func (p Problem) start(e *estimator) (first float64, provable tilt.Provable, err error) {
	if first, err = accounting.GaussianNoiseMultiplier(p.Epsilon, p.Delta, slices.Max(p.Run.ColumnNorms())); err != nil {
		return first, provable, err
	}
	provable, err = p.provable(first, e.timeForProofs)
	switch {
	case err == nil:
		first = provable.NoiseMultiplier / math.Pow(gridRatio, 5)
	case !errors.Is(err, tilt.ErrNotTilted) && !errors.Is(err, tilt.ErrNotProvable):
		return first, provable, err
	}
	return first, provable, nil
}

// calibrated estimates the noise multiplier, then fixes candidates around it.
func (p Problem) calibrated(ctx context.Context, e *estimator, out *Proposal) error {
	e.report(Phase{Text: "looking for a σ that needs no samples"})
	start, provable, err := p.start(e)
	if err != nil {
		return err
	}
	e.beginEstimates()
	known, err := p.bounds(provable)
	if err != nil {
		return err
	}
	out.Estimates, err = e.search(ctx, gridIndex(start), 0.75*p.Delta, known)
	if err == nil {
		out.again = func(samples uint64) error {
			p.before.samples += samples
			return p.chosen(e, out, known)
		}
		err = out.again(0)
	}
	if errors.Is(err, accounting.ErrTooFewSamples) && provable.NoiseMultiplier > 0 && !p.pair().Majorized() {
		return p.provenOnly(e, out, provable.NoiseMultiplier)
	}
	return err
}

// bounds are those of a noise multiplier that needs no samples, where they were computed.
func (p Problem) bounds(provable tilt.Provable) (known NoiseEstimate, err error) {
	known.NoiseMultiplier = provable.NoiseMultiplier
	for i, d := range montecarlo.Directions {
		known.Estimates[i] = Estimate{Direction: d, Bound: provable.Proposals[i].Bound}
		if known.NoiseMultiplier == 0 {
			continue
		}
		cost, err := p.cost(known.NoiseMultiplier, d)
		if err != nil {
			return known, err
		}
		if cost != nil {
			known.Estimates[i].Truncation = cost.Cost
		}
	}
	return known, nil
}

// chosen fixes the candidates around what was estimated.
func (p Problem) chosen(e *estimator, out *Proposal, provable NoiseEstimate) error {
	m := newModel(out.Estimates, provable, 0.8*p.Delta)
	out.Estimate = m.at(p.Delta)
	p = p.priced(e)
	out.Table = nil
	p.table(e, m, out)
	sigmas, err := p.candidates(m, provable.NoiseMultiplier)
	if err == nil {
		e.report(Phase{Text: PhaseTables})
		var divergences [][2]hockeyStick
		if divergences, err = p.divergences(e, sigmas); err != nil {
			return err
		}
		out.Protocol, err = p.fix(divergences, out.Method, &m)
	}
	return e.priced(err, true, func() float64 { return 0 })
}

// provenOnly makes the protocol of a budget that is not enough for estimates: of the noise
// multiplier that needs no samples.
func (p Problem) provenOnly(e *estimator, out *Proposal, noiseMultiplier float64) error {
	e.report(Phase{Text: PhaseTables})
	divergences, err := p.divergences(e, []float64{noiseMultiplier})
	if err == nil {
		out.Protocol, err = p.fix(divergences, out.Method, nil)
	}
	return err
}

// tableShares are the parts of δ that the table shows as δ'.
var tableShares = []float64{0.25, 0.5, 0.8, 0.9, 0.95}

func (p Problem) table(e *estimator, m model, out *Proposal) {
	for _, share := range tableShares {
		row := Row{NoiseMultiplier: m.at(share * p.Delta)}
		t, tests, err := p.claim().Allocate(m.goals(row.NoiseMultiplier, 0))
		if err != nil {
			continue // more samples than any verification may have
		}
		row.Accept = t.Accept
		for _, test := range tests {
			row.Samples += float64(test.Samples)
		}
		row.Seconds = row.Samples * e.each().Seconds()
		out.Table = append(out.Table, row)
	}
}
