package verification

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"minsep/accounting"
	"minsep/accounting/ledger"
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
	"minsep/sampling/stream"
)

// hockeyStick is the divergence of one claim in one direction at one noise multiplier. It is
// the quantity that is estimated and verified.
type hockeyStick struct {
	spec      montecarlo.Spec
	epsilon   float64
	direction montecarlo.Direction
	proposal  *tilt.Proposal // nil: values of plain losses, in [0, 1]
	untilted  bool           // M is 1 at every noise multiplier
	proof     proof          // of an upper bound that the proposal does not know; none without a method
	cut       *accounting.Truncated

	drawn func(stream.Key) sampler // in place of its own values, in tests of how candidates are chosen
}

// proof is a proven upper bound of a divergence, with its method.
type proof struct {
	method accounting.Method
	bound  float64 // at least 0
}

// sampler draws values of a divergence, over M.
type sampler interface {
	Run(ctx context.Context, first, count uint64, workers int) (ledger.Result, error)
}

// simulation replaces divergences and time in tests of the choice of candidates.
type simulation interface {
	stick(noiseMultiplier float64, d montecarlo.Direction) hockeyStick
	// provable is tilt.SmallestProvableBelow.
	provable(delta float64, more func(proven, ratio float64) bool) (tilt.Provable, error)
	now() time.Duration // of processors
}

// stick is the divergence of the claim at a noise multiplier.
func (p Problem) stick(ctx context.Context, noiseMultiplier float64, d montecarlo.Direction) (hockeyStick, error) {
	if p.simulated != nil {
		return p.simulated.stick(noiseMultiplier, d), nil
	}
	return newHockeyStick(ctx, p.pair(), noiseMultiplier, p.Epsilon, d)
}

// knownStick is stick where a proposal may have been made already.
func (p Problem) knownStick(ctx context.Context, noiseMultiplier float64, d montecarlo.Direction, known []tilt.Provable) (hockeyStick, error) {
	for _, of := range known {
		for i := range of.Proposals {
			if proposal := &of.Proposals[i]; of.NoiseMultiplier == noiseMultiplier && proposal.Direction == d && proposal.Method != "" && (proposal.Bound < 1 || proposal.Divergence < 1) && p.simulated == nil {
				return hockeyStick{spec: p.pair().Loss(noiseMultiplier), epsilon: p.Epsilon, direction: d, proposal: proposal}, nil
			}
		}
	}
	return p.stick(ctx, noiseMultiplier, d)
}

// newHockeyStick plans how values are drawn: tilted or by a tangent where that is possible and has
// M < 1, else as plain losses, of a ratio that is drawn where an owner has several examples.
func newHockeyStick(ctx context.Context, run accounting.Run, noiseMultiplier, epsilon float64, d montecarlo.Direction) (hockeyStick, error) {
	s := hockeyStick{spec: run.Loss(noiseMultiplier), epsilon: epsilon, direction: d}
	proposal, err := tilt.NewProposal(ctx, tilt.Config{Spec: s.spec, Epsilon: epsilon, Direction: d})
	switch {
	case errors.Is(err, tilt.ErrNotTilted):
		s.untilted = !errors.Is(err, tilt.ErrTable)
		if err := s.spec.Validate(); err != nil {
			return s, err
		}
	case err != nil:
		return s, err
	case proposal.Bound < 1 || proposal.Divergence < 1:
		s.proposal = &proposal
		return s, nil
	}
	if proposal, err = tilt.NewSampled(tilt.Config{Spec: s.spec, Epsilon: epsilon, Direction: d}); err == nil {
		s.proposal = &proposal
	}
	return s, nil
}

// bound is M, which no value exceeds.
func (s hockeyStick) bound() float64 {
	if s.proposal == nil {
		return 1
	}
	return s.proposal.Bound
}

// proven is the least bound of the divergence that is proven without samples.
func (s hockeyStick) proven() proof {
	of := proof{accounting.RenyiBound, 1}
	if s.proposal != nil {
		of.bound = s.proposal.Divergence
	}
	if s.proof.method != "" && s.proof.bound < of.bound {
		return s.proof
	}
	return of
}

// divergence is a proven bound of the divergence.
func (s hockeyStick) divergence() float64 { return s.proven().bound }

// cost is the amount that truncated batches add to the divergence.
func (s hockeyStick) cost() float64 {
	if s.cut == nil {
		return 0
	}
	return s.cut.Cost
}

// total is a proven bound of the divergence of the run.
func (s hockeyStick) total() float64 { return s.divergence() + s.cost() }

// trial is the trial of the divergence at the first point of a protocol. Without samples the
// divergence must be proven.
func (s hockeyStick) trial(method accounting.Method, samples uint64) (accounting.Trial, error) {
	if samples == 0 {
		of := s.proven()
		return accounting.Trial{Direction: s.direction, Method: of.method, Bound: of.bound, Truncation: s.cut}, nil
	}
	var v Values
	if s.proposal != nil {
		proposal := *s.proposal
		proposal.Spec.Strategy = nil
		v.Tilt = &proposal
	}
	values, err := json.Marshal(v)
	return accounting.Trial{Direction: s.direction, Method: method, Bound: s.bound(), Samples: samples, Values: values, Truncation: s.cut}, err
}

// worker draws values with a key.
func (s hockeyStick) worker(key stream.Key) (sampler, error) {
	if s.drawn != nil {
		return s.drawn(key), nil
	}
	w := &Worker{epsilon: s.epsilon}
	var err error
	if s.proposal != nil {
		w.tilted, err = tilt.NewVerifier(*s.proposal, key)
	} else {
		w.plain, err = montecarlo.NewSampler(s.spec, s.direction, key)
	}
	return w, err
}
