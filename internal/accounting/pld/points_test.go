package pld

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"minsep/internal/must"
)

// best is the least δ of k trainings of one point (ε, δ), by the theorem of Kairouz, Oh and
// Viswanath (arXiv 1311.0776, Theorem 3.3), at kε - 2iε; they show that no smaller one holds.
func best(epsilon, delta float64, k, i int) (at, least float64) {
	at = float64(k-2*i) * epsilon
	sum := 0.0
	for l := range i {
		choose, _ := math.Lgamma(float64(k + 1))
		a, _ := math.Lgamma(float64(l + 1))
		b, _ := math.Lgamma(float64(k - l + 1))
		sum += math.Exp(choose-a-b+epsilon*float64(k-l)-float64(k)*math.Log1p(math.Exp(epsilon))) * -math.Expm1(float64(2*l-2*i)*epsilon)
	}
	return at, 1 - math.Pow(1-delta, float64(k))*(1-sum)
}

func TestTogetherOfOnePoint(t *testing.T) {
	for _, c := range []struct {
		epsilon, delta float64
		k              int
	}{{1, 1e-5, 1}, {1, 1e-5, 4}, {0.1, 1e-6, 50}, {2, 0, 7}, {8, 1e-5, 3}, {0.01, 1e-3, 1000}} {
		together := must.Get(Compose([]Step{{Points{{c.epsilon, c.delta}}, c.k}}, Options{}))(t)
		pq, _ := Points{{c.epsilon, c.delta}}.losses(0.01, 0)
		if last := pq.mass[len(pq.mass)-1]; last < 2e-15 || last > 1e-12 { // for the rounding of two sides or three
			t.Errorf("%+v: the highest loss has the mass %g", c, last)
		}
		for i := 0; 2*i <= c.k && i < 30; i++ {
			at, want := best(c.epsilon, c.delta, c.k, i)
			got := must.Get(together.Delta(at))(t)
			if got < want*(1-1e-9) || got > want*(1+1e-6)+1e-11 {
				t.Errorf("%+v at ε = %g: δ = %.9g, the theorem has %.9g", c, at, got, want)
			}
		}
	}
}

// TestTogetherIsAboveEnumeration compares with sums over all outcomes of the pairs before they are
// put on the grid.
func TestTogetherIsAboveEnumeration(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for trial := range 30 {
		var trainings []Step
		for range 1 + r.IntN(3) {
			var points Points
			for range 1 + r.IntN(4) {
				points = append(points, Point{3 * r.Float64() * float64(r.IntN(4)), math.Exp(-12 * r.Float64())})
			}
			trainings = append(trainings, Step{points, 1})
		}
		together := must.Get(Compose(trainings, Options{}))(t)
		for _, epsilon := range []float64{0, 0.3, 1, 2.5, 6, 12} {
			want := enumerated(trainings, epsilon)
			got := must.Get(together.Delta(epsilon))(t)
			if got < want*(1-1e-9) || got > want*(1+2e-3)+1e-9 {
				t.Errorf("trial %d, ε = %g: δ = %.12g, by enumeration %.12g: %v", trial, epsilon, got, want, trainings)
			}
		}
	}
}

// enumerated is the divergence of the product of the points' curves, by the outcomes of all.
func enumerated(trainings []Step, epsilon float64) float64 {
	type outcome struct{ p, q float64 }
	all := []outcome{{1, 1}}
	for _, training := range trainings {
		points := training.Event.(Points)
		// The curve at its corners, by the definition of F6.1.
		curve := func(fpr float64) float64 {
			most := 1.0
			for _, p := range points {
				most = min(most, p.Delta+math.Exp(p.Epsilon)*fpr, 1-math.Exp(-p.Epsilon)*(1-p.Delta-fpr))
			}
			return most
		}
		corners := []float64{0, 1}
		var lines [][2]float64
		for _, p := range points {
			lines = append(lines, [2]float64{p.Delta, math.Exp(p.Epsilon)}, [2]float64{1 - math.Exp(-p.Epsilon)*(1-p.Delta), math.Exp(-p.Epsilon)})
		}
		lines = append(lines, [2]float64{1, 0})
		for i, a := range lines {
			for _, b := range lines[:i] {
				if x := (b[0] - a[0]) / (a[1] - b[1]); x > 0 && x < 1 {
					corners = append(corners, x)
				}
			}
		}
		slices.Sort(corners)
		outcomes := []outcome{{curve(0), 0}}
		for i := range corners[1:] {
			outcomes = append(outcomes, outcome{curve(corners[i+1]) - curve(corners[i]), corners[i+1] - corners[i]})
		}
		var next []outcome
		for _, a := range all {
			for _, b := range outcomes {
				next = append(next, outcome{a.p * b.p, a.q * b.q})
			}
		}
		all = next
	}
	sum := 0.0
	for _, o := range all {
		sum += max(0, o.p-math.Exp(epsilon)*o.q)
	}
	return sum
}

// TestTogetherOfManyPoints holds that points that a Gaussian mechanism has compose to little more
// than the Gaussian mechanism of all.
func TestTogetherOfManyPoints(t *testing.T) {
	gaussian := func(mu, epsilon float64) float64 {
		phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
		return phi(mu/2-epsilon/mu) - math.Exp(epsilon)*phi(-mu/2-epsilon/mu)
	}
	var points Points
	for epsilon := 0.0; epsilon <= 12; epsilon += 0.25 {
		points = append(points, Point{epsilon, gaussian(1, epsilon)})
	}
	together := must.Get(Compose([]Step{{points, 4}}, Options{}))(t)
	found := must.Get(together.Epsilon(1e-5))(t)
	four := must.Get(Compose([]Step{{Release{Prob: 1, NoiseMultiplier: 0.5, Sensitivity: 1, Examples: 1}, 1}}, Options{}))(t)
	want := must.Get(four.Epsilon(1e-5))(t)
	if found < want || found > 1.03*want {
		t.Errorf("ε = %g by the points, %g of the mechanism", found, want)
	}
}

