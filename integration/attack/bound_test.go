package attack

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// TestLowestRate holds Clopper and Pearson's bound against sums of the binomial distribution: at
// the bound, so many hits or more have a probability of at most alpha, and hardly less.
func TestLowestRate(t *testing.T) {
	for _, c := range []struct{ hits, trials int }{{1, 1}, {3, 10}, {10, 10}, {150, 100000}, {5000, 20000}, {500_000, 500_000}} {
		for _, alpha := range []float64{0.05, FalseAlarm / 8} {
			p := lowestRate(c.hits, c.trials, alpha)
			tail, of := 0.0, distuv.Binomial{N: float64(c.trials), P: p}
			for k := c.hits; k <= c.trials; k++ {
				term := of.Prob(float64(k))
				if tail += term; term < 1e-20*tail {
					break
				}
			}
			if tail > alpha*(1+1e-7) || tail < alpha*(1-1e-4) {
				t.Errorf("%d of %d: at %v the tail is %v, want %v", c.hits, c.trials, p, tail, alpha)
			}
		}
	}
	if p := lowestRate(0, 10, 0.05); p != 0 {
		t.Errorf("no hits: %v", p)
	}
}

// TestBoundOfKnownLaws: ε of randomised response is known. The bound stays below it and comes
// close.
func TestBoundOfKnownLaws(t *testing.T) {
	const m, epsilon = 100_000, 1.2
	right := int(m * math.Exp(epsilon) / (1 + math.Exp(epsilon)))
	with, without := make([]float64, m), make([]float64, m)
	for i := range m {
		with[i], without[i] = -epsilon, epsilon
		if i < right {
			with[i], without[i] = epsilon, -epsilon
		}
	}
	b := NewBound(with, without, 1, 0)
	if !(b.Epsilon < epsilon && b.Epsilon > 0.95*epsilon) {
		t.Errorf("ε at least %v, is %v", b.Epsilon, epsilon)
	}
	if b := NewBound(with, without, 1, 0.2); !(b.Epsilon < 1) { // H at ε = 1 is .143 only
		t.Errorf("ε at least %v at δ = .2", b.Epsilon)
	}
	for _, d := range []Direction{b.With, b.Without} { // H = q - e(1-q)
		q := float64(right) / m
		if want := q - math.E*(1-q); math.Abs(d.Estimate-want) > 1e-9 || !(d.Delta < want && d.Delta > want-0.04) {
			t.Errorf("δ at least %v, about %v, is %v", d.Delta, d.Estimate, want)
		}
	}
}

// TestCompareCounts: the bound is above the probability of the hypergeometric distribution, by
// enumeration.
func TestCompareCounts(t *testing.T) {
	const of, references, all = 30, 50, 20 // all: observed and reference together of which it is true
	choose := func(n, k int) float64 {
		if k < 0 || k > n {
			return 0
		}
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(k + 1))
		c, _ := math.Lgamma(float64(n - k + 1))
		return math.Exp(a - b - c)
	}
	mass := func(k int) float64 { return choose(of, k) * choose(references, all-k) / choose(of+references, all) }
	for k := 0; k <= all; k++ {
		low, high := 0.0, 0.0
		for i := 0; i <= all; i++ {
			if i <= k {
				low += mass(i)
			}
			if i >= k {
				high += mass(i)
			}
		}
		tail := high
		if float64(k) < all*of/float64(of+references) {
			tail = low
		}
		if bound := math.Exp(compareCounts("", "", k, of, all-k, references).LogP); bound < tail*(1-1e-9) {
			t.Errorf("%d: bound %v is below the probability %v", k, bound, tail)
		}
	}
}
