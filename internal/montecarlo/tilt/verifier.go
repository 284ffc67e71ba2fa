package tilt

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/stream"
)

// Verifier computes the values of a Proposal: sample i of a (proposal, key) is the same wherever,
// whenever and in whatever range it is computed, for one montecarlo.KernelID. It is not safe for
// concurrent use; Fork it.
type Verifier struct {
	proposal Proposal
	parts    *parts // of a run that is divided
	draw     walk
	source   *source

	tangent tangent
	tail    tail       // of method Tangent
	at      kernel.Row // the projections of a batch

	kernel   *kernel.Kernel
	bulk     *stream.Bulk    // of outputs
	uniforms kernel.Uniforms // of tuples, or of projections
	hits     [kernel.Lanes][]kernel.Hit
	weights  [kernel.Lanes]float64 // of the tuples
	paths    *paths                // where the ratio of an owner is drawn, with uniforms of its own
	coins    kernel.Uniforms
	in       kernel.Input
	out      kernel.Output
	values   [kernel.Lanes]float64
	batch    uint64 // of values, when ready
	ready    bool
}

// NewVerifier prepares the tables of a proposal that NewProposal made. Its randomness is
// derived from key and the JSON form of the proposal, so that one key serves any number of
// candidates and directions; an estimate must have another key than the verification. It
// computes the recursions of the proposal's orders, and their tables take at most 140 MB an
// order, or 1 GiB for order 2 with a min-sep above a fifth of the steps, or 2 GiB for orders 2
// and 3 of epoch-min-sep.
func NewVerifier(p Proposal, key stream.Key) (*Verifier, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	columns := likelihood.NewColumns(p.Spec.Strategy)
	if err := tiltable(p.Spec); err != nil {
		return nil, err
	}
	config, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	key = key.Sub("values of " + string(config))
	v := &Verifier{proposal: p, bulk: stream.NewBulk(key.Sub("outputs"))}
	v.uniforms.Bulk = stream.NewBulk(key.Sub("tuples"))
	v.in.Bulk = v.bulk
	specs := []montecarlo.Spec{p.Spec}
	if p.Parts > 0 {
		if v.parts, err = newParts(p.Config, p.Parts); err != nil {
			return nil, err
		}
		specs = []montecarlo.Spec{v.parts.spec}
	}
	switch p.Method {
	case Zero, Plain:
		err = v.checkPlain(columns)
	case Tilted:
		if v.parts != nil {
			moments, _ := v.parts.moments(context.Background())
			if err = v.parts.prepare(moments, p.Cut); err != nil {
				break
			}
		}
		if p.Spec.MaxExamplesPerOwner > 1 {
			specs = append(specs, single(p.Spec))
		}
		err = v.prepareTuples(columns)
	case Tangent:
		err = v.prepareTangent(columns)
	}
	if err != nil {
		return nil, err
	}
	if p.Method == Zero {
		return v, nil
	}
	if p.Draws > 0 {
		specs = []montecarlo.Spec{single(p.Spec)}
	}
	if v.kernel, err = montecarlo.NewKernel(specs...); err != nil {
		return nil, err
	}
	if p.Draws > 0 {
		if v.paths, err = newPaths(p.Spec, columns, p.Draws); err != nil {
			return nil, err
		}
		v.coins.Bulk = stream.NewBulk(key.Sub("participations given outputs"))
		v.kernel.Record = make([]kernel.Row, p.Spec.Steps())
	}
	if p.Method == Tangent {
		v.kernel.Project = v.tangent.direction
	}
	return v, nil
}

// single is the spec of one example.
func single(s montecarlo.Spec) montecarlo.Spec {
	s.MaxExamplesPerOwner = 0
	return s
}

