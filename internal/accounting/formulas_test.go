package accounting_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/must"
)

// These tests hold inequalities of docs/formulas.md that the certificates rest on, and that no code
// computes, against quadrature: they check the formulas, with densities of their own.

// plane integrates over outputs of two steps with noise N(0, 1): midpoints of square cells.
type plane struct{ points, weights []float64 }

func newPlane() (p plane) {
	const half, width = 90, 0.1
	for i := -half; i < half; i++ {
		x := (float64(i) + 0.5) * width
		p.points = append(p.points, x)
		p.weights = append(p.weights, width*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi))
	}
	return p
}

// divergences returns H_γ(P,Q) and H_γ(Q,P) for the ratio f of densities against Q = N(0, I).
func (p plane) divergences(gamma float64, f func(y1, y2 float64) float64) (pq, qp float64) {
	for i, y1 := range p.points {
		for j, y2 := range p.points {
			r, w := f(y1, y2), p.weights[i]*p.weights[j]
			pq += w * max(r-gamma, 0)
			qp += w * max(1-gamma*r, 0)
		}
	}
	return pq, qp
}

// quadrature is the relative error allowed to plane.divergences; the absolute one covers the ends
// of the plane.
const quadrature, outside = 1e-2, 1e-12

func exceeds(a, b float64) bool { return a > b*(1+quadrature)+outside }

// mixture is Σ π_x N(m_x, I) against N(0, I).
type mixture struct {
	weights []float64
	means   [][2]float64
}

func (m mixture) ratio(y1, y2 float64) (sum float64) {
	for i, w := range m.weights {
		a := m.means[i]
		sum += w * math.Exp(a[0]*y1+a[1]*y2-(a[0]*a[0]+a[1]*a[1])/2)
	}
	return sum
}

func randomWeights(rng *rand.Rand, n int) []float64 {
	weights, total := make([]float64, n), 0.0
	for i := range weights {
		weights[i] = math.Exp(3 * rng.NormFloat64())
		total += weights[i]
	}
	for i := range weights {
		weights[i] /= total
	}
	return weights
}

// TestGramDomination is F3.0: means whose inner products are all at least as large give larger
// divergences, in both directions. The larger ones here lie on a line, or are the same with a
// common shift in a further direction.
func TestGramDomination(t *testing.T) {
	rng := rand.New(rand.NewPCG(30, 0))
	p := newPlane()
	strict := 0
	for range 40 {
		n := 2 + rng.IntN(3)
		small := mixture{weights: randomWeights(rng, n)}
		large := mixture{weights: small.weights}
		shared := rng.IntN(2) == 0
		shift := 1.5 * rng.Float64()
		for range n {
			a, b := rng.NormFloat64(), rng.NormFloat64()
			if shared {
				small.means = append(small.means, [2]float64{a, 0})
				large.means = append(large.means, [2]float64{a, shift})
			} else {
				small.means = append(small.means, [2]float64{a, b})
				large.means = append(large.means, [2]float64{math.Hypot(a, b), 0})
			}
		}
		gamma := math.Exp(2 * rng.Float64())
		pq, qp := p.divergences(gamma, small.ratio)
		morePQ, moreQP := p.divergences(gamma, large.ratio)
		if exceeds(pq, morePQ) || exceeds(qp, moreQP) {
			t.Errorf("γ %g: %v has (%g, %g), %v only (%g, %g)", gamma, small, pq, qp, large, morePQ, moreQP)
		}
		if exceeds(morePQ, pq) {
			strict++
		}
	}
	if strict < 20 {
		t.Errorf("only %d of 40 differ: the cases show nothing", strict)
	}
}

// adaptive is a mechanism of two steps and one coordinate: contributions g1 and g2 of size at most
// 1 may depend on the participations x, and g2 also on the first release.
type adaptive struct {
	c       [3]float64 // C11, C21, C22
	x       [][2]float64
	weights []float64
	g1      []float64 // for each x
	sign    []float64 // g2 = sign · (1 or -1 for a first release above or below edge)
	edge    []float64
}

