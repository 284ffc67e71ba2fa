package likelihood

import (
	"math"

	"minsep/internal/montecarlo/internal/law"
)

// Process is the participation process of one example (F0, F3).
type Process struct {
	Steps, MinSep int
	Prob          float64
	WarmStart     bool
}

// law is the process as a law.
func (p Process) law() law.MinSep { return law.NewMinSep(p.MinSep, p.Prob, p.WarmStart) }

// logWaits returns the log probabilities of the waits 0 … b-1 before the first step at which the
// example is available, or of none when cold.
func (p Process) logWaits() []float64 { return logWaits(p.law()) }

// logWaits is for laws with starts that are steps to wait.
func logWaits(l law.Law) []float64 {
	starts, _ := l.Starts()
	waits := make([]float64, len(starts))
	for _, s := range starts {
		waits[s.Label] = s.Log + s.Rest
	}
	return waits
}

// MinSep returns the likelihood ratio of b-min-sep sampling (F3.2; arXiv 2602.09338, Theorem 5.1)
// for at most MinSep bands, exact; norms are ‖c_i‖²/σ². For more bands it is an upper bound of P/Q
// (F3.3; arXiv 2602.09338, Appendix B), to be used in direction P only.
func MinSep(p Process, norms []float64) *Chain { return NewChain(p.law(), norms) }

// MinSepLower is the lower bound of P/Q for any number of bands (F3.7), to be used in direction Q
// only: MinSep with every participation lowered by the largest overlap with later ones.
func MinSepLower(p Process, c *Columns, factor float64) *Chain {
	lower := MinSep(p, c.SquaredNorms(factor))
	lower.Terms = p.terms(lower.norms, 1, nothing)
	for i, overlap := range overlaps(c, p.MinSep, factor) {
		lower.Terms[1][i] -= overlap
	}
	return lower
}

// overlaps returns κ_i·factor, κ_i = max Σ_{j∈S} ⟨c_i, c_j⟩ over sets S of steps at least minSep
// apart and from i on (F3.7).
func overlaps(c *Columns, minSep int, factor float64) []float64 {
	kappa := make([]float64, c.Steps)
	best := make([]float64, c.Bands+minSep+1) // best[t]: over sets within i+t and later
	c.Backward(func(i int, inner []float64) {
		clear(best)
		for t := len(inner) - 1; t >= minSep; t-- {
			best[t] = max(best[t+1], factor*inner[t]+best[t+minSep])
		}
		if minSep < len(best) {
			kappa[i] = best[minSep]
		}
	})
	return kappa
}

// PublishedOwner is the published likelihood ratio of Algorithm 3 with at most examples per owner,
// cold start (F4.1; arXiv 2602.09338, Theorem 6.1). It is not proven: see the package that serves
// it.
func PublishedOwner(p Process, norms []float64, examples int) *Chain {
	p.WarmStart = false
	ratio := MinSep(p, norms)
	ratio.Terms = p.terms(norms, examples, nothing)
	return ratio
}

// terms returns, by m and step, the logarithm of the weight of m participants among the examples.
// It is ln Pr[Binom = m] and, for m ≥ 1, the norm term of the m columns and the value of more.
func (p Process) terms(norms []float64, examples int, more func(m, step int) float64) (terms [][]float64) {
	for m := range examples + 1 {
		term, log := make([]float64, p.Steps), logBinomial(examples, m, p.Prob)
		for i := range term {
			if term[i] = log; m > 0 {
				term[i] = log + more(m, i) - float64(m*m)*norms[i]/2
			}
		}
		terms = append(terms, term)
	}
	return terms
}

// nothing is no more part of a term.
func nothing(int, int) float64 { return 0 }

// IndependentLower is a lower bound of P/Q for an owner of k independent examples (F4.5), for
// direction Q only: it keeps the paths on which, after a participation, the other examples stay
// silent until all are free again.
func IndependentLower(p Process, norms []float64, k int) *Chain {
	logQ := math.Log1p(-p.Prob)
	lower := lastFree{MinSep: p.law()}
	terms := p.terms(norms, k, func(m, i int) float64 { return timesLog((k-m)*min(p.MinSep-1, p.Steps-1-i), logQ) })
	// Start at step r with the last examples free for the first time at r: (h_r)^k - (q h_{r-1})^k,
	// h_r the probability that an example has become free by r and has not participated since.
	held := 0.0
	for r, wait := range p.logWaits() {
		silent := (1 - p.Prob) * held
		held = silent + math.Exp(wait)
		log := float64(k)*math.Log(held) + log1mexp(float64(k)*(math.Log(silent)-math.Log(held)))
		lower.starts = append(lower.starts, law.Start{Label: r, Prob: math.Exp(log), Log: log})
	}
	ratio := NewChain(lower, norms)
	ratio.Terms = terms
	return ratio
}

// lastFree is b-min-sep with other starts, of a total below 1.
type lastFree struct {
	law.MinSep
	starts []law.Start
}

func (l lastFree) Starts() (starts []law.Start, drawn bool) { return l.starts, true }

// log1mexp returns ln(1 - e^x) for x < 0.
func log1mexp(x float64) float64 {
	if x > -math.Ln2 {
		return math.Log(-math.Expm1(x))
	}
	return math.Log1p(-math.Exp(x))
}
