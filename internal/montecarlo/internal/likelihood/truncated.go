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

	upper, lower *Chain // ln P/R and ln Q/R
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
		t.upper = MinSep(t.Process, t.Norms)
		t.lower = t.upper.Fork().(*Chain)
	}
	t.upper.Reset()
	t.lower.Reset()
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
	turn := t.upper.Turn(1, i)
	t.upper.set(1, i, turn.Out, turn.In+jumpP)
	t.lower.set(1, i, turn.Out, turn.In+jumpQ)
}

func (t *Truncated) LogRatio() float64 { return t.upper.LogRatio() - t.lower.LogRatio() }
