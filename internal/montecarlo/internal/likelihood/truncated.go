package likelihood

import (
	"math"

	"minsep/sampling"
)

// Truncated is the likelihood ratio of batches of at most MaxBatch examples, the rest of a batch that
// is too large dropped at random (F3.6; arXiv 2602.09338, Appendix D), for examples whose columns do
// not overlap. It is conditional on Counts, the number of other examples sampled at each step, which
// the adversary knows. Both P and Q are away from R = N(0, σ²I); the result is ln P/R - ln Q/R.
type Truncated struct {
	MaxBatch int
	Counts   []int // set before the steps; Steps entries

	norms        []float64 // ‖c_i‖²/σ²
	upper, lower *Points   // ln P/R and ln Q/R
}

// NewTruncated takes 1/σ².
func NewTruncated(t *sampling.Table, c *Columns, factor float64, maxBatch int) (*Truncated, error) {
	upper, err := NewPoints(t, c, factor)
	if err != nil {
		return nil, err
	}
	return &Truncated{
		MaxBatch: maxBatch,
		norms:    c.SquaredNorms(factor),
		upper:    upper,
		lower:    upper.Fork().(*Points),
	}, nil
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
	return &Truncated{
		MaxBatch: t.MaxBatch,
		norms:    t.norms,
		upper:    t.upper.Fork().(*Points),
		lower:    t.lower.Fork().(*Points),
	}
}

// Reset implements [Ratio].
func (t *Truncated) Reset() {
	t.upper.Reset()
	t.lower.Reset()
}

// Step implements [Ratio]. The turns have the weight -‖c_i‖²/2σ² of a participation, which the
// weights here have instead.
func (t *Truncated) Step(i int, u float64) {
	s := t.norms[i]
	jumpP, jumpQ := u-s/2, 0.0
	if t.Counts[i] >= t.MaxBatch {
		survives := t.Survival(t.Counts[i])
		in, out := math.Log(survives), math.Log1p(-survives)
		jumpP = LogSum(in+2*u-2*s, out)
		jumpQ = LogSum(in-u-s/2, out)
	}
	t.upper.Step(i, jumpP+s/2)
	t.lower.Step(i, jumpQ+s/2)
}

// LogRatio implements [Ratio].
func (t *Truncated) LogRatio() float64 { return t.upper.LogRatio() - t.lower.LogRatio() }
