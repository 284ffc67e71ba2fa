// Package stattest judges statistics of random draws in tests.
//
// A test returns an error if its statistic is further from the distribution than a correct sampler
// gets with probability [FalseReject]. The bounds are proven for every sample size, not only in the
// limit, so no cell is too small and no tolerance is guessed; the price is a few per cent of power.
// The test of a sampler is complete only with a deliberately wrong twin of the sampler that it
// rejects.
package stattest

import (
	"fmt"
	"math"
)

// FalseReject bounds the probability that a test rejects a correct sampler.
const FalseReject = 1e-9

// Count tests a number of successes against the binomial distribution of the given number of
// independent trials, each of success probability p. By Chernoff's bound each tail beyond count has
// probability at most exp(-trials·kl(count/trials, p)).
func Count(count, trials int, p float64) error {
	if count < 0 || count > trials {
		return fmt.Errorf("%d successes in %d trials", count, trials)
	}
	stat := divergence(count, trials, p) + divergence(trials-count, trials, 1-p)
	if limit := math.Log(2 / FalseReject); stat > limit {
		return fmt.Errorf(
			"%d successes in %d trials of probability %.6g, expected %.1f: divergence %.1f is above %.1f",
			count,
			trials,
			p,
			p*float64(trials),
			stat,
			limit,
		)
	}
	return nil
}

// Sum tests a sum of independent terms against its mean and variance. bound is the largest distance
// of a term from its own mean. By Bernstein's inequality the sum is further than t from the mean
// with probability at most 2 exp(-t²/(2 variance + 2 bound t/3)).
func Sum(got, mean, variance, bound float64) error {
	l := math.Log(2 / FalseReject)
	t := bound*l/3 + math.Sqrt(bound*l/3*(bound*l/3)+2*variance*l)
	if dev := math.Abs(got - mean); !(dev <= t) {
		return fmt.Errorf(
			"sum %.9g is %.4g from its mean %.9g: more than %.4g (standard deviation %.4g)",
			got,
			dev,
			mean,
			t,
			math.Sqrt(variance),
		)
	}
	return nil
}

// Distribution tests how often each cell was drawn against the cells' probabilities, which must add
// up to 1. For k possible cells and n draws, the relative entropy D of the observed to the expected
// frequencies obeys Pr[nD > x] ≤ exp(-x) (e x/(k-1))^(k-1) for x > k-1 (Agrawal, Finite-sample
// concentration of the multinomial in relative entropy, 2020, Theorem 1.2).
func Distribution(observed []int, prob []float64) error {
	if len(observed) != len(prob) || len(prob) < 2 {
		return fmt.Errorf(
			"%d cells observed, %d in the distribution: must be equal and at least 2",
			len(observed),
			len(prob),
		)
	}
	n, total, possible := 0, 0.0, 0
	for i, o := range observed {
		n += o
		total += prob[i]
		if prob[i] > 0 {
			possible++
		}
	}
	if math.Abs(total-1) > 1e-9 {
		return fmt.Errorf("the distribution's probabilities add up to %.12g", total)
	}
	stat, worst, most := 0.0, 0, 0.0
	for i, o := range observed {
		stat += divergence(o, n, prob[i])
		if d := math.Abs(float64(o)-float64(n)*prob[i]) / math.Sqrt(float64(n)*prob[i]+1); d > most {
			worst, most = i, d
		}
	}
	if limit := entropyLimit(float64(max(possible-1, 1))); stat > limit {
		return fmt.Errorf(
			"%d draws over %d cells: divergence %.1f is above %.1f; furthest off is cell %d with %d draws where %.1f are expected",
			n,
			len(prob),
			stat,
			limit,
			worst,
			observed[worst],
			float64(n)*prob[worst],
		)
	}
	return nil
}

// divergence returns o·ln(o/(n p)), one outcome's term of n times a relative entropy. It is +Inf
// for an outcome that was observed and has probability 0.
func divergence(o, n int, p float64) float64 {
	if o == 0 {
		return 0
	}
	if p <= 0 {
		return math.Inf(1)
	}
	return float64(o) * math.Log(float64(o)/(float64(n)*p))
}

// entropyLimit solves x - m - m ln(x/m) = ln(1/FalseReject) for x > m.
func entropyLimit(m float64) float64 {
	l := -math.Log(FalseReject)
	x := m + l + math.Sqrt(2*m*l)
	for range 60 { // Newton's method on a convex function from the right is monotone
		x -= (x - m - m*math.Log(x/m) - l) / (1 - m/x)
	}
	return x
}
