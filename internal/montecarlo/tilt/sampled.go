package tilt

import (
	"fmt"
	"math"
	"slices"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
)

// NewSampled is the proposal, with M = 1, for owners of several examples where [NewProposal] has no
// smaller M. y is drawn from the distribution of the direction, P or Q. The ratio of the owner is
// drawn from the ratio of one example. In direction P the participations that y was drawn with are
// among the draws (F4.10); in direction Q there are none (F4.8). Its errors wrap ErrNotTilted where
// the ratio is not drawn.
func NewSampled(c Config) (p Proposal, err error) {
	if err := c.Validate(); err != nil {
		return p, err
	}
	if err := tiltable(c.Spec, likelihood.NewColumns(c.Spec.Strategy)); err != nil {
		return p, err
	}
	if !randomisable(c.Spec) || c.Spec.Exactness() == montecarlo.Exact {
		return p, fmt.Errorf("%w: the ratio of %d examples per owner is not drawn", ErrNotTilted, c.Spec.ExamplesPerOwner())
	}
	p = Proposal{Config: c, Method: Sampled, Draws: ownerDraws(c.Spec.MaxExamplesPerOwner), Bound: 1, Slack: lossError(c.Epsilon), Divergence: 1}
	return p, nil
}

// prior draws participations of an owner's examples, whatever y.
type prior struct{ *paths }

func newPrior(s montecarlo.Spec, c *likelihood.Columns) *prior {
	p := newPaths(s, c, 1)
	p.one = newOnePath(s, make([]float64, s.Steps)) // of columns that tell nothing
	p.one.given(nothing)
	return &prior{p}
}

// nothing is a y that tells nothing.
func nothing(int) float64 { return 0 }

func (p *prior) fork() *prior {
	fork := p.paths.fork()
	fork.one.given(nothing)
	return &prior{fork}
}

// draw sets hits to participations of all examples, and returns the overlap between them.
func (p *prior) draw(hits []kernel.Hit, u *uniforms) ([]kernel.Hit, float64) {
	overlap := p.overlap(u)
	slices.Sort(p.participate)
	hits = hits[:0]
	for _, i := range p.participate {
		hits = append(hits, kernel.Hit{Step: i, Times: 1})
	}
	return hits, overlap
}

// harmonic draws f̂ for ln f of one example, with the overlap of the participations that y was
// drawn with:
//
//	f̂ = f^k · (e^-own + Σ exp(-Σ_{a<c} ⟨Cx_a, Cx_c⟩/σ²)) / (R+1)
//
// over R draws as in ratio. Where y ~ P, 1/f̂ has the mean 1/f_k given y.
func (p *paths) harmonic(logF, own float64, u *uniforms) float64 {
	sum := newPowers()
	sum.add(own)
	for range p.draws {
		sum.add(p.overlap(u))
	}
	return float64(p.examples)*logF + sum.log(float64(p.draws+1))
}

// sampledValue is the value of a lane of method Sampled.
func (v *Verifier) sampledValue(lane int, logF float64) float64 {
	p := v.proposal
	if p.Direction == montecarlo.Q {
		return v.paths.ratio(logF, &v.coins, math.Inf(-1), -p.Epsilon).shortfall(p.Epsilon)
	}
	return max(0, -math.Expm1(p.Epsilon-v.paths.harmonic(logF, v.weights[lane], &v.coins)))
}