// prepareTuples makes the tables to draw from, and returns an error where the moment, the slack or the
// bound of the proposal is too small for them.
func (v *Verifier) prepareTuples(columns *likelihood.Columns) (err error) {
	p := v.proposal
	spec := p.Spec
	if v.parts != nil {
		spec, columns = v.parts.spec, v.parts.columns
	}
	if v.source, err = sourceOf(spec, columns, p.Moment); err != nil {
		return err
	}
	s := v.source
	if s.walkError > p.Slack-lossError(p.Epsilon)/2 {
		return fmt.Errorf(
			"slack: the proposal says %v, walks of order %d need %v more: another version made the proposal",
			p.Slack,
			p.Moment.Order,
			s.walkError,
		)
	}
	if got := s.logN(); got > p.Moment.LogN+inflation/10 {
		return fmt.Errorf(
			"moment of order %d: the proposal says %v, it is %v: another version made the proposal",
			p.Moment.Order,
			p.Moment.LogN,
			got,
		)
	}
	if s.walker == nil {
		return fmt.Errorf("%w: order %d: no tuples can be drawn", ErrTable, p.Moment.Order)
	}
	v.draw = s.walker()
	bound := p.Moment.bound(p.Epsilon, p.Spec.ExamplesPerOwner())
	if v.parts != nil {
		bound = v.parts.bound(p.Moment)
	}
	if !(bound <= p.Bound) {
		return fmt.Errorf(
			"bound: the proposal says %v, it is %v: another version made the proposal",
			p.Bound,
			bound,
		)
	}
	return nil
}

// sourceOf makes the tables of a moment, to draw from.
func sourceOf(s montecarlo.Spec, columns *likelihood.Columns, m Moment) (made *source, err error) {
	ctx := context.Background()
	if m.Block > 0 {
		made, err = newBlockSource(ctx, newLawFamily(s), s, columns, m.Order, m.Block, true, math.Inf(1))
	} else {
		made, err = familyOf(s).source(ctx, s, columns, m.Order, 0)
	}
	if err == nil && made.version != m.Tables {
		return nil, fmt.Errorf(
			"tables of tuples: the proposal has their version %d, this minsep makes version %d: finish with the minsep that made the proposal, or begin anew",
			m.Tables,
			made.version,
		)
	}
	return made, err
}

// checkPlain returns an error where a Zero or Plain proposal has a bound below the one that the
// least f gives.
func (v *Verifier) checkPlain(columns *likelihood.Columns) error {
	post, err := posteriorOf(v.proposal.Spec, columns)
	if err != nil {
		return err
	}
	if bound := plainBound(v.proposal.Config, post); !(bound <= v.proposal.Bound) && bound > 0 {
		return fmt.Errorf(
			"bound: the proposal says %v, it is %v: another version made the proposal",
			v.proposal.Bound,
			bound,
		)
	}
	return nil
}

// prepareTangent makes the tangent of a proposal again, and returns an error where the bound or the
// slack of the proposal is too small for it.
func (v *Verifier) prepareTangent(columns *likelihood.Columns) error {
	p := v.proposal
	sigma := p.Spec.NoiseMultiplier
	post, err := posteriorOf(p.Spec, columns)
	if err != nil {
		return err
	}
	v.tangent = shiftTangent(p.Kappa, p.Spec.ExamplesPerOwner(), columns, sigma, post)
	d := v.tangent.distance(p.Epsilon)
	if v.tangent.slope == 0 || !(d > 0) {
		return fmt.Errorf("kappa: %v gives no tangent: another version made the proposal", p.Kappa)
	}
	v.tail = v.tangent.tail(p.Draws > 0, p.Epsilon, sigma)
	bound, slack := v.tail.bound(), v.tail.slack(p.Epsilon)
	if !(bound <= p.Bound && slack <= p.Slack*(1+1e-9)) {
		return fmt.Errorf(
			"bound: the proposal says %v with slack %v, it is %v with %v: another version made the proposal",
			p.Bound,
			p.Slack,
			bound,
			slack,
		)
	}
	v.in.Projection = &v.at
	return nil
}

// Fork returns an equal verifier that shares the tables and may be used by another goroutine.
func (v *Verifier) Fork() *Verifier {
	fork := *v
	if v.kernel != nil {
		fork.kernel = v.kernel.Fork()
	}
	bulk, tuples := *v.bulk, *v.uniforms.Bulk
	fork.bulk, fork.uniforms.Bulk, fork.in.Bulk = &bulk, &tuples, &bulk
	fork.hits, fork.out, fork.ready = [kernel.Lanes][]kernel.Hit{}, kernel.Output{}, false
	if v.source != nil {
		fork.draw = v.source.walker()
	}
	if v.in.Projection != nil {
		fork.in.Projection = &fork.at
	}
	if v.paths != nil {
		coins := *v.coins.Bulk
		fork.paths, fork.coins.Bulk = v.paths.fork(), &coins
	}
	return &fork
}

