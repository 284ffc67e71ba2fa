package accounting

import "fmt"

// WeakBound is the limit below which a bound for attacks is worth something: 0.9999 still lets an
// attacker be right in all but one of 10,000 cases.
const WeakBound = 0.9999

// Weak returns a sentence for each reason why a guarantee, though it holds, protects almost none of
// owners owners; nil if no reason is known. owners is 0 if their number is not known.
func (g Guarantee) Weak(owners int64) (why []string) {
	if len(g) == 0 {
		return nil
	}
	least := 1.0
	for _, p := range g {
		least = min(least, p.Delta)
	}
	if owners > 0 && least*float64(owners) >= 1 {
		why = append(
			why,
			fmt.Sprintf(
				"delta %.3g is not below 1/%d, one over the number of owners: even a mechanism that publishes all data of one random owner meets such a claim; choose a much smaller delta",
				least,
				owners,
			),
		)
	}
	lowest := g.Advantage()
	for _, a := range g.Attacks() {
		lowest = min(lowest, a.TPR)
	}
	if lowest >= WeakBound {
		why = append(
			why,
			fmt.Sprintf(
				"the success of an attack is not bounded below %g: whoever sees the model may be all but certain who took part; choose a smaller epsilon, or have smaller ones certified too (--also-epsilon)",
				WeakBound,
			),
		)
	}
	return why
}

// mostlyUnused is the part of δ below which a certificate says that less noise would do.
const mostlyUnused = 0.05
