package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
	"minsep/sampling/stream"
)

// Noise is the noise multiplier that a candidate needs: the smallest σ at which it is (ε,
// δ)-differentially private.
type Noise struct {
	Multiplier float64 `json:"noise_multiplier"` // σ, above 0
	StdErr     float64 `json:"std_err"`          // of Multiplier, at least 0; 0 if it is proven
	Proven     bool    `json:"proven"`           // without samples: Multiplier is enough. The search ends at most 0.05 % above the smallest; a grid of losses costs about 1e-3 of ε besides

	// OneDirection says that only H(P,Q) was looked at: the noise multiplier is at least
	// Multiplier.
	OneDirection bool `json:"one_direction,omitempty"`

	Samples uint64  `json:"samples,omitempty"` // that were drawn; 0 if it is proven
	Effort  float64 `json:"effort,omitempty"`  // M/δ at Multiplier, above 0, of the direction with the larger M: a verification draws a multiple of it; 0 if it is proven

	floor float64 // the noise multiplier that H(Q,P) needs, where it was looked for
}

// claim is what noise is looked for.
type claim struct {
	run            accounting.Run
	epsilon, delta float64
	seed           uint64
}

// Errors of candidates whose noise multiplier is not found. Neither is a fault of the request.
var (
	errNoEstimate = errors.New("planner: no estimate")
	errTooDear    = errors.New("planner: an estimate takes too many samples")
)

// look is what is known at one noise multiplier of one divergence.
type look struct {
	x        float64 // ln σ
	logBound float64 // ln M/δ
	excess   float64 // ln of the estimated divergence over δ; -Inf where no value was seen
	stdErr   float64 // of excess
	samples  uint64
}

const (
	few       = 256 // samples of a first look
	near      = 0.7 // how far from 0 an excess may be for more samples than say where to look next
	maxLooks  = 20
	slopeHint = -14.0 // of ln δ by ln σ, until two looks give it
	hintDoubt = 0.4   // how far it may be off, as a part of it
	leastSum  = 10    // of values over M: with fewer, a standard error is a matter of luck
	mostWork  = 6e9   // samples times steps of an estimate

	// Of the tables of an order, in states times steps, where an estimate is coarse and where it is
	// fine: tables pay where many samples are drawn.
	coarseWork, fineWork = 3e6, 2e7
	coarseError          = 0.005
)

// searcher looks for σ by one divergence.
type searcher struct {
	claim
	direction montecarlo.Direction
	looks     []look
	drawn     uint64
}

// slope is that of ln δ by ln σ at the last look, and how far it may be off, as a part of it.
func (s *searcher) slope() (slope, doubt float64) {
	slope, doubt = slopeHint, hintDoubt
	last := s.looks[len(s.looks)-1]
	for _, l := range s.looks[:len(s.looks)-1] {
		of := (last.excess - l.excess) / (last.x - l.x)
		off := math.Hypot(last.stdErr, l.stdErr)/math.Abs(last.excess-l.excess) + math.Abs(last.x-l.x)
		if off < doubt && of < -2 {
			slope, doubt = of, off
		}
	}
	return slope, doubt
}

// sigma searches from start until the standard error of ln σ is at most tolerance.
func (s *searcher) sigma(ctx context.Context, start, tolerance float64) (Noise, error) {
	x := math.Log(start)
	low, high := math.Inf(-1), math.Inf(1)
	for range maxLooks {
		if err := ctx.Err(); err != nil {
			return Noise{}, err
		}
		l, err := s.look(ctx, x, tolerance)
		if err != nil {
			return Noise{}, err
		}
		slope, doubt := s.slope()
		// The slope errs by a part of it, and so does the way from here to δ.
		if spread := math.Hypot(l.stdErr, l.excess*doubt) / -slope; spread <= tolerance {
			multiplier := math.Exp(x - l.excess/slope)
			return Noise{Multiplier: multiplier, StdErr: spread * multiplier, OneDirection: true, Samples: s.drawn, Effort: math.Exp(l.logBound - l.excess)}, nil
		}
		if l.excess > 3*l.stdErr {
			low = max(low, x)
		} else if l.excess < -3*l.stdErr {
			high = min(high, x)
		}
		next := x - min(0.3, max(-0.3, l.excess/slope))
		if next <= low || next >= high {
			next = (low + high) / 2
		}
		x = next
	}
	return Noise{}, fmt.Errorf("%w: no noise multiplier found near %.4g", errNoEstimate, math.Exp(x))
}

