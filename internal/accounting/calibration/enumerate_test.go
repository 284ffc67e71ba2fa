package calibration_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"minsep/mechanism"
)

// This file holds the truth that bounds are held against. It shares no code with the accounting:
// participation patterns by going through all coins, the matrix as rows of numbers, densities as
// sums over patterns, divergences by quadrature or by drawing outputs.

// mixture is P = Σ weights N(means, I), in units of σ; Q is N(0, I).
type mixture struct {
	logWeights []float64
	means      [][]float64
}

// distribution is how probable each vector of participations is; keys are fmt.Sprint of the vector.
type distribution map[string]chance

type chance struct {
	x    []int
	prob float64
}

func (l distribution) add(x []int, prob float64) {
	key := fmt.Sprint(x)
	c := l[key]
	l[key] = chance{slices.Clone(x), c.prob + prob}
}

// sorted lists the distribution in an order that is always the same.
func (l distribution) sorted() (list []chance) {
	for _, c := range l {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b chance) int { return slices.Compare(a.x, b.x) })
	return list
}

// coins goes through all coins of b-min-sep sampling from step i on, when the example is blocked
// for so many steps more.
func coins(l distribution, x []int, i, blocked, minSep int, p, prob float64) {
	switch {
	case prob == 0:
	case i == len(x):
		l.add(x, prob)
	case blocked > 0:
		coins(l, x, i+1, blocked-1, minSep, p, prob)
	default:
		coins(l, x, i+1, 0, minSep, p, prob*(1-p))
		x[i] = 1
		coins(l, x, i+1, minSep-1, minSep, p, prob*p)
		x[i] = 0
	}
}

// minSepDistribution is that of one example (arXiv 2602.09338, Algorithms 1 and 2).
func minSepDistribution(steps, minSep int, p float64, warm bool) distribution {
	l := distribution{}
	if !warm {
		coins(l, make([]int, steps), 0, 0, minSep, p, 1)
		return l
	}
	for wait := range minSep {
		prob := 1 / (1 + float64(minSep-1)*p)
		if wait > 0 {
			prob *= p
		}
		coins(l, make([]int, steps), 0, wait, minSep, p, prob)
	}
	return l
}

// binsDistribution has one participation a period, at a uniform phase.
func binsDistribution(steps, period int) distribution {
	l := distribution{}
	for phase := range period {
		x := make([]int, steps)
		for i := phase; i < steps; i += period {
			x[i] = 1
		}
		l.add(x, 1/float64(period))
	}
	return l
}

// epochDistribution has one participation an epoch (F3.8): a free example that is not yet in takes
// part with probability 1/(T - max(v, b-1)) at place v.
func epochDistribution(steps, minSep, epoch int) distribution {
	l := distribution{}
	var walk func(x []int, i, free int, prob float64)
	walk = func(x []int, i, free int, prob float64) {
		switch {
		case prob == 0:
		case i == len(x):
			l.add(x, prob)
		case i < free:
			walk(x, i+1, free, prob)
		default:
			p := 1 / float64(epoch-max(i%epoch, minSep-1))
			walk(x, i+1, free, prob*(1-p))
			x[i] = 1
			walk(x, i+1, max(i+minSep, i-i%epoch+epoch), prob*p)
			x[i] = 0
		}
	}
	walk(make([]int, steps), 0, 0, float64(epoch-minSep+1)/float64(epoch))
	for wait := 1; wait < minSep; wait++ {
		walk(make([]int, steps), 0, wait, 1/float64(epoch))
	}
	return l
}

// partDistribution throws a coin at the steps of one part.
func partDistribution(l distribution, steps, minSep, part int, p, prob float64) {
	turns := 0
	for i := part; i < steps; i += minSep {
		turns++
	}
	for bits := range 1 << turns {
		x, weight := make([]int, steps), prob
		for turn := range turns {
			if x[part+turn*minSep] = bits >> turn & 1; x[part+turn*minSep] == 1 {
				weight *= p
			} else {
				weight *= 1 - p
			}
		}
		l.add(x, weight)
	}
}

// times is the distribution of the sum of k independent vectors.
func (l distribution) times(k int) distribution {
	sum := l
	for range k - 1 {
		next := distribution{}
		for _, a := range sum.sorted() {
			for _, b := range l.sorted() {
				x := slices.Clone(a.x)
				for i, v := range b.x {
					x[i] += v
				}
				next.add(x, a.prob*b.prob)
			}
		}
		sum = next
	}
	return sum
}

