package accounting

import (
	"math"

	"minsep/mechanism"
)

// Equivalent says whether two valid runs have the same sampler and the same strategy, whatever they
// are called and held by: samples of a protocol for one of them were seen by whoever makes a
// protocol for the other. What does not matter to the distribution of participations is left out:
// the number of examples without a maximum batch size, and how many of them an owner has, which
// decides what is claimed and not what is run. Probabilities are compared to 1e-9 of them,
// strategies by their matrices to 1e-9 of an entry, and up to a factor, since σ may be chosen with
// it. Where in doubt the answer is yes, which costs a little δ and no privacy.
func (r Run) Equivalent(other Run) bool {
	a, b := r.canonicalSampler(), other.canonicalSampler()
	if math.Abs(a.prob-b.prob) <= matrixTolerance*max(a.prob, b.prob) {
		a.prob = b.prob
	}
	return a == b && sameMatrix(r.Strategy, other.Strategy)
}

// canonicalSampler is one form of equal distributions of participation.
type canonicalSampler struct {
	scheme        string
	prob          float64
	steps, minSep int
	epoch         int // 0 for none
	warm          bool
	batch         int   // max_batch_size of a truncation that can cut, or the size of fixed batches
	most          int   // participations, of fixed batches
	examples      int64 // with a truncation that can cut
}

func (r Run) canonicalSampler() (c canonicalSampler) {
	c = r.analysis().canonical()
	if c.minSep == 1 {
		c.warm = false // nobody waits
	}
	if !c.warm {
		c.minSep = min(c.minSep, c.steps) // at most once
	}
	if t := r.Sampler.Truncation; t != nil && int64(t.MaxBatchSize) < r.Examples {
		c.batch, c.examples = t.MaxBatchSize, r.Examples
	}
	return c
}

// atMostOnce is the form of schemes in which an example takes part at most once, with the same rate
// at each step (F3.10). A rate is 1/T for a whole T wherever it is so up to rounding.
func atMostOnce(steps int, rate float64) canonicalSampler {
	if whole := math.Round(1 / rate); math.Abs(whole*rate-1) < 1e-9 {
		rate = 1 / whole
	}
	return canonicalSampler{scheme: "at most once", prob: rate, steps: steps}
}

// matrixTolerance is the difference of entries, over the first one of the matrix, at which two
// matrices count as one; probabilities too.
const matrixTolerance = 1e-9

func sameMatrix(a, b *mechanism.Strategy) bool {
	if a.Steps != b.Steps {
		return false
	}
	columnA, columnB := columns(a), columns(b)
	scaleA, scaleB := columnA(0)[0], columnB(0)[0]
	for i := range a.Steps {
		x, y := columnA(i), columnB(i)
		for k := range max(len(x), len(y)) {
			u, v := 0.0, 0.0
			if k < len(x) {
				u = x[k] / scaleA
			}
			if k < len(y) {
				v = y[k] / scaleB
			}
			if math.Abs(u-v) > matrixTolerance {
				return false
			}
		}
	}
	return true
}

// columns returns a function that gives column i from the diagonal down. It makes the first column
// of a Toeplitz matrix once.
func columns(s *mechanism.Strategy) func(i int) []float64 {
	first, norms := s.FirstColumn(nil), s.ColumnNorms()
	var scaled []float64
	return func(i int) []float64 {
		var column []float64
		if s.Columns != nil {
			column = s.Columns[i]
		} else {
			column = first[:min(len(first), s.Steps-i)]
		}
		if !s.Normalized {
			return column
		}
		scaled = scaled[:0]
		for _, v := range column {
			scaled = append(scaled, v/norms[i])
		}
		return scaled
	}
}