// look draws at ln σ = x: more samples where δ is near, and few where they say in which direction
// it is.
func (s *searcher) look(ctx context.Context, x, tolerance float64) (look, error) {
	spec := s.run.Loss(math.Exp(x))
	work := coarseWork
	if tolerance < coarseError {
		work = fineWork
	}
	if s.run.Sampler.BalancedMinSep != nil { // a state takes some times as long
		work /= 4
	}
	plan, err := tilt.NewProposalWithin(tilt.Config{Spec: spec, Epsilon: s.epsilon, Direction: s.direction}, work)
	if err != nil {
		if errors.Is(err, tilt.ErrNotTilted) {
			err = fmt.Errorf("%w: %w", errNoEstimate, err)
		}
		return look{}, err
	}
	l := look{x: x, logBound: math.Log(max(plan.Bound, 1e-300) / s.delta)}
	s.looks = append(s.looks, l)
	at := &s.looks[len(s.looks)-1]
	if plan.Divergence < s.delta*math.Exp(-4) { // proven to be far
		at.excess, at.stdErr = math.Log(max(plan.Divergence, s.delta*1e-30)/s.delta), 1
		return *at, nil
	}
	v, err := tilt.NewVerifier(plan, s.key(plan))
	if err != nil {
		return l, err
	}
	return *at, s.draw(ctx, v, at, plan, tolerance)
}

// draw draws samples until the standard error of ln σ is at most about tolerance, or it is clear
// that δ is far.
func (s *searcher) draw(ctx context.Context, v *tilt.Verifier, l *look, plan tilt.Proposal, tolerance float64) error {
	var buffer [few]float64
	var sum, squares float64
	for want := uint64(few); ; {
		if float64(want)*float64(plan.Spec.Steps) > mostWork*costOfOwner(s.run) {
			return fmt.Errorf("%w: about %d", errTooDear, want)
		}
		for l.samples < want {
			if err := ctx.Err(); err != nil {
				return err
			}
			dst := buffer[:min(few, want-l.samples)]
			v.Values(dst, l.samples)
			for _, y := range dst {
				y = max(0, y/plan.Bound-plan.Slack)
				sum, squares = sum+y, squares+y*y
			}
			l.samples, s.drawn = l.samples+uint64(len(dst)), s.drawn+uint64(len(dst))
		}
		n := float64(l.samples)
		mean := max(sum, 1) / n // of no value at all, as much as one would be
		l.excess = l.logBound + math.Log(mean)
		l.stdErr = math.Sqrt(max(squares, 1)/n-min(1, mean*mean)) / mean / math.Sqrt(n)
		// Where the way to δ errs by more than the samples would, the next look is the one for many
		// samples.
		slope, doubt := s.slope()
		goal := max(-slope*tolerance*0.8, math.Abs(l.excess)*doubt/2)
		switch {
		case sum < leastSum && l.logBound+math.Log(leastSum/n) < -near, sum >= leastSum && math.Abs(l.excess) > near+2*l.stdErr:
			return nil
		case sum < leastSum:
			want = 2 * l.samples
		case l.stdErr <= goal:
			return nil
		default:
			want = uint64(math.Ceil(n * min(16, max(1.1, 1.05*(l.stdErr/goal)*(l.stdErr/goal)))))
		}
	}
}

