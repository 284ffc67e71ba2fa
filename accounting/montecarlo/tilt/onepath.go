package tilt

import (
	"math"

	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/internal/likelihood"
	"minsep/sampling/balanced"
)

// next returns the step of the next participation from a step i on at which an example is free, or
// end when there is none before it. alive[k], and last for k = end, is the logarithm of Pr[none in
// i … k-1 | y] up to a term that is the same for all k; it never rises.
func next(alive []float64, last float64, i, end int, u *uniforms) int {
	level := alive[i] + math.Log(u.float64())
	if last >= level {
		return end
	}
	lo, hi := i, end
	for hi-lo > 1 {
		if mid := int(uint(lo+hi) >> 1); alive[mid] >= level {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// startSums sets sums to the partial sums of e^{prior[r] + logF[r]}, up to a factor.
func startSums(sums, prior, logF []float64) {
	top, sum := math.Inf(-1), 0.0
	for r, x := range prior {
		top = max(top, x+logF[r])
	}
	for r, x := range prior {
		sum += math.Exp(x + logF[r] - top)
		sums[r] = sum
	}
}

// renewalPath is b-min-sep (F3.2).
type renewalPath struct {
	steps, sep int
	logP, logQ float64
	waits      []float64 // ln of the probabilities of the waits
	norms      []float64 // ‖c_i‖²/σ²
	logF       []float64 // ln f_i, and min-sep zeros beyond the last step
	alive      []float64 // ln f_i + i ln q: its difference is the probability of no participation between two steps
	starts     []float64 // partial sums over the waits given y
}

func (bMinSep) randomisable(s montecarlo.Spec) bool { return s.Prob < 1 }

func (bMinSep) path(s montecarlo.Spec, norms []float64) onePath {
	p := &renewalPath{steps: s.Steps, sep: s.MinSep, logP: math.Log(s.Prob), logQ: math.Log1p(-s.Prob), norms: norms, waits: []float64{0}}
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

func (p *renewalPath) fork() onePath {
	fork := *p
	fork.logF, fork.alive, fork.starts = make([]float64, p.steps+p.sep), make([]float64, p.steps+1), make([]float64, len(p.waits))
	return &fork
}

func (p *renewalPath) given(t func(i int) float64) {
	n, f := p.steps, p.logF
	p.alive[n] = float64(n) * p.logQ
	for i := n - 1; i >= 0; i-- {
		f[i] = likelihood.LogSum(p.logQ+f[i+1], p.logP+t(i)*math.Ln2-p.norms[i]/2+f[i+p.sep])
		p.alive[i] = f[i] + float64(i)*p.logQ
	}
	startSums(p.starts, p.waits, f)
}

func (p *renewalPath) draw(hits []int, u *uniforms) []int {
	i := 0
	if len(p.starts) > 1 {
		i = pick(p.starts, u.float64())
	}
	for ; i < p.steps; i += p.sep {
		if i = next(p.alive, p.alive[p.steps], i, p.steps, u); i < p.steps {
			hits = append(hits, i)
		}
	}
	return hits
}

// epochPath is epoch min-sep (F3.8).
type epochPath struct {
	likelihood.Epochs
	norms  []float64
	waits  []float64 // ln of the probabilities of the waits
	join   []float64 // ln η_i
	stay   []float64 // ln (1-η_i)
	logF   []float64 // ln f_i, and min-sep zeros beyond the last step
	alive  []float64 // of the epoch of a step: ln f_i + Σ ln (1-η) over the steps of the epoch before i
	end    float64   // alive at the end of a cut last epoch
	starts []float64
}

func (epochMinSep) randomisable(montecarlo.Spec) bool { return true }

func (epochMinSep) path(s montecarlo.Spec, norms []float64) onePath {
	e := likelihood.Epochs{Steps: s.Steps, MinSep: s.MinSep, Epoch: s.EpochSteps}
	p := &epochPath{Epochs: e, norms: norms, waits: e.LogWaits()}
	for i := range s.Steps {
		p.join, p.stay = append(p.join, math.Log(e.Hazard(i))), append(p.stay, math.Log1p(-e.Hazard(i)))
	}
	return p.fork()
}

func (p *epochPath) fork() onePath {
	fork := *p
	fork.logF, fork.alive, fork.starts = make([]float64, p.Steps+p.MinSep), make([]float64, p.Steps), make([]float64, len(p.waits))
	return &fork
}

func (p *epochPath) given(t func(i int) float64) {
	n, f := p.Steps, p.logF
	for i := n - 1; i >= 0; i-- {
		f[i] = likelihood.LogSum(p.stay[i]+f[i+1], p.join[i]+t(i)*math.Ln2-p.norms[i]/2+f[min(n, p.Next(i))])
	}
	stay := 0.0
	for i := range n {
		if i%p.Epoch == 0 {
			stay = 0
		}
		p.alive[i] = f[i] + stay
		stay += p.stay[i]
	}
	p.end = stay
	startSums(p.starts, p.waits, f)
}

func (p *epochPath) draw(hits []int, u *uniforms) []int {
	for i := pick(p.starts, u.float64()); i < p.Steps; i = p.Next(i) {
		if p.MinSep == p.Epoch { // whoever is free takes part
			hits = append(hits, i)
			continue
		}
		end := i - i%p.Epoch + p.Epoch
		last := math.Inf(-1) // nobody is left out of an epoch that is whole
		if end > p.Steps {
			end, last = p.Steps, p.end
		}
		if i = next(p.alive, last, i, end, u); i == end {
			return hits
		}
		hits = append(hits, i)
	}
	return hits
}

// classPath is balanced min-sep (F3.9).
type classPath struct {
	*balanced.Distribution
	norms  []float64
	waits  []float64   // ln of the probabilities of Most and Most-1
	join   [][]float64 // ln η_i^j by class
	stay   [][]float64 // ln (1-η_i^j)
	logF   [][]float64 // ln F_i^j, 0 beyond the last step
	alive  [][]float64 // ln F_i^j + Σ ln (1-η^j) over the steps before i
	first  [2]float64
	starts [2]float64
}

func (balancedMinSep) randomisable(montecarlo.Spec) bool { return true }

func (balancedMinSep) path(s montecarlo.Spec, norms []float64) onePath {
	p := &classPath{Distribution: s.Balanced(), norms: norms}
	most, less := p.Starts()
	p.waits = []float64{math.Log(most), math.Log(less)}
	p.join, p.stay = make([][]float64, p.Most+1), make([][]float64, p.Most+1)
	for j := 1; j <= p.Most; j++ {
		for i := range s.Steps {
			p.join[j], p.stay[j] = append(p.join[j], math.Log(p.Hazard(j, i))), append(p.stay[j], math.Log1p(-p.Hazard(j, i)))
		}
	}
	return p.fork()
}

func (p *classPath) fork() onePath {
	fork := *p
	fork.logF, fork.alive = make([][]float64, p.Most+1), make([][]float64, p.Most+1)
	for j := range fork.logF {
		fork.logF[j], fork.alive[j] = make([]float64, p.Steps+1), make([]float64, p.Steps+1)
	}
	return &fork
}

func (p *classPath) given(t func(i int) float64) {
	n := p.Steps
	for i := n - 1; i >= 0; i-- {
		u := t(i)*math.Ln2 - p.norms[i]/2
		for j := 1; j <= p.Most; j++ {
			p.logF[j][i] = likelihood.LogSum(p.stay[j][i]+p.logF[j][i+1], p.join[j][i]+u+p.logF[j-1][min(n, i+p.MinSep)])
		}
	}
	for j := 1; j <= p.Most; j++ {
		stay := 0.0
		for i := range n {
			p.alive[j][i] = p.logF[j][i] + stay
			stay += p.stay[j][i]
		}
		p.alive[j][n] = stay
	}
	p.first = [2]float64{p.logF[p.Most][0], p.logF[p.Most-1][0]}
	startSums(p.starts[:], p.waits, p.first[:])
}

func (p *classPath) draw(hits []int, u *uniforms) []int {
	j := p.Most
	if pick(p.starts[:], u.float64()) == 1 {
		j--
	}
	for i := 0; j > 0 && i < p.Steps; j-- {
		if i = next(p.alive[j], p.alive[j][p.Steps], i, p.Steps, u); i < p.Steps {
			hits = append(hits, i)
		}
		i += p.MinSep
	}
	return hits
}
