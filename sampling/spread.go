package sampling

import (
	"fmt"
	"math"
	"slices"
)

// spread checks the sizes of batches before truncation. In an independent scheme with participation
// rate p at a step, the size is Binom(N, p) for N copies of examples, and Bernstein's inequality
// gives a range that holds at all steps.
type spread struct {
	least, most []float64 // of each step
	outside     int64     // number of steps outside their ranges
}

// newSpread returns nil for the cyclic Poisson sampling of a public partition, with parts that may
// differ in size, and for schemes whose copies are not independent.
func newSpread(spec Spec, all int64) *spread {
	scheme, ok := spec.Scheme().(Independent)
	if c := spec.CyclicPoisson; !ok || all < 1 || c != nil && !c.SecretPartition {
		return nil
	}
	table, err := TableOf(scheme)
	if err != nil {
		return nil // totalCheck fails with this error
	}
	s := &spread{}
	for _, rate := range table.Rates() {
		mean, off := float64(all)*rate, 0.0
		if variance := mean * (1 - rate); variance > 0 { // else everybody takes part, or nobody
			off = deviation(variance, 1, falseAlarm/float64(scheme.NumSteps()))
		}
		least := mean - off
		if t := spec.Truncation; t != nil {
			least = min(least, float64(t.MaxBatchSize))
		}
		s.least, s.most = append(s.least, least), append(s.most, mean+off)
	}
	return s
}

func (s *spread) step(i, entries int) {
	if i < len(s.most) && (float64(entries) < s.least[i] || float64(entries) > s.most[i]) {
		s.outside++
	}
}

func (s *spread) check(of string) Check {
	return count(
		"spread over steps",
		fmt.Sprintf(
			"every batch has %.6g to %.6g %s, at each step as by chance (false alarm %g)",
			math.Ceil(max(0, slices.Min(s.least))),
			math.Floor(slices.Max(s.most)),
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
