package tilt

import (
	"math"

	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/internal/law"
)

// ownerDraws is R: how many times the participations of an owner's examples are drawn for one randomised f_k. It is fixed before the first
// sample. With 20 draws means are some per cent of δ above the divergence; fewer raise them, more take time.
const ownerDraws = 20

// maxDraws bounds what a plan of others may ask for.
const maxDraws = 10000

// cheapStates is how many states the exact law of three and more examples may have to be preferred to randomised ratios, which take O(n).
const cheapStates = 40

// randomisable says whether the ratio of an owner can be drawn.
func randomisable(s montecarlo.Spec) bool {
	b, ok := families[s.Scheme].(blocked)
	return ok && s.MaxExamplesPerOwner > 1 && b.randomisable(s)
}

func (bMinSep) randomisable(s montecarlo.Spec) bool { return s.Prob < 1 }

// drawsFor is R of a plan, 0 where the law of the spec is taken: exactly for two examples, and where it is cheap. In direction Q the exact law has a
// smaller M.
func drawsFor(s montecarlo.Spec, d montecarlo.Direction) int {
	k, exact := s.MaxExamplesPerOwner, s.Exactness() == montecarlo.Exact
	cheap := k == 2 || d == montecarlo.Q || law.OwnerStates(s.MinSep, k) <= cheapStates
	if !randomisable(s) || exact && cheap {
		return 0
	}
	return ownerDraws
}

// randomised is an unbiased draw f̂ of f_k given y, at most f^k (F4.8). It is for values that are linear in one of its two methods, with factors
// that depend on y alone: those are convex in f_k, so that their mean is at least that of the exact values. The hockey-stick value
// 1 - γ/f_k of a plain sample y ~ P is concave in f_k, and its mean would be too small: the ratio itself is not to be had.
type randomised struct{ logRatio float64 }

// logExcess is ln (f̂ - γ)_+, γ = e^epsilon.
func (r randomised) logExcess(epsilon float64) float64 { return logExcess(r.logRatio, epsilon) }

// shortfall is (1 - γf̂)_+.
func (r randomised) shortfall(epsilon float64) float64 {
	return max(0, -math.Expm1(epsilon+r.logRatio))
}

// logExcess is ln (f - γ)_+ for ln f.
func logExcess(logF, epsilon float64) float64 {
	if logF <= epsilon {
		return math.Inf(-1)
	}
	return logF + math.Log(-math.Expm1(epsilon-logF))
}

// paths draws participations of one example from their law given y (F4.8). It is not safe for concurrent use.
type paths struct {
	steps, sep  int
	examples    int // k
	draws       int // R
	logP, logQ  float64
	waits       []float64 // ln of the probabilities of the waits
	norms       []float64 // ‖c_i‖²/σ²
	overlaps    *overlaps
	logF        []float64 // ln f_i, and min-sep zeros beyond the last step
	alive       []float64 // ln f_i + i ln q: its difference is the probability of no participation between two steps
	starts      []float64 // partial sums over the waits given y
	participate []int     // of all examples in one draw
}

func newPaths(s montecarlo.Spec, c *law.Columns, draws int) *paths {
	factor := 1 / (s.NoiseMultiplier * s.NoiseMultiplier)
	p := &paths{steps: s.Steps, sep: s.MinSep, examples: s.MaxExamplesPerOwner, draws: draws, logP: math.Log(s.Prob), logQ: math.Log1p(-s.Prob),
		norms: c.SquaredNorms(factor), overlaps: newOverlaps(c, factor), waits: []float64{0}}
	if s.WarmStart {
		total := math.Log1p(float64(s.MinSep-1) * s.Prob)
		p.waits = make([]float64, s.MinSep)
		for r := range p.waits {
			p.waits[r] = p.logP - total
		}
		p.waits[0] = -total
	}
	return p.fork()
}

// fork has buffers of its own.
func (p *paths) fork() *paths {
	fork := *p
	fork.logF, fork.alive = make([]float64, p.steps+p.sep), make([]float64, p.steps+1)
	fork.starts, fork.participate = make([]float64, len(p.waits)), nil
	return &fork
}

// given takes y through t(i) = log2(e)·⟨c_i, y⟩/σ².
func (p *paths) given(t func(i int) float64) {
	n, f := p.steps, p.logF
	p.alive[n] = float64(n) * p.logQ
	for i := n - 1; i >= 0; i-- {
		f[i] = law.LogSum(p.logQ+f[i+1], p.logP+t(i)*math.Ln2-p.norms[i]/2+f[i+p.sep])
		p.alive[i] = f[i] + float64(i)*p.logQ
	}
	top, sum := math.Inf(-1), 0.0
	for r, wait := range p.waits {
		top = max(top, wait+f[r])
	}
	for r, wait := range p.waits {
		sum += math.Exp(wait + f[r] - top)
		p.starts[r] = sum
	}
}

// draw appends the participations of one example given y.
func (p *paths) draw(hits []int, u *uniforms) []int {
	i := 0
	if len(p.starts) > 1 {
		i = pick(p.starts, u.float64())
	}
	for ; i < p.steps; i += p.sep {
		// No participation in i … k-1 with probability e^{alive[k]-alive[i]}.
		level := p.alive[i] + math.Log(u.float64())
		if p.alive[p.steps] >= level {
			break
		}
		lo, hi := i, p.steps
		for hi-lo > 1 {
			if mid := int(uint(lo+hi) >> 1); p.alive[mid] >= level {
				lo = mid
			} else {
				hi = mid
			}
		}
		i = lo
		hits = append(hits, i)
	}
	return hits
}

// ratio draws f̂ for ln f of one example:
//
//	f̂ = f^k · 1/R Σ exp(-Σ_{a<c} ⟨Cx_a, Cx_c⟩/σ²)
//
// over R draws of k independent participations x_1 … x_k given y. u must be independent of y.
func (p *paths) ratio(logF float64, u *uniforms) randomised {
	sum := 0.0
	for range p.draws {
		p.participate = p.participate[:0]
		overlap := 0.0
		for range p.examples {
			from := len(p.participate)
			p.participate = p.draw(p.participate, u)
			for _, i := range p.participate[from:] {
				for _, j := range p.participate[:from] { // of the examples before
					overlap += p.overlaps.between(i, j)
				}
			}
		}
		sum += math.Exp(-overlap)
	}
	return randomised{float64(p.examples)*logF + math.Log(sum/float64(p.draws))}
}
