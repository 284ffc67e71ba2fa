package attack

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// cuts is the number of intervals into which the values of a score are divided.
const cuts = 32

// Difference is a statement about one score that is true more or less often than expected.
type Difference struct {
	Score string // the statistic compared
	// LogP is the natural logarithm of a p-value, corrected for the number of comparisons: it
	// bounds the probability that any comparison of two samples of one distribution differs as
	// much. At most 0 before that correction.
	LogP     float64
	Count    int     // observations for which the statement What is true
	Of       int     // all observations
	Expected float64 // the expected Count, estimated from both samples together
	What     string  // such as "at most 1.5"
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: %d of %d are %s, where %.1f are expected", d.Score, d.Count, d.Of, d.What, d.Expected)
}

// compare returns the differences between a sample and a reference sample, at most one for each
// score and step. For two samples of one distribution it returns none, except with probability
// FalseAlarm/2.
func compare(observed, reference *Sample) (found []Difference) {
	n, of, references := len(observed.small), len(observed.LogRatios), len(reference.LogRatios)
	comparisons := 3*(cuts-1) + 2*n
	add := func(d Difference) {
		if d.LogP += math.Log(2 * float64(comparisons)); d.LogP < math.Log(FalseAlarm/2) {
			found = append(found, d)
		}
	}
	add(compareValues("log likelihood ratio", observed.LogRatios, reference.LogRatios))
	add(compareValues("sum of squares", observed.squares, reference.squares))
	add(compareValues("sum of products of neighbouring steps", observed.products, reference.products))
	for t := range n {
		add(compareCounts(fmt.Sprintf("step %d", t), fmt.Sprintf("within %.4f σ", smallest), observed.small[t], of, reference.small[t], references))
		add(compareCounts(fmt.Sprintf("steps %d and %d", t-1, t), "of one sign", observed.same[t], of, reference.same[t], references))
	}
	return found
}

// compareCounts compares how often something is true in two samples. Given how often it is true in
// both together, all assignments to the samples are equally likely if they have one distribution.
// So the observed count is hypergeometric, and Chernoff's bound for the binomial distribution
// bounds each of its tails (Hoeffding, Probability inequalities for sums of bounded random
// variables, 1963, section 6). This holds for every distribution and every sample size.
func compareCounts(score, what string, count, of, references, ofReferences int) Difference {
	share := float64(of) / float64(of+ofReferences)
	all, rest := float64(count+references), float64(of+ofReferences-count-references)
	d := Difference{Score: score, Count: count, Of: of, Expected: share * all, What: what}
	// The bound holds for the observations where it is true, and as well for those where it is not.
	if all > 0 {
		d.LogP = min(d.LogP, -all*relativeEntropy(float64(count)/all, share))
	}
	if rest > 0 {
		d.LogP = min(d.LogP, -rest*relativeEntropy(float64(of-count)/rest, share))
	}
	return d
}

// compareValues compares the distributions of a score at cuts chosen from the pooled values, and
// returns the largest difference.
func compareValues(score string, observed, reference []float64) (worst Difference) {
	all := pooled(observed, reference)
	slices.SortFunc(all, func(a, b labelled) int { return cmp.Compare(a.score, b.score) })
	worst.Score = score
	below, i := 0, 0
	for c := 1; c < cuts; c++ {
		// Smaller parts at the ends, where a fault of the tails shows.
		at := math.Pow(math.Sin(math.Pi/2*float64(c)/cuts), 2)
		end := int(at * float64(len(all)))
		for ; i < len(all) && (i < end || i > 0 && all[i].score == all[i-1].score); i++ { // ties are not cut apart
			if all[i].first {
				below++
			}
		}
		if i == 0 || i == len(all) {
			continue
		}
		d := compareCounts(score, fmt.Sprintf("at most %.4g", all[i-1].score), below, len(observed), i-below, len(reference))
		if d.LogP < worst.LogP {
			worst = d
		}
	}
	return worst
}

// labelled is a score with the sample that it comes from.
type labelled struct {
	score float64
	first bool // from the first sample
}

// pooled returns the scores of both samples, those of the first one first.
func pooled(first, second []float64) []labelled {
	all := make([]labelled, 0, len(first)+len(second))
	for _, s := range first {
		all = append(all, labelled{s, true})
	}
	for _, s := range second {
		all = append(all, labelled{s, false})
	}
	return all
}

// relativeEntropy is the Kullback–Leibler divergence of two coins with probabilities a and b, in
// nats.
func relativeEntropy(a, b float64) float64 {
	term := func(a, b float64) float64 {
		if a == 0 {
			return 0
		}
		return a * math.Log(a/b)
	}
	return term(a, b) + term(1-a, 1-b)
}
