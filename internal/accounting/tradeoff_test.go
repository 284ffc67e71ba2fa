package accounting

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// TestAtMost: a bound in words is never below it, and says so where it is none.
func TestAtMost(t *testing.T) {
	for _, c := range []struct {
		rate float64
		want string
	}{
		{1, "not bounded"}, {2, "not bounded"}, {0, "at most 0"}, {0.4621, "at most 0.463"}, {0.5, "at most 0.5"}, {0.25, "at most 0.25"},
		{0.9996, "at most 0.9996"}, {0.99999901, "at most 0.9999991"}, {2.7e-5, "at most 2.7e-05"}, {1e-3, "at most 0.001"}, {2.731e-5, "at most 2.74e-05"},
	} {
		if got := AtMost(c.rate); got != c.want {
			t.Errorf("%v: %q, want %q", c.rate, got, c.want)
		}
	}
	rng := rand.New(rand.NewPCG(4, 4))
	for range 100_000 {
		rate := math.Pow(10, -12*rng.Float64())
		if rng.IntN(2) == 0 {
			rate = 1 - rate
		}
		up, err := strconv.ParseFloat(RateUp(rate), 64)
		if err != nil || up < rate*(1-2e-12) || up > rate*1.011 || rate < 1 && up >= 1 {
			t.Fatalf("%v: %q, %v", rate, RateUp(rate), err)
		}
	}
}

// discretePair is P against Q on a few outcomes.
type discretePair struct{ p, q []float64 }

func randomPair(rng *rand.Rand, size int) (d discretePair) {
	draw := func() []float64 {
		list, sum := make([]float64, size), 0.0
		for i := range list {
			if rng.IntN(6) > 0 { // else an outcome that tells them apart
				list[i] = math.Pow(rng.Float64(), 1+3*rng.Float64())
			}
			sum += list[i]
		}
		if sum == 0 {
			list[0], sum = 1, 1
		}
		for i := range list {
			list[i] /= sum
		}
		return list
	}
	return discretePair{draw(), draw()}
}

// divergences are the hockey-stick divergences of both directions, by their definition.
func (d discretePair) divergences(epsilon float64) (pq, qp float64) {
	for i := range d.p {
		pq += max(0, d.p[i]-math.Exp(epsilon)*d.q[i])
		qp += max(0, d.q[i]-math.Exp(epsilon)*d.p[i])
	}
	return pq, qp
}

func (d discretePair) delta(epsilon float64) float64 { return max(d.divergences(epsilon)) }

// breaks are the ε at which δ, as a function of e^ε, changes its slope: the log ratios, and where
// the directions cross.
func (d discretePair) breaks() []float64 {
	list := []float64{0, 40}
	for i := range d.p {
		if d.p[i] > 0 && d.q[i] > 0 {
			list = append(list, math.Abs(math.Log(d.p[i]/d.q[i])))
		}
	}
	slices.Sort(list)
	ahead := func(epsilon float64) bool { pq, qp := d.divergences(epsilon); return pq > qp }
	for i, low := range list[1:] {
		low, high := list[i], low
		first := ahead(low)
		for range 60 {
			if mid := (low + high) / 2; ahead(mid) == first {
				low = mid
			} else {
				high = mid
			}
		}
		list = append(list, high)
	}
	return list
}

// best is the power of the best test of p against q at a level, by the lemma of Neyman and Pearson:
// outcomes by falling ratio, the last with a coin.
func best(p, q []float64, level float64) (power float64) {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		if p[i]*q[j] > p[j]*q[i] {
			return -1
		}
		return 1
	})
	for _, i := range order {
		share := 1.0
		if q[i] > level {
			share = level / q[i]
		}
		power, level = power+share*p[i], level-share*q[i]
	}
	return power
}

