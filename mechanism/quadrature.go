package mechanism

import "math"

// node is one term of the square root's rational approximation: √x ≈ Σ weight·x/(x + shift).
type node struct{ weight, shift float64 }

// sqrtNodes returns nodes that give √x with relative error of about tolerance for all x in
// [low, high]: the trapezoid rule after an elliptic change of variables (Hale, Higham,
// Trefethen 2008, method 3). Its error falls like exp(-2π²N/(ln(high/low)+3)).
func sqrtNodes(low, high, tolerance float64) []node {
	n := int(math.Ceil((math.Log(high/low) + 3) * math.Log(1/tolerance) / (2 * math.Pi * math.Pi)))
	nodes := make([]node, max(n, 3))
	agm := newLanden(low / high)
	quarter := agm.quarterPeriod()
	for j := range nodes {
		sn, cn, dn := agm.jacobi((float64(j) + .5) / float64(len(nodes)) * quarter)
		nodes[j] = node{
			weight: 2 * quarter * math.Sqrt(low) / (math.Pi * float64(len(nodes))) * dn / (cn * cn),
			shift:  low * (sn / cn) * (sn / cn),
		}
	}
	return nodes
}

// landen computes Jacobi's elliptic functions of parameter m = 1-m1 by the arithmetic-geometric
// mean (Abramowitz and Stegun 16.4).
type landen struct {
	m1   float64
	a, c []float64 // of each round of the mean
}

// newLanden runs the mean until it has converged in double precision.
func newLanden(m1 float64) *landen {
	l := &landen{m1: m1}
	a, b, c := 1.0, math.Sqrt(m1), math.Sqrt(1-m1)
	for {
		l.a, l.c = append(l.a, a), append(l.c, c)
		if c <= 1e-14*a { // the next would be below its square
			return l
		}
		a, b, c = (a+b)/2, math.Sqrt(a*b), (a-b)/2
	}
}

// quarterPeriod is the complete elliptic integral K(m).
func (l *landen) quarterPeriod() float64 { return math.Pi / 2 / l.a[len(l.a)-1] }

// jacobi returns sn(u|m), cn(u|m) and dn(u|m), 0 ≤ u ≤ K(m), to full relative precision.
func (l *landen) jacobi(u float64) (sn, cn, dn float64) {
	if quarter := l.quarterPeriod(); u > quarter/2 { // where cn is small it comes from sn (16.8)
		sn, cn, dn = l.jacobi(quarter - u)
		k1 := math.Sqrt(l.m1)
		return cn / dn, k1 * sn / dn, k1 / dn
	}
	last := len(l.a) - 1
	phi := math.Ldexp(l.a[last]*u, last)
	for i := last; i > 0; i-- {
		phi = (phi + math.Asin(l.c[i]/l.a[i]*math.Sin(phi))) / 2
	}
	sn, cn = math.Sincos(phi)
	return sn, cn, math.Sqrt(cn*cn + l.m1*sn*sn)
}