func TestTogetherRefuses(t *testing.T) {
	for name, list := range map[string][]Step{
		"no point":  {{Points{}, 1}},
		"no times":  {{Points{{1, 1e-5}}, 0}},
		"negative":  {{Points{{-1, 0.1}}, 1}},
		"no number": {{Points{{math.NaN(), 0.1}}, 1}},
		"above 1":   {{Points{{1, 1.1}}, 1}},
	} {
		if _, err := Compose(list, Options{}); err == nil {
			t.Errorf("%s is not refused", name)
		}
	}
	lost := must.Get(Compose([]Step{{Points{{LargestPoint + 1, 1e-9}}, 1}}, Options{}))(t)
	if found, err := lost.Epsilon(0.5); err != nil || !math.IsInf(found, 1) {
		t.Errorf("a point beyond the largest promises ε = %v, %v", found, err)
	}
}

// TestTogetherOfLargeDelta: where losses have few values, ε at a large δ is that of the theorem.
func TestTogetherOfLargeDelta(t *testing.T) {
	for _, c := range []struct{ epsilon, delta float64 }{{1, 0.12}, {3, 0.01}, {0.2, 0.001}} {
		together := must.Get(Compose([]Step{{Points{{c.epsilon, c.delta}}, 1}}, Options{}))(t)
		most := c.delta + (1-c.delta)*math.Tanh(c.epsilon/2) // δ at ε = 0
		for _, part := range []float64{1e-3, 0.1, 0.3, 0.5, 0.7, 0.9} {
			at := c.delta + part*(most-c.delta)
			want := math.Log(math.Exp(c.epsilon) - (at-c.delta)/(1-c.delta)*(1+math.Exp(c.epsilon)))
			got, err := together.Epsilon(at)
			if err != nil || got < want-1e-9 || got > want+2e-3*c.epsilon {
				t.Errorf("(%g, %g) has ε = %g at δ = %g, %v; the theorem has %g", c.epsilon, c.delta, got, at, err, want)
			}
		}
	}
}

// TestPointsBesideEvents: a point of one training and a Gaussian mechanism have the product of both.
func TestPointsBesideEvents(t *testing.T) {
	const mu, epsilon0, delta0 = 0.8, 0.7, 0.003
	gaussian := func(epsilon float64) float64 {
		phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
		return phi(mu/2-epsilon/mu) - math.Exp(epsilon)*phi(-mu/2-epsilon/mu)
	}
	together := []Step{
		{Points{{epsilon0, delta0}}, 1},
		{Release{Prob: 1, NoiseMultiplier: 1 / mu, Sensitivity: 1, Examples: 1}, 1},
	}
	up := (1 - delta0) / (1 + math.Exp(-epsilon0)) // of the outcome of loss ε₀ under P
	for _, epsilon := range []float64{0, 0.4, 1, 3} {
		want := delta0 + up*gaussian(epsilon-epsilon0) + (1-delta0-up)*gaussian(epsilon+epsilon0)
		if got := deltaOf(t, together, Options{}, epsilon); got < want*(1-1e-9) || got > want*(1+1e-4) {
			t.Errorf("ε = %g: δ = %.9g with a Gaussian mechanism, by its closed form %.9g", epsilon, got, want)
		}
	}
}

// TestCoarser: a coarser grid keeps the bounds bounds, and changes them little where it is fine.
func TestCoarser(t *testing.T) {
	for _, e := range unlikeEvents {
		c := must.Get(Compose([]Step{{e, 100}}, Options{}))(t)
		for _, l := range []Loss{c.PQ, c.QP} {
			twice := l.coarser().coarser()
			for _, epsilon := range []float64{0.1, 1, 4} {
				fine := must.Get(l.Delta(epsilon))(t)
				coarse := must.Get(twice.Delta(epsilon))(t)
				if coarse < fine*(1-1e-9)-1e-18 || coarse > fine*(1+5e-3)+1e-18 {
					t.Errorf("%+v, ε = %g: %g on a grid of %g, %g on one four times as coarse", e, epsilon, fine, l.grid, coarse)
				}
			}
		}
	}
}

// TestMostTrainings: a million trainings are composed in a window of bounded size, and many
// trainings of small δ have a finite ε at a δ that is little above the sum of theirs.
func TestMostTrainings(t *testing.T) {
	const epsilon, most = 0.5, 1_000_000
	together := must.Get(Compose([]Step{{Points{{epsilon, 0}}, most}}, Options{}))(t)
	got := must.Get(together.Epsilon(1e-6))(t)
	// The sum of the losses ±ε is next to normal, so deep in the middle of its range.
	mean, deviation := most*epsilon*math.Tanh(epsilon/2), math.Sqrt(most)*epsilon/math.Cosh(epsilon/2)
	if got < mean+4.5*deviation || got > mean+4.9*deviation {
		t.Errorf("ε = %g for %d trainings, where the mean loss is %g and its standard deviation %g", got, most, mean, deviation)
	}
	small := must.Get(Compose([]Step{{Points{{0.001, 1e-14}, {0.01, 1e-15}, {0.02, 1e-16}}, 30_000}}, Options{}))(t)
	if got, err := small.Epsilon(1e-11); err != nil || !(got > 0.2 && got < 3) {
		t.Errorf("30,000 trainings of (0.001, 1e-14): ε = %g, %v", got, err)
	}
}