func (a adaptive) ratio(y1, y2 float64) (sum float64) {
	for i, x := range a.x {
		g2 := a.sign[i]
		if y1 < a.edge[i] {
			g2 = -g2
		}
		m1 := a.c[0] * x[0] * a.g1[i]
		m2 := a.c[1]*x[0]*a.g1[i] + a.c[2]*x[1]*g2
		sum += a.weights[i] * math.Exp(m1*y1+m2*y2-(m1*m1+m2*m2)/2)
	}
	return sum
}

// scalar is the pair that is to dominate: Cx + z against z.
func (a adaptive) scalar() mixture {
	m := mixture{weights: a.weights}
	for _, x := range a.x {
		m.means = append(m.means, [2]float64{a.c[0] * x[0], a.c[1]*x[0] + a.c[2]*x[1]})
	}
	return m
}

func randomAdaptive(rng *rand.Rand, below float64) adaptive {
	a := adaptive{c: [3]float64{0.3 + rng.Float64(), below, 0.3 + rng.Float64()},
		x: [][2]float64{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 1}}}
	a.weights = randomWeights(rng, len(a.x))
	for range a.x {
		a.g1 = append(a.g1, []float64{-1, 1, 2*rng.Float64() - 1}[rng.IntN(3)])
		a.sign = append(a.sign, []float64{-1, 1, 2*rng.Float64() - 1}[rng.IntN(3)])
		a.edge = append(a.edge, 0.1*float64(rng.IntN(41)-20))
	}
	return a
}

// TestAdaptiveDomination is F3.0a for two steps: no choice of contributions gives more than the
// scalar pair when C ≥ 0. With a negative entry some do, so that the cases can tell.
func TestAdaptiveDomination(t *testing.T) {
	rng := rand.New(rand.NewPCG(30, 1))
	p := newPlane()
	broken := 0
	for range 40 {
		gamma := math.Exp(2 * rng.Float64())
		a := randomAdaptive(rng, rng.Float64())
		pq, qp := p.divergences(gamma, a.ratio)
		morePQ, moreQP := p.divergences(gamma, a.scalar().ratio)
		if exceeds(pq, morePQ) || exceeds(qp, moreQP) {
			t.Errorf("γ %g: %+v has (%g, %g), the scalar pair only (%g, %g)", gamma, a, pq, qp, morePQ, moreQP)
		}
		a.c[1] = -a.c[2]
		pq, qp = p.divergences(gamma, a.ratio)
		morePQ, moreQP = p.divergences(gamma, a.scalar().ratio)
		if exceeds(pq, morePQ) || exceeds(qp, moreQP) {
			broken++
		}
	}
	if broken == 0 {
		t.Error("no case shows that C ≥ 0 is needed")
	}
}

// TestAdaptiveSensitivity is the proof at the end of F2: with known participations the Gaussian
// mechanism of sensitivity (Σ |CᵀC|)^½ dominates contributions that depend on the first release,
// for entries of any sign.
func TestAdaptiveSensitivity(t *testing.T) {
	rng := rand.New(rand.NewPCG(30, 2))
	p := newPlane()
	near := 0
	for range 20 {
		a := randomAdaptive(rng, 2*rng.Float64()-1)
		a.x, a.weights = [][2]float64{{1, 1}}, []float64{1}
		epsilon := 2 * rng.Float64()
		square := a.c[0]*a.c[0] + a.c[1]*a.c[1] + a.c[2]*a.c[2] + 2*math.Abs(a.c[1]*a.c[2])
		delta := must.Get(accounting.Gaussian{Sensitivity: math.Sqrt(square), NoiseMultiplier: 1}.Delta(epsilon))(t)
		pq, qp := p.divergences(math.Exp(epsilon), a.ratio)
		if exceeds(max(pq, qp), delta) {
			t.Errorf("ε %g: %+v has (%g, %g), the Gaussian mechanism only %g", epsilon, a, pq, qp, delta)
		}
		if max(pq, qp) > delta/2 {
			near++
		}
	}
	if near == 0 {
		t.Error("no case comes near the bound")
	}
}