// rows writes a Toeplitz strategy, or one of columns, as a matrix, without asking it.
func rows(s *mechanism.Strategy) [][]float64 {
	c := make([][]float64, s.Steps)
	for i := range c {
		c[i] = make([]float64, s.Steps)
	}
	for j := range s.Steps {
		column := s.Toeplitz
		if s.Columns != nil {
			column = s.Columns[j]
		}
		norm := 0.0
		for i, v := range column[:min(len(column), s.Steps-j)] {
			c[j+i][j] = v
			norm += v * v
		}
		for i := range column[:min(len(column), s.Steps-j)] {
			if s.Normalized {
				c[j+i][j] /= math.Sqrt(norm)
			}
		}
	}
	return c
}

// image is the mixture of C x/σ.
func (l distribution) image(c [][]float64, sigma float64) (m mixture) {
	for _, a := range l.sorted() {
		if a.prob == 0 {
			continue
		}
		m.logWeights = append(m.logWeights, math.Log(a.prob))
		mean := make([]float64, len(c))
		for i, row := range c {
			for j, v := range row {
				mean[i] += v * float64(a.x[j]) / sigma
			}
		}
		m.means = append(m.means, mean)
	}
	return m
}

// phi is the standard normal distribution function.
func phi(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// logRatio is ln P(y)/Q(y).
func (m mixture) logRatio(terms, y []float64) float64 {
	top := math.Inf(-1)
	for k, mean := range m.means {
		terms[k] = m.logWeights[k]
		for i, v := range mean {
			terms[k] += v*y[i] - v*v/2
		}
		top = max(top, terms[k])
	}
	sum := 0.0
	for _, t := range terms {
		sum += math.Exp(t - top)
	}
	return top + math.Log(sum)
}

// threshold is t with P/Q > e^ε exactly for a last coordinate above t, at the other coordinates of
// y. Means are not negative, so that P/Q rises with it.
func (m mixture) threshold(terms, y []float64, epsilon float64) float64 {
	last := len(y) - 1
	t, constant := math.Inf(1), 0.0
	for k, mean := range m.means {
		terms[k] = m.logWeights[k] - mean[last]*mean[last]/2
		for i, v := range mean[:last] {
			terms[k] += v*y[i] - v*v/2
		}
		if mean[last] == 0 {
			constant += math.Exp(terms[k] - epsilon)
		} else {
			t = min(t, (epsilon-terms[k])/mean[last])
		}
	}
	if constant >= 1 {
		return math.Inf(-1)
	}
	for range 100 { // Newton's method on a convex function, from where it is positive
		value, slope := constant, 0.0
		for k, mean := range m.means {
			if v := mean[last]; v != 0 {
				e := math.Exp(terms[k] + v*t - epsilon)
				value, slope = value+e, slope+e*v
			}
		}
		if math.IsInf(t, 1) || slope == 0 {
			return t
		}
		// In ln P/Q - ε, which is convex too.
		step := math.Log(value) * value / slope
		t -= step
		if step <= 1e-13*(1+math.Abs(t)) {
			break
		}
	}
	return t
}

// quadrature returns H(P,Q) and H(Q,P) at up to three steps, and the error: the last coordinate in
// closed form, the others by the trapezoid rule. Two grids that are shifted against each other show
// the error.
func (m mixture) quadrature(epsilon float64) (pq, qp, err float64) {
	spacing := []float64{1, 0.03, 0.3}[len(m.means[0])-1]
	a, b := m.grid(epsilon, spacing, 0)
	if len(m.means[0]) == 1 {
		return a, b, 1e-14
	}
	c, d := m.grid(epsilon, spacing, spacing/2)
	return (a + c) / 2, (b + d) / 2, 10*max(math.Abs(a-c), math.Abs(b-d)) + 1e-6*max(a, b) + 1e-14
}

// reach is how many standard deviations around the means are integrated over.
const reach = 8.5

func (m mixture) grid(epsilon, spacing, shift float64) (pq, qp float64) {
	n := len(m.means[0])
	y, terms := make([]float64, n), make([]float64, len(m.means))
	var walk func(dim int, volume float64, near []int)
	walk = func(dim int, volume float64, near []int) {
		if dim == n-1 {
			a, b := m.line(terms, y, epsilon)
			pq, qp = pq+volume*a, qp+volume*b
			return
		}
		most := 0.0
		for _, mean := range m.means {
			most = max(most, mean[dim])
		}
		for v := -reach + shift; v < most+reach; v += spacing {
			close := make([]int, 0, len(near)) // -1 is Q
			for _, k := range near {
				if at := v; k < 0 && math.Abs(at) < reach || k >= 0 && math.Abs(at-m.means[k][dim]) < reach {
					close = append(close, k)
				}
			}
			if y[dim] = v; len(close) > 0 {
				walk(dim+1, volume*spacing, close)
			}
		}
	}
	all := []int{-1}
	for k := range m.means {
		all = append(all, k)
	}
	walk(0, 1, all)
	return pq, qp
}

// line integrates over the last coordinate.
func (m mixture) line(terms, y []float64, epsilon float64) (pq, qp float64) {
	last := len(y) - 1
	above, below := m.threshold(terms, y, epsilon), m.threshold(terms, y, -epsilon) // e^ε < P/Q, and P/Q < e^-ε
	density := func(mean []float64) float64 {
		d := 1.0
		for i, v := range mean[:last] {
			d *= math.Exp(-(y[i]-v)*(y[i]-v)/2) / math.Sqrt(2*math.Pi)
		}
		return d
	}
	gamma, zero := math.Exp(epsilon), make([]float64, len(y))
	q := density(zero)
	pq, qp = -gamma*q*phi(-above), q*phi(below)
	for k, mean := range m.means {
		p := math.Exp(m.logWeights[k]) * density(mean)
		pq += p * phi(mean[last]-above)
		qp -= gamma * p * phi(below-mean[last])
	}
	return pq, qp
}

// draws estimates both divergences with their standard errors.
func (m mixture) draws(rng *rand.Rand, epsilon float64, samples int) (mean, stdErr [2]float64) {
	n := len(m.means[0])
	y, terms := make([]float64, n), make([]float64, len(m.means))
	for d := range 2 {
		sum, squares := 0.0, 0.0
		for range samples {
			k := -1
			if d == 0 {
				u := rng.Float64()
				for k = 0; k < len(m.means)-1; k++ {
					if u -= math.Exp(m.logWeights[k]); u < 0 {
						break
					}
				}
			}
			for i := range y {
				if y[i] = rng.NormFloat64(); k >= 0 {
					y[i] += m.means[k][i]
				}
			}
			value := -math.Expm1(epsilon - m.logRatio(terms, y))
			if d == 1 {
				value = -math.Expm1(epsilon + m.logRatio(terms, y))
			}
			value = max(0, value)
			sum, squares = sum+value, squares+value*value
		}
		mean[d] = sum / float64(samples)
		stdErr[d] = math.Sqrt(max(0, squares/float64(samples)-mean[d]*mean[d])/float64(samples)) + 1/float64(samples)
	}
	return mean, stdErr
}

// TestEnumeration holds the enumeration against what is known without it: the Gaussian mechanism,
// Poisson sampling in one step, quadrature against draws, and steps that do not matter.
func TestEnumeration(t *testing.T) {
	gaussian := func(d, epsilon float64) float64 { return phi(d/2-epsilon/d) - math.Exp(epsilon)*phi(-d/2-epsilon/d) }
	for n := 1; n <= 3; n++ {
		mean, norm := []float64{1.5, 0.7, 1.1}[:n], 0.0
		for _, v := range mean {
			norm += v * v
		}
		pq, qp, fault := mixture{[]float64{0}, [][]float64{mean}}.quadrature(0.8)
		if want := gaussian(math.Sqrt(norm), 0.8); math.Abs(pq-want) > 1e-9 || math.Abs(qp-want) > 1e-9 || fault > 1e-6 {
			t.Errorf("%d steps: Gaussian mechanism: %g, %g ± %g, want %g", n, pq, qp, fault, want)
		}
	}
	s := &mechanism.Strategy{Steps: 3, Toeplitz: []float64{1, 0.5}}
	m := minSepDistribution(3, 2, 0.3, true).times(2).image(rows(s), 0.8)
	pq, qp, fault := m.quadrature(0.5)
	mean, stdErr := m.draws(rand.New(rand.NewPCG(1, 2)), 0.5, 200000)
	if math.Abs(mean[0]-pq) > 6*stdErr[0] || math.Abs(mean[1]-qp) > 6*stdErr[1] || fault > 1e-5 {
		t.Errorf("quadrature %g, %g ± %g; draws %g ± %g", pq, qp, fault, mean, stdErr)
	}
	total := 0.0
	for _, c := range minSepDistribution(6, 3, 0.3, true).times(3) {
		total += c.prob
	}
	if math.Abs(total-1) > 1e-12 {
		t.Errorf("probabilities add up to %g", total)
	}
}