// TestAttacksHold: no test of random pairs is better than what their points say, and with a point
// at each break of δ they say no more than the concave hull of the tests.
func TestAttacksHold(t *testing.T) {
	rng := rand.New(rand.NewPCG(2026, 3))
	for range 120 {
		d := randomPair(rng, 2+rng.IntN(4))
		var few, all Guarantee
		for range 1 + rng.IntN(3) {
			epsilon := 4 * rng.Float64() * float64(rng.IntN(3))
			few = append(few, EpsilonDelta{epsilon, d.delta(epsilon)})
		}
		for _, epsilon := range d.breaks() {
			all = append(all, EpsilonDelta{epsilon, d.delta(epsilon)})
		}
		variation := d.delta(0)
		if a := few.Advantage(); a < variation*(1-1e-12) {
			t.Fatalf("%+v: advantage %g of %v is below the total variation %g", d, a, few, variation)
		}
		if a := all.Advantage(); math.Abs(a-variation) > 1e-9 {
			t.Fatalf("%+v: advantage %g of all points, total variation %g", d, a, variation)
		}
		for range 6 {
			level := rng.Float64() * pickFloat(rng, 1, 0.1, 0.01)
			forth, back := best(d.p, d.q, level), best(d.q, d.p, level)
			if got := few.TPR(level); got < max(forth, back)*(1-1e-12) {
				t.Fatalf("%+v: power %g and %g at level %g, %v says at most %g", d, forth, back, level, few, got)
			}
			// The points know the worse of the directions at each ε, so that the bound is the
			// concave hull of both tests and of their mirrors.
			if hull := d.hull(level); math.Abs(all.TPR(level)-hull) > 1e-9 {
				t.Fatalf("%+v: at level %g all points give %g, the hull of the tests is %g", d, level, all.TPR(level), hull)
			}
		}
		if few.TPR(1) != 1 || !slices.IsSortedFunc(few.Attacks(), func(a, b Attack) int { return int(math.Copysign(1, a.TPR-b.TPR+1e-15)) }) {
			t.Fatalf("%v: %v", few, few.Attacks())
		}
	}
}

func pickFloat(rng *rand.Rand, values ...float64) float64 { return values[rng.IntN(len(values))] }

// hull is the least concave bound of the tests of both directions: the least line above all corners
// (level, power) of both. Each direction is its own mirror image with P and Q exchanged, so that
// corners of both directions are those of all four.
func (d discretePair) hull(level float64) float64 {
	type point struct{ x, y float64 }
	var corners []point
	for _, pair := range [][2][]float64{{d.p, d.q}, {d.q, d.p}} {
		for mask := range 1 << len(d.p) { // every test without a coin
			var c point
			for i := range d.p {
				if mask>>i&1 == 1 {
					c.x, c.y = c.x+pair[1][i], c.y+pair[0][i]
				}
			}
			corners = append(corners, c)
		}
	}
	highest := 0.0
	for _, a := range corners {
		for _, b := range corners {
			switch {
			case a.x <= level && level <= b.x && b.x > a.x:
				highest = max(highest, a.y+(b.y-a.y)*(level-a.x)/(b.x-a.x))
			case a.x <= level:
				highest = max(highest, a.y)
			}
		}
	}
	return highest
}

// TestAttacksOfHugeEpsilon: where e^ε is no float64, bounds are numbers still, and bound nothing
// but what the other points do.
func TestAttacksOfHugeEpsilon(t *testing.T) {
	for _, epsilon := range []float64{700, 709.7, 709.8, 740, 1000, 1e300} {
		g := Guarantee{{epsilon, 1e-5}}
		if g.Advantage() < 1-1e-9 || g.TPR(1e-3) < 1-1e-9 || g.TPR(0) > 1.1e-5 || g.TPR(0) < 1e-5 {
			t.Errorf("ε = %g: advantage %g, power %g at 1e-3, %g at 0", epsilon, g.Advantage(), g.TPR(1e-3), g.TPR(0))
		}
		small := Guarantee{{1, 1e-5}}
		both := append(small[:1:1], EpsilonDelta{epsilon, 1e-9})
		if a, b := small.Advantage(), both.Advantage(); !(math.Abs(a-b) <= 1e-12) {
			t.Errorf("ε = 1 and %g: advantage %g, that of 1 alone is %g", epsilon, b, a)
		}
	}
}
