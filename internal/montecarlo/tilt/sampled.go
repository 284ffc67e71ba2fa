package tilt

import (
	"fmt"
	"math"
	"slices"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/sampling"
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
	if c.Spec.Exactness() != montecarlo.Drawn {
		return p, fmt.Errorf(
			"%w: the ratio of %d examples per owner is not drawn",
			ErrNotTilted,
			c.Spec.ExamplesPerOwner(),
		)
	}
	p = Proposal{
		Config:     c,
		Method:     Sampled,
		Draws:      ownerDraws(c.Spec.MaxExamplesPerOwner),
		Bound:      1,
		Slack:      lossError(c.Epsilon),
		Divergence: 1,
	}
	return p, nil
}

// prior draws participations of an owner's examples, whatever y.
type prior struct {
	*paths
	process *sampling.TableProcess
	buffer  []int32
}

func newPrior(s montecarlo.Spec, c *likelihood.Columns) (*prior, error) {
	p, err := newPaths(s, c, 1)
	if err != nil {
		return nil, err
	}
	return &prior{paths: p, process: s.Law.Process().(*sampling.TableProcess)}, nil
}

func (p *prior) fork() *prior { return &prior{paths: p.paths.fork(), process: p.process} }

// draw sets hits to participations of all examples, and returns the overlap between them.
func (p *prior) draw(hits []kernel.Hit, u *uniforms) ([]kernel.Hit, float64) {
	overlap := p.overlapOf(func(steps []int) []int {
		p.buffer = p.process.Draw(p.buffer[:0], u)
		for _, i := range p.buffer {
			steps = append(steps, int(i))
		}
		return steps
	})
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
