package calibration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"minsep/internal/accounting"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/tilt"
	"minsep/internal/stream"
)

// divergence is the divergence of a claim in one direction at one noise multiplier: what is
// estimated, proven and verified.
type divergence struct {
	tilt.Config
	proposal *tilt.Proposal // nil: values of plain losses, in [0, 1]
	untilted error          // why there is no proposal, if there is none of any bound
	proof    proof          // the least bound that is proven without samples
	cut      *accounting.Truncated
}

// newDivergence chooses how values are drawn: tilted or by a tangent if that has M < 1, with tables
// of at most work, and else as plain losses.
func newDivergence(ctx context.Context, c tilt.Config, work float64) (d divergence, err error) {
	d = divergence{Config: c, proof: proof{accounting.RenyiBound, 1}}
	if work >= mostTables {
		work = math.Inf(1)
	}
	proposal, err := tilt.NewProposal(ctx, c, work)
	switch {
	case errors.Is(err, tilt.ErrNotTilted):
		d.untilted = err
		return d, c.Spec.Validate()
	case err != nil:
		return d, err
	case proposal.Bound < 1 || proposal.Divergence < 1 || proposal.Draws > 0 && proposal.Method == tilt.Plain:
		d.proposal, d.proof.bound = &proposal, proposal.Divergence
	}
	return d, nil
}

// checkDrawn returns an error if the divergence is one of plain losses that cannot be computed: of
// an owner's examples whose ratio is drawn.
func (d divergence) checkDrawn() error {
	if d.proposal == nil && d.Spec.Exactness() == montecarlo.Drawn {
		return fmt.Errorf(
			"%w: of %d examples per owner none has a largest value below 1 at so little noise",
			ErrTooExpensive,
			d.Spec.ExamplesPerOwner(),
		)
	}
	return nil
}

// bound is M, which no value exceeds.
func (d divergence) bound() float64 {
	if d.proposal == nil {
		return 1
	}
	return d.proposal.Bound
}

// x is ln σ.
func (d divergence) x() float64 { return math.Log(d.Spec.NoiseMultiplier) }

// cost is the amount that truncated batches add to the divergence.
func (d divergence) cost() float64 {
	if d.cut == nil {
		return 0
	}
	return d.cut.Cost
}

// total is a proven bound of the divergence of the run.
func (d divergence) total() float64 { return d.proof.bound + d.cost() }

// goal is the goal of a trial that needs no samples if δ_v is at least the proven bound.
func (d divergence) goal() accounting.Goal {
	return accounting.Goal{Bound: d.proof.bound, Proven: true, Cost: d.cost()}
}

// trial is the trial of the divergence at the first point of a protocol; without samples the
// divergence must be proven.
func (d divergence) trial(method accounting.Method, samples uint64) (accounting.Trial, error) {
	if samples == 0 {
		return accounting.Trial{
			Direction:  d.Direction,
			Method:     d.proof.method,
			Bound:      d.proof.bound,
			Truncation: d.cut,
		}, nil
	}
	if err := d.checkDrawn(); err != nil {
		return accounting.Trial{}, err
	}
	var v Values
	if d.proposal != nil {
		proposal := *d.proposal
		proposal.Config = tilt.Config{}
		v.Tilt = &proposal
	}
	values, err := json.Marshal(v)
	return accounting.Trial{
		Direction:  d.Direction,
		Method:     method,
		Bound:      d.bound(),
		Samples:    samples,
		Values:     values,
		Truncation: d.cut,
	}, err
}

// sampler draws values of a divergence, over M: of one of the two kinds.
type sampler struct {
	tilted *tilt.Verifier
	plain  *montecarlo.Sampler
}

// sampler makes the tables of the divergence's values.
func (d divergence) sampler(key stream.Key) (s sampler, err error) {
	if err := d.checkDrawn(); err != nil {
		return s, err
	}
	if d.proposal == nil {
		s.plain, err = montecarlo.NewSampler(d.Spec, d.Direction, key)
	} else {
		s.tilted, err = tilt.NewVerifier(*d.proposal, key)
	}
	return s, err
}
