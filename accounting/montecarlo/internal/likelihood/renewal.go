package likelihood

import (
	"math"

	"minsep/accounting/montecarlo/internal/law"
)

// Ratio is one recursion. Give it Reset, then Step for i = Steps-1, …, 0 in this order, then take
// LogRatio. It is not safe for concurrent use.
type Ratio interface {
	Reset()
	// Step takes u = ⟨c_i, y⟩/σ².
	Step(i int, u float64)
	LogRatio() float64
	// Fork returns the same ratio with a state of its own.
	Fork() Ratio
}

// LogRatio evaluates a ratio at y of Steps entries.
func LogRatio(ratio Ratio, c *Columns, noiseMultiplier float64, y []float64) float64 {
	ratio.Reset()
	for i := c.Steps - 1; i >= 0; i-- {
		ratio.Step(i, c.Dot(i, y)/(noiseMultiplier*noiseMultiplier))
	}
	return ratio.LogRatio()
}

// Renewal is the family of recursions
//
//	f_i = a f_{i+1} + Σ_m e^{Jump[m-1][i] + m u_i} f_{i+b},   f = 1 beyond the last step,
//
// whose result is Times · ln Σ_r e^{Start[r]} f_r. It holds b-min-sep (F3.2), its bounds for more
// bands (F3.3, F3.7), the published distribution of Algorithm 3 (F4.1) and the bounds for several
// examples per owner (F4.3, F4.5).
type Renewal struct {
	Steps, MinSep int
	LogStay       float64     // ln a
	Jump          [][]float64 // [terms][Steps]: log weight of the jump at i, -m²‖c_i‖²/2σ² included
	Start         []float64   // at most MinSep log weights
	Times         float64

	ring  []float64 // ln f_{i+1..i+b}, f_j at j mod b
	next  float64   // ln f_{i+1}
	terms []float64
}

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
func (p Process) logWaits() (waits []float64) {
	starts, _ := p.law().Starts()
	for _, s := range starts {
		waits = append(waits, s.Log+s.Rest)
	}
	return waits
}

// MinSep returns the likelihood ratio of b-min-sep sampling (F3.2; arXiv 2602.09338, Theorem 5.1)
// for at most MinSep bands, exact; norms are ‖c_i‖²/σ². For more bands it is an upper bound of P/Q
// (F3.3; arXiv 2602.09338, Appendix B), to be used in direction P only.
func MinSep(p Process, norms []float64) *Renewal {
	jump := make([]float64, p.Steps)
	for i := range jump {
		jump[i] = math.Log(p.Prob) - norms[i]/2
	}
	return &Renewal{Steps: p.Steps, MinSep: p.MinSep, LogStay: math.Log1p(-p.Prob), Jump: [][]float64{jump},
		Start: p.logWaits(), Times: 1}
}

// MinSepLower is the lower bound of P/Q for any number of bands (F3.7), to be used in direction Q
// only: MinSep with every jump lowered by the largest overlap with later participations.
func MinSepLower(p Process, c *Columns, factor float64) *Renewal {
	ratio := MinSep(p, c.SquaredNorms(factor))
	for i, overlap := range overlaps(c, p.MinSep, factor) {
		ratio.Jump[0][i] -= overlap
	}
	return ratio
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
func PublishedOwner(p Process, norms []float64, examples int) *Renewal {
	ratio := &Renewal{Steps: p.Steps, MinSep: p.MinSep, LogStay: timesLog(examples, math.Log1p(-p.Prob)), Start: []float64{0}, Times: 1}
	for m := 1; m <= examples; m++ {
		jump := make([]float64, p.Steps)
		for i := range jump {
			jump[i] = logBinomial(examples, m, p.Prob) - float64(m*m)*norms[i]/2
		}
		ratio.Jump = append(ratio.Jump, jump)
	}
	return ratio
}

// IndependentUpper is an upper bound of P/Q for an owner of several independent examples (F4.3),
// for direction P only: the overlaps between them are dropped.
func IndependentUpper(p Process, norms []float64, examples int) *Renewal {
	ratio := MinSep(p, norms)
	ratio.Times = float64(examples)
	return ratio
}

// IndependentLower is a lower bound of P/Q for an owner of k independent examples (F4.5), for
// direction Q only: it keeps the paths on which, after a participation, the other examples stay
// silent until all are free again.
func IndependentLower(p Process, norms []float64, k int) *Renewal {
	n, b := p.Steps, p.MinSep
	logQ := math.Log1p(-p.Prob)
	ratio := &Renewal{Steps: n, MinSep: b, LogStay: timesLog(k, logQ), Times: 1}
	for m := 1; m <= k; m++ {
		jump := make([]float64, n)
		for i := range jump {
			silent := min(b-1, n-1-i) // steps of silence after i
			jump[i] = logBinomial(k, m, p.Prob) + timesLog((k-m)*silent, logQ) - float64(m*m)*norms[i]/2
		}
		ratio.Jump = append(ratio.Jump, jump)
	}
	// Start at step r with the last examples free for the first time at r: (h_r)^k - (q h_{r-1})^k,
	// h_r the probability that an example has become free by r and has not participated since.
	held := 0.0
	for _, wait := range p.logWaits() {
		silent := (1 - p.Prob) * held
		held = silent + math.Exp(wait)
		ratio.Start = append(ratio.Start, float64(k)*math.Log(held)+log1mexp(float64(k)*(math.Log(silent)-math.Log(held))))
	}
	return ratio
}

// log1mexp returns ln(1 - e^x) for x < 0.
func log1mexp(x float64) float64 {
	if x > -math.Ln2 {
		return math.Log(-math.Expm1(x))
	}
	return math.Log1p(-math.Exp(x))
}

// Fork shares the tables.
func (r *Renewal) Fork() Ratio {
	fork := *r
	fork.ring, fork.terms = nil, nil
	return &fork
}

func (r *Renewal) Reset() {
	if r.ring == nil {
		r.ring = make([]float64, r.MinSep)
		r.terms = make([]float64, len(r.Jump))
	}
	clear(r.ring)
	r.next = 0
}

func (r *Renewal) Step(i int, u float64) {
	slot := &r.ring[i%r.MinSep]
	for m, jump := range r.Jump {
		r.terms[m] = jump[i] + float64(m+1)*u
	}
	jump := r.terms[0]
	if len(r.terms) > 1 {
		jump = logSum(r.terms)
	}
	r.next = LogSum(r.LogStay+r.next, jump+*slot)
	*slot = r.next
}

func (r *Renewal) LogRatio() float64 {
	total := math.Inf(-1)
	for i, weight := range r.Start { // f_i with i < MinSep is in slot i; beyond the last step it is 1
		total = LogSum(total, weight+r.ring[i])
	}
	return r.Times * total
}
