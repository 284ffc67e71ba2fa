package sampling

import (
	"fmt"
	"math"
)

// spread follows the sizes of batches before truncation. Of independent schemes in which every step
// has the same participation rate p they are Binom(N, p) at each step, for N copies of examples, so
// that Bernstein's inequality gives a range for all steps.
type spread struct {
	least, most float64
	outside     int64 // steps
}

// newSpread is nil for schemes of other rates: cyclic Poisson sampling, whose parts may differ, and
// the first steps of a cold start.
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
	return count("spread over steps", fmt.Sprintf("every batch has %.6g to %.6g %s, as by chance (false alarm %g)", math.Ceil(max(0, s.least)), math.Floor(s.most), of, falseAlarm), s.outside)
}

// deviation is how far a sum of independent terms of at most most each, and of this variance
// together, is from its mean, but for a probability of at most fail (Bernstein's inequality).
func deviation(variance, most, fail float64) float64 {
	l := math.Log(2 / fail)
	return most*l/3 + math.Sqrt(most*l/3*(most*l/3)+2*variance*l)
}