// Values fills dst with the values of samples first, first+1, …: each in [0, M] with mean at least
// the divergence, and by at most a few 1e-9 M above it.
func (v *Verifier) Values(dst []float64, first uint64) {
	if v.proposal.Method == Zero {
		clear(dst)
		return
	}
	for i := range dst {
		sample := first + uint64(i)
		if batch := sample / kernel.Lanes; !v.ready || batch != v.batch {
			v.compute(batch)
		}
		dst[i] = v.values[sample%kernel.Lanes]
	}
}

// Sum adds the values over M of the samples first … first+count-1, in fixed point, so that sums of
// parts add up to the sum of the whole. It ends early, with the context's error, when ctx is done. It
// is safe for concurrent use. The mean of the values is Mean(count)·M.
func (v *Verifier) Sum(ctx context.Context, first, count uint64) (total montecarlo.Sum, err error) {
	if v.proposal.Method == Zero {
		return total, ctx.Err()
	}
	return montecarlo.SumOf(ctx, v.proposal.Bound, first, count, v.Fork().Values)
}

// compute sets values to the values of one batch of samples.
func (v *Verifier) compute(batch uint64) {
	v.batch, v.ready = batch, true
	if v.draw != nil {
		for l := range v.hits {
			v.uniforms.Reset(batch*kernel.Lanes+uint64(l), 0)
			v.hits[l], v.weights[l] = v.draw(v.hits[l], &v.uniforms)
		}
		v.in.Hits = &v.hits
	}
	if v.proposal.Method == Tangent {
		for l := range v.at {
			v.uniforms.Reset(batch*kernel.Lanes+uint64(l), 0)
			v.at[l] = -v.proposal.Spec.NoiseMultiplier * v.tail.draw(&v.uniforms)
		}
	}
	v.in.Number = batch
	v.kernel.Batch(&v.in, &v.out)
	for l := range v.values {
		x := v.value(l)
		v.values[l] = min(x+v.proposal.Slack*v.proposal.Bound, v.proposal.Bound)
	}
}

// value is the value of one lane of the batch, before its slack.
func (v *Verifier) value(lane int) float64 {
	logF := v.out.LogRatio[0][lane]
	if v.paths != nil {
		return v.randomisedValue(lane, logF)
	}
	switch v.proposal.Method {
	case Tilted:
		if v.parts != nil {
			return v.parts.value(v.proposal.Moment, logF, v.weights[lane])
		}
		one := v.out.LogRatio[len(v.out.LogRatio)-1][lane]
		return v.weights[lane] * v.proposal.Moment.value(one, logExcess(logF, v.proposal.Epsilon))
	case Tangent:
		if v.proposal.Epsilon+logF >= 0 {
			return 0
		}
		return -math.Expm1(v.proposal.Epsilon+logF) * v.weight(lane)
	}
	return max(0, -math.Expm1(v.proposal.Epsilon+logF))
}

// weight is the density of Q over the proposal's at the output of a lane.
func (v *Verifier) weight(lane int) float64 {
	return v.tail.weight(-v.out.Projection[lane]/v.proposal.Spec.NoiseMultiplier, v.proposal.Bound)
}

// randomisedValue is the value of a lane with the ratio of the owner drawn (F4.8), by coins
// that no output depends on. logF is ln f of one example.
func (v *Verifier) randomisedValue(lane int, logF float64) float64 {
	p := v.proposal
	if p.Direction == montecarlo.P && float64(p.Spec.MaxExamplesPerOwner)*logF <= p.Epsilon { // f̂ ≤ f^k
		return 0
	}
	v.coins.Reset(v.batch*kernel.Lanes+uint64(lane), 0)
	v.paths.one.Given(func(i int) float64 { return v.kernel.Record[i][lane] * math.Ln2 })
	if p.Method == Tilted {
		ratio := v.paths.ratio(logF, &v.coins, p.Epsilon, math.Inf(1))
		return v.weights[lane] * p.Moment.value(logF, ratio.logExcess(p.Epsilon))
	}
	value := v.paths.ratio(logF, &v.coins, math.Inf(-1), -p.Epsilon).shortfall(p.Epsilon)
	if p.Method == Tangent {
		value *= v.weight(lane)
	}
	return value
}
