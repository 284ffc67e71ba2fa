package sampling

import (
	"fmt"
	"math"
)

// spread checks the sizes of batches before truncation. In an independent scheme with the same
// participation rate p at every step, each size is Binom(N, p) for N copies of examples, and
// Bernstein's inequality gives a range for all steps.
type spread struct {
	least, most float64
	outside     int64 // number of steps outside the range
}

// newSpread returns nil for schemes with rates that differ between steps: cyclic Poisson sampling,
// with parts that may differ in size, and b-min-sep with a cold start.
func newSpread(spec Spec, all int64) *spread {
	scheme, ok := spec.Scheme().(Independent)
	if !ok || all < 1 || spec.CyclicPoisson != nil || spec.BMinSep != nil && !spec.BMinSep.WarmStart {
		return nil
	}
	mean := scheme.ExpectedBatchSize(all)
	off := deviation(mean*(1-mean/float64(all)), 1, falseAlarm/float64(scheme.NumSteps()))
	s := &spread{least: mean - off, most: mean + off}
	if t := spec.Truncation; t != nil {
		s.least = min(s.least, float64(t.MaxBatchSize))
	}
	return s
}

func (s *spread) step(entries int) {
	if float64(entries) < s.least || float64(entries) > s.most {
		s.outside++
	}
}

func (s *spread) check(of string) Check {
	return count(
		"spread over steps",
		fmt.Sprintf(
			"every batch has %.6g to %.6g %s, as by chance (false alarm %g)",
			math.Ceil(max(0, s.least)),
			math.Floor(s.most),
			of,
			falseAlarm,
		),
		s.outside,
	)
}

// deviation bounds how far a sum of independent terms is from its mean, except with probability at
// most fail (Bernstein's inequality). Each term is at most most; variance belongs to the sum.
func deviation(variance, most, fail float64) float64 {
	l := math.Log(2 / fail)
	return most*l/3 + math.Sqrt(most*l/3*(most*l/3)+2*variance*l)
}
