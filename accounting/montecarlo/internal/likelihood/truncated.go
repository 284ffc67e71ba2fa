package likelihood

import "math"

// Truncated is the likelihood ratio of b-min-sep sampling in batches of at most MaxBatch examples,
// the rest of a batch that is too large dropped at random (F3.6; arXiv 2602.09338, Appendix D), for
// at most MinSep bands. It is conditional on Counts, the number of other examples sampled at each
// step, which the adversary knows. Both P and Q are away from R = N(0, σ²I); the result is ln P/R -
// ln Q/R.
type Truncated struct {
	Process
	MaxBatch int
	Norms    []float64 // ‖c_i‖²/σ²
	Counts   []int     // set before the steps; Steps entries

	upper, lower []float64 // rings of ln P/R and ln Q/R
	next         [2]float64
	logP, logQ   float64
}

// Survival returns s_i, the probability that a sampled example stays in its batch when count others
// were sampled.
func (t *Truncated) Survival(count int) float64 {
	if count < t.MaxBatch {
		return 1
	}
	return float64(t.MaxBatch) / float64(count+1)
}

// Fork shares the norms, not the counts.
func (t *Truncated) Fork() Ratio {
	return &Truncated{Process: t.Process, MaxBatch: t.MaxBatch, Norms: t.Norms}
}

func (t *Truncated) Reset() {
	if t.upper == nil {
		t.upper, t.lower = make([]float64, t.MinSep), make([]float64, t.MinSep)
		t.logP, t.logQ = math.Log(t.Prob), math.Log1p(-t.Prob)
	}
	clear(t.upper)
	clear(t.lower)
	t.next = [2]float64{}
}

func (t *Truncated) Step(i int, u float64) {
	s := t.Norms[i]
	jumpP, jumpQ := u-s/2, 0.0
	if t.Counts[i] >= t.MaxBatch {
		survives := t.Survival(t.Counts[i])
		in, out := math.Log(survives), math.Log1p(-survives)
		jumpP = LogSum(in+2*u-2*s, out)
		jumpQ = LogSum(in-u-s/2, out)
	}
	slot := i % t.MinSep
	t.next[0] = LogSum(t.logQ+t.next[0], t.logP+jumpP+t.upper[slot])
	t.next[1] = LogSum(t.logQ+t.next[1], t.logP+jumpQ+t.lower[slot])
	t.upper[slot], t.lower[slot] = t.next[0], t.next[1]
}

func (t *Truncated) LogRatio() float64 {
	upper, lower := math.Inf(-1), math.Inf(-1)
	for i, weight := range t.logWaits() {
		upper = LogSum(upper, weight+t.upper[i])
		lower = LogSum(lower, weight+t.lower[i])
	}
	return upper - lower
}
