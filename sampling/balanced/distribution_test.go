package balanced

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strings"
	"testing"

	"minsep/internal/param"
)

// cases have their corners on purpose: κ below, at and between whole numbers, min-sep 1 and beyond
// the run, runs nearly full.
var cases = []struct {
	steps, minSep  int
	participations float64
}{{9, 3, 2}, {10, 3, 3}, {9, 4, 2}, {9, 3, 1.5}, {10, 2, 2.75}, {8, 1, 3}, {8, 1, 3.25}, {7, 3, 1}, {7, 12, 1}, {7, 3, 0.4}, {1, 1, 1}, {6, 5, 1.05}, {5, 1, 4.5}, {11, 2, 4}}

func solve(t *testing.T, steps, minSep int, participations float64) *Distribution {
	t.Helper()
	l, err := New(steps, minSep, participations)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// enumerated is the probability of every pattern, as a bit mask, by walking through the integers.
func enumerated(l *Distribution, hazard func(class, step int) float64, gap, fewer int) []float64 {
	distribution := make([]float64, 1<<l.Steps)
	var walk func(step, class, mask int, prob float64)
	walk = func(step, class, mask int, prob float64) {
		if prob == 0 {
			return
		}
		if step >= l.Steps {
			distribution[mask] += prob
			return
		}
		h := hazard(class, step)
		walk(step+1, class, mask, prob*(1-h))
		walk(step+gap, max(0, class-fewer), mask|1<<step, prob*h)
	}
	most, less := l.Starts()
	walk(0, l.Most, 0, most)
	walk(0, l.Most-1, 0, less)
	return distribution
}

// maximal is the distribution of maximal entropy with k participations, probability by probability,
// and rates κ/n: by iterative scaling of the list of patterns.
func maximal(steps, minSep int, participations float64) []float64 {
	most := int(math.Ceil(participations))
	more := participations - float64(most-1)
	distribution := make([]float64, 1<<steps)
	allowed := func(mask int) bool {
		last := -minSep
		for i := range steps {
			if mask>>i&1 == 1 {
				if i-last < minSep {
					return false
				}
				last = i
			}
		}
		k := bits.OnesCount(uint(mask))
		return k == most && more > 0 || k == most-1 && more < 1
	}
	var list []int
	for mask := range distribution {
		if allowed(mask) {
			list = append(list, mask)
			distribution[mask] = 1
		}
	}
	for range 100000 {
		var total [2]float64
		for _, mask := range list {
			total[most-bits.OnesCount(uint(mask))] += distribution[mask]
		}
		rates := make([]float64, steps)
		for _, mask := range list {
			part := more
			if bits.OnesCount(uint(mask)) < most {
				part = 1 - more
			}
			distribution[mask] *= part / total[most-bits.OnesCount(uint(mask))]
			for i := range steps {
				rates[i] += distribution[mask] * float64(mask>>i&1)
			}
		}
		worst := 0.0
		for i := range rates {
			rates[i] *= float64(steps) / participations
			worst = max(worst, math.Abs(rates[i]-1))
		}
		if worst < 1e-14 {
			break
		}
		for _, mask := range list {
			for i := range steps {
				if mask>>i&1 == 1 {
					distribution[mask] /= math.Pow(rates[i], 0.2)
				}
			}
		}
	}
	return distribution
}

func farthest(a, b []float64) (worst float64) {
	for i := range a {
		worst = max(worst, math.Abs(a[i]-b[i]))
	}
	return worst
}

// TestDistributionIsOfMaximalEntropy holds the distribution of the integers against iterative
// scaling of all patterns, and sees three planted faults.
func TestDistributionIsOfMaximalEntropy(t *testing.T) {
	for _, c := range cases {
		l := solve(t, c.steps, c.minSep, c.participations)
		want := maximal(c.steps, c.minSep, c.participations)
		if d := farthest(enumerated(l, l.Hazard, c.minSep, 1), want); d > 1e-12 {
			t.Errorf("%+v: a pattern's probability is off by %g", c, d)
		}
		for fault, distribution := range map[string][]float64{
			"hazards off by one step": enumerated(l, func(class, step int) float64 { return l.Hazard(class, min(step+1, l.Steps-1)) }, c.minSep, 1),
			"a class not decremented": enumerated(l, l.Hazard, c.minSep, 0),
			"a gap one step shorter":  enumerated(l, l.Hazard, max(1, c.minSep-1), 1),
		} {
			if c.steps == 1 || l.Most == 1 && !strings.HasPrefix(fault, "hazards") || c.minSep == 1 && strings.HasPrefix(fault, "a gap") {
				continue // where it is no fault
			}
			if farthest(distribution, want) < 1e-3 {
				t.Errorf("%+v: %s is not seen", c, fault)
			}
		}
	}
}

// rates is Pr[participation] of every step by the integers, and the least probability with which
// all participations of a start happen.
func rates(l *Distribution) (rates []float64, kept float64) {
	free := make([][]float64, l.Steps+1)
	for i := range free {
		free[i] = make([]float64, l.Most+1)
	}
	free[0][l.Most], free[0][l.Most-1] = l.Starts()
	rates = make([]float64, l.Steps)
	for i := range l.Steps {
		for j := 1; j <= l.Most; j++ {
			in := free[i][j] * l.Hazard(j, i)
			rates[i] += in
			free[i+1][j] += free[i][j] * (1 - l.Hazard(j, i))
			free[min(l.Steps, i+l.MinSep)][j-1] += in
		}
		free[i+1][0] += free[i][0]
	}
	return rates, free[l.Steps][0]
}

// TestRatesAreEqual holds the rates of long runs to 1e-12, and that nobody is left with
// participations to take.
func TestRatesAreEqual(t *testing.T) {
	for _, c := range []struct {
		steps, minSep  int
		participations float64
	}{{1000, 16, 4}, {1000, 16, 2.5}, {1000, 16, 56}, {7200, 256, 4}, {7200, 256, 20}, {1000, 1, 100}, {7200, 1, 300}, {1000, 450, 2}, {3000, 4000, 0.7}} {
		l := solve(t, c.steps, c.minSep, c.participations)
		got, kept := rates(l)
		for i, r := range got {
			if e := r*float64(c.steps)/c.participations - 1; math.Abs(e) > 1e-12 {
				t.Errorf("%+v: step %d has a rate off by %g of it", c, i, e)
				break
			}
		}
		if math.Abs(kept-1) > 1e-12 {
			t.Errorf("%+v: all participations happen with probability %v", c, kept)
		}
		for j := 1; j <= l.Most; j++ {
			for i := range l.Steps {
				room := i + (j-1)*l.MinSep
				if h := l.hazard(j, i); (h == One) != (room == l.Steps-1) || room >= l.Steps && h != 0 {
					t.Fatalf("%+v: hazard %d of 2^53 at step %d with %d left", c, h, i, j)
				}
			}
		}
	}
}

// TestNextHasTheHazards inverts Next: how many of the 2^64 words give a wait beyond each step is Π
// (1-η) in exact integers.
func TestNextHasTheHazards(t *testing.T) {
	for _, c := range cases {
		l := solve(t, c.steps, c.minSep, c.participations)
		for class := 1; class <= l.Most; class++ {
			last := l.Steps - 1 - (class-1)*l.MinSep
			for step := 0; step <= last; step++ {
				survive := new(big.Float).SetPrec(400).SetInt64(1)
				for i := step; i <= last; i++ {
					q := new(big.Float).SetPrec(400).SetUint64(One - l.hazard(class, i))
					survive.Mul(survive, q.SetMantExp(q, -53))
					want := new(big.Float).SetMantExp(survive, 64)
					got := beyond(l, class, step, i)
					diff := new(big.Float).Sub(want, new(big.Float).SetUint64(got))
					if d, _ := diff.Float64(); math.Abs(d) > 8 {
						t.Fatalf("%+v: class %d from %d beyond %d: %d words, want %v", c, class, step, i, got, want)
					}
				}
			}
		}
	}
}

// beyond counts the words that give a step after i.
func beyond(l *Distribution, class, step, i int) uint64 {
	if l.Next(class, step, 0) <= i {
		return 0
	}
	lo, hi := uint64(0), uint64(math.MaxUint64) // beyond at lo
	if l.Next(class, step, hi) > i {
		return hi
	}
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; l.Next(class, step, mid) > i {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// TestFrozenDigests: batches of earlier runs are of these distributions, on every machine. Do not
// change these.
func TestFrozenDigests(t *testing.T) {
	for _, c := range []struct {
		steps, minSep  int
		participations float64
		digest         string
	}{
		{9, 3, 2, "693e8b750d708d354de20109d294bdc5218da4562da3ad300df267d452f49ab4"},
		{1000, 16, 4, "a58d626802efb66a09a2862f7df184db36fda55ec9795a4e7f02086949ad1630"},
		{1000, 16, 50.5, "305050bbbfb7ec1da8dce86e4f5fd7a3794902ed97fd3e36f4f9126176b87a1f"},
	} {
		if got := solve(t, c.steps, c.minSep, c.participations).Digest(); got != c.digest {
			t.Errorf("%+v: %s", c, got)
		}
	}
	if solve(t, 9, 3, 2).Digest() == solve(t, 9, 3, 1.5).Digest() {
		t.Error("two distributions have one digest")
	}
}

// TestRefused: numbers without a distribution, and a solver that does not converge, are refused
// with the way out.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		steps, minSep  int
		participations float64
		rule           string
	}{
		{100, 10, 9.5, "at most 9:"}, {100, 10, 0, "from 1e-06"}, {100, 1, 101, "to steps, 100"}, {100, 10, math.NaN(), "from 1e-06"},
		{1 << 20, 1, 8, "at most 7 at"}, {100, 200, 1.1, "at most 1:"}, {0, 1, 1, "at least 1"},
	} {
		if _, err := New(c.steps, c.minSep, c.participations); err == nil || !strings.Contains(err.Error(), c.rule) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	var check param.Checker
	Check(&check, 100, 10, 9)
	if err := check.Err(); err != nil {
		t.Errorf("the largest number that is named is refused: %v", err)
	}
	x := newWeights(1000, 16, 62, 1)
	if err := x.solve(62); err == nil || !strings.Contains(fmt.Sprint(err), "after 2000 rounds") {
		t.Errorf("a run of which 992 steps of 1000 are taken or blocked: %v", err)
	}
}

func BenchmarkNext(b *testing.B) {
	l, err := New(7200, 256, 4)
	if err != nil {
		b.Fatal(err)
	}
	word := uint64(1)
	for range b.N {
		word = word*6364136223846793005 + 1442695040888963407
		l.Next(4, 0, word)
	}
}