// costOfOwner is the part of mostWork that an estimate may take: samples of several examples an
// owner take longer each.
func costOfOwner(run accounting.Run) float64 {
	if run.MaxExamplesPerOwner > 1 {
		return 0.2
	}
	return 1
}

// key is public, and of no other purpose.
func (s *searcher) key(plan tilt.Proposal) stream.Key {
	config, err := json.Marshal(struct {
		Seed   uint64      `json:"seed"`
		Config tilt.Config `json:"config"`
	}{s.seed, plan.Config})
	if err != nil { // numbers and names
		panic(err)
	}
	return stream.PublicKey("plan", config)
}

// estimate is the noise multiplier by H(P,Q), to a standard error of tolerance as a part of it.
func (c claim) estimate(ctx context.Context, start, tolerance float64) (Noise, error) {
	s := &searcher{claim: c, direction: montecarlo.P}
	return s.sigma(ctx, start, tolerance)
}

// bothDirections looks at H(Q,P) at the noise multiplier of n: where it may be above δ, n becomes
// the larger of the two.
func (c claim) bothDirections(ctx context.Context, n Noise, tolerance float64) (Noise, error) {
	if !n.OneDirection {
		return n, nil
	}
	s := &searcher{claim: c, direction: montecarlo.Q}
	x := math.Log(n.Multiplier)
	plan, err := tilt.NewProposal(tilt.Config{Spec: c.run.Loss(n.Multiplier), Epsilon: c.epsilon, Direction: montecarlo.Q})
	if err != nil {
		return n, err
	}
	if plan.Divergence <= c.delta {
		n.OneDirection = false
		return n, nil
	}
	n.Effort = max(n.Effort, plan.Bound/c.delta)
	// Values are 0 to M: that all of N are 0, or their mean is small, bounds the divergence.
	need := uint64(math.Ceil(12 * plan.Bound / c.delta))
	if float64(need)*float64(plan.Spec.Steps) > mostWork*costOfOwner(c.run) {
		return n, fmt.Errorf("%w: about %d for H(Q,P)", errTooDear, need)
	}
	v, err := tilt.NewVerifier(plan, s.key(plan))
	if err != nil {
		return n, err
	}
	sum := 0.0
	var buffer [few]float64
	for done := uint64(0); done < need; done += few {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		v.Values(buffer[:], done)
		for _, y := range buffer {
			sum += y / plan.Bound
		}
		n.Samples += few
		// Of a mean of δ the sum would be 7 here, and below 0.3 three times in a thousand at most.
		if float64(done+few) >= 7*plan.Bound/c.delta && sum < 0.3 {
			break
		}
	}
	// Of a mean of δ the sum would be about 12, and below 3 one time in a thousand at most.
	if sum < 3 {
		n.OneDirection = false
		return n, nil
	}
	other, err := s.sigma(ctx, math.Exp(x), tolerance)
	if err != nil {
		return n, err
	}
	n.OneDirection, n.Samples, n.floor = false, other.Samples+n.Samples, other.Multiplier
	if other.Multiplier > n.Multiplier {
		n.Multiplier, n.StdErr = other.Multiplier, other.StdErr
	}
	return n, nil
}

// Find is the noise multiplier at which a run without a maximum batch size is (epsilon,
// delta)-differentially private: proven where that takes no samples, else estimated in both
// directions, to a standard error of 0.9 %. Start is where the search begins, for columns of norm
// 1; about that of independent noise is good. The error is an accounting.RefusedError where no
// analysis is known.
func Find(ctx context.Context, run accounting.Run, epsilon, delta, start float64) (Noise, error) {
	method, err := run.Method()
	if err != nil {
		return Noise{}, err
	}
	c := claim{run: run, epsilon: epsilon, delta: delta}
	n, err := c.noise(ctx, method, start*slices.Max(run.ColumnNorms()))
	if err != nil || n.Proven {
		return n, err
	}
	return c.bothDirections(ctx, n, tolerance)
}
