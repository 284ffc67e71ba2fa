package calibration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"

	"minsep/internal/accounting"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/tilt"
	"minsep/internal/stream"
)

// divergence is the divergence of a claim in one direction at one noise multiplier: what is proven of
// it, and what the samples of an estimate show.
type divergence struct {
	tilt.Config
	proposal *tilt.Proposal // nil: values of plain losses, in [0, 1]
	untilted error          // why there is no proposal, if there is none of any bound
	tables   float64        // the largest work of its tables
	proof    proof          // the least bound that is proven without samples
	cut      *accounting.Truncated

	samplers []sampler // one a worker; nil before the first sample
	seconds  float64   // of processors that the samples took
	samples  uint64
	sum      float64 // of the values over M
	squares  float64 // of their squares
	largest  float64 // of them
}

// newDivergence chooses how values are drawn: tilted or by a tangent if that has M < 1, with tables
// of at most work, and else as plain losses.
func newDivergence(ctx context.Context, c tilt.Config, work float64) (*divergence, error) {
	d := &divergence{Config: c, tables: work, proof: proof{accounting.RenyiBound, 1}}
	if work >= mostTables {
		work = math.Inf(1)
	}
	proposal, err := tilt.NewProposal(ctx, c, work)
	switch {
	case errors.Is(err, tilt.ErrNotTilted):
		d.untilted = err
		return d, c.Spec.Validate()
	case err != nil:
		return nil, err
	case proposal.Bound < 1 || proposal.Divergence < 1 || proposal.Draws > 0 && proposal.Method == tilt.Plain:
		d.proposal, d.proof.bound = &proposal, proposal.Divergence
	}
	return d, nil
}

// checkDrawn returns an error if the divergence is one of plain losses that cannot be computed: of
// an owner's examples whose ratio is drawn.
func (d *divergence) checkDrawn() error {
	if d.proposal == nil && d.Spec.Exactness() == montecarlo.Drawn {
		return fmt.Errorf(
			"%w: of %d examples per owner none has a largest value below 1 at so little noise",
			ErrTooExpensive,
			d.Spec.ExamplesPerOwner(),
		)
	}
	return nil
}

// bound is M, which no value exceeds: more than any budget has samples for if none can be drawn.
func (d *divergence) bound() float64 {
	switch {
	case d.proposal != nil:
		return d.proposal.Bound
	case d.checkDrawn() != nil:
		return undrawn
	}
	return 1
}

// x is ln σ.
func (d *divergence) x() float64 { return math.Log(d.Spec.NoiseMultiplier) }

// cost is the amount that truncated batches add to the divergence.
func (d *divergence) cost() float64 {
	if d.cut == nil {
		return 0
	}
	return d.cut.Cost
}

// total is a proven bound of the divergence of the run.
func (d *divergence) total() float64 { return d.proof.bound + d.cost() }

// trial is the trial of the divergence at the first point of a protocol; without samples the
// divergence must be proven.
func (d *divergence) trial(method accounting.Method, samples uint64) (accounting.Trial, error) {
	t := accounting.Trial{Direction: d.Direction, Method: d.proof.method, Bound: d.proof.bound, Truncation: d.cut}
	if samples == 0 {
		return t, nil
	}
	if err := d.checkDrawn(); err != nil {
		return t, err
	}
	var v Values
	if d.proposal != nil {
		proposal := *d.proposal
		proposal.Config = tilt.Config{}
		v.Tilt = &proposal
	}
	var err error
	t.Method, t.Bound, t.Samples = method, d.bound(), samples
	t.Values, err = json.Marshal(v)
	return t, err
}

// sampler draws values of a divergence, over M: of one of the two kinds.
type sampler struct {
	tilted *tilt.Verifier
	plain  *montecarlo.Sampler
}

// sampler makes the tables of the divergence's values.
func (d *divergence) sampler(key stream.Key) (s sampler, err error) {
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

// fork is an equal sampler for another goroutine.
func (s sampler) fork() sampler {
	if s.plain != nil {
		return sampler{plain: s.plain.Fork()}
	}
	return sampler{tilted: s.tilted.Fork()}
}

// draw draws samples up to a total, Few by each worker at a time. The sums do not depend on the
// number of workers. The key of the samples is public, and of no other purpose than estimates.
func (d *divergence) draw(ctx context.Context, seed uint64, workers int, total uint64) error {
	if d.samplers == nil {
		config, err := json.Marshal(struct {
			Seed   uint64      `json:"seed"`
			Config tilt.Config `json:"config"`
		}{seed, d.Config})
		if err != nil {
			return err
		}
		of, err := d.sampler(stream.PublicKey("estimate", config))
		if err != nil {
			return err
		}
		d.samplers = []sampler{of}
		for range max(1, workers) - 1 {
			d.samplers = append(d.samplers, of.fork())
		}
	}
	begun := clock(workers)
	defer func() { d.seconds += clock(workers) - begun }()
	sums := make([][3]float64, len(d.samplers))
	for d.samples < total {
		if err := ctx.Err(); err != nil {
			return err
		}
		var wait sync.WaitGroup
		next := d.samples
		for i, of := range d.samplers {
			first := min(total, next)
			next = min(total, first+Few)
			last := next
			wait.Go(func() { sums[i] = of.sums(d, first, last-first) })
		}
		wait.Wait()
		for _, of := range sums {
			d.sum, d.squares, d.largest = d.sum+of[0], d.squares+of[1], max(d.largest, of[2])
		}
		d.samples = next
	}
	return nil
}

// sums are the sum of some values over M, of their squares, and the largest of them.
func (s sampler) sums(d *divergence, first, count uint64) (sums [3]float64) {
	var buffer [Few]float64
	values, slack := buffer[:count], 0.0
	if s.plain != nil {
		s.plain.Values(values, d.Epsilon, first)
	} else {
		s.tilted.Values(values, first)
		slack = d.proposal.Slack
	}
	for _, y := range values {
		y = max(0, y/d.bound()-slack)
		sums = [3]float64{sums[0] + y, sums[1] + y*y, max(sums[2], y)}
	}
	return sums
}

// isConclusive says whether the values show more than a bound: they count as at least nine equal
// ones, which are Apart standard errors above 0, and are no rounding. The largest value is added to
// the squares once more, for larger values that were not seen.
func (d *divergence) isConclusive() bool {
	const least = Apart * Apart
	return d.sum*d.sum >= least*(d.squares+d.largest*d.largest) && d.sum >= 1./least
}

// most is an upper limit of the divergence: Apart standard errors above the mean.
func (d *divergence) most() float64 {
	return d.bound() * (d.sum + Apart*(math.Sqrt(d.sum)+0.5)) / float64(d.samples)
}

// mean is the mean of the values.
func (d *divergence) mean() float64 {
	if d.samples == 0 {
		return d.proof.bound
	}
	return d.sum / float64(d.samples) * d.bound()
}

// stdErr is the standard error of ln of the mean, by the number of events of a Poisson variable that
// would show as much. Its second term is for few values: their spread is all that is known of the
// error.
func (d *divergence) stdErr() float64 {
	n, sum, squares := float64(d.samples), d.sum, d.squares+d.largest*d.largest
	if !d.isConclusive() {
		sum, squares = max(sum, 1), max(squares, 1)
	}
	hits := n / max(1e-9, squares/(sum*sum)*n-1)
	return math.Sqrt((1 + 4/hits) / hits)
}
