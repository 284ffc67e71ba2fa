package mechanism

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// covariance is that of the noise in the model s and the velocity v of a recursive workload: Var s,
// Cov(s, v) and Var v.
type covariance struct{ ss, sv, vv float64 }

// advance takes c from before step i to after it. The input of the step has the variance y, and the
// covariances cs and cv with the model and the velocity before it.
func (c *covariance) advance(a *Workload, i int, y, cs, cv float64) {
	eta, keep, beta, pull := a.rate(i), a.keep(i), a.Momentum, a.pull()
	vv := beta*beta*c.vv + 2*beta*cv + y + pull*(pull*c.ss-2*beta*c.sv-2*cs)
	cross := beta*c.sv + cs - pull*c.ss // old model with new velocity
	c.ss = keep*keep*c.ss + (2*eta*keep*cross + eta*eta*vv)
	c.sv, c.vv = keep*cross+eta*vv, vv
}

// retreat is the reverse of advance for c that holds derivatives of Σ_t Var s_t: it takes them from
// after step i to before it, and returns the derivatives by y, cs and cv.
func (c *covariance) retreat(a *Workload, i int) (y, cs, cv float64) {
	eta, keep, beta, pull := a.rate(i), a.keep(i), a.Momentum, a.pull()
	c.ss++
	y = c.vv + eta*eta*c.ss + eta*c.sv
	cross := 2*eta*keep*c.ss + keep*c.sv
	c.ss, c.sv, c.vv = keep*keep*c.ss+pull*pull*y-pull*cross, beta*cross-2*beta*pull*y, beta*beta*y
	return y, cross - 2*pull*y, 2 * beta * y
}

// bandedCovariance evaluates the error of a banded strategy on a recursive workload in O(n·bands²)
// and its gradient in as much: far below the O(n²·bands) of arXiv 2405.15913, Algorithm 3, with the
// same result.
//
// The noise y = C⁻¹z is an autoregression, y_i = Σ_j u_j y_{i-j} + z_i/C[i][i] with u_j =
// -C[i][i-j]/C[i][i]. The noise in the model s and its velocity v is a linear state driven by y:
// v_i = β v_{i-1} + y_i - f s_{i-1} and s_i = g_i s_{i-1} + η_i v_i, where f is the factor by which
// the workload pulls back, and g_i the factor that it keeps. So it is enough to carry K, the
// covariance of the last m = bands-1 values of y, and R, the covariance of s and v with these.
// Value y_t is in slot t mod m.
type bandedCovariance struct {
	a    *Workload
	n, m int
	rows []float64       // [n × (m+1)] C[i][i-j] at j, zero where i < j; set before forward
	tape *covarianceTape // the values that backward needs of forward; nil: there is no backward
}

// covarianceTape has the values that forward leaves for backward, [n × m] each. For every step it
// has y's covariance with the slots, the row of K that y replaced, and R for s and v.
type covarianceTape struct {
	k, old, rs, rv []float64
}

// newBandedCovariance returns an evaluation without a tape of the rows of s, after its columns are
// divided by their norms if it is normalised.
func newBandedCovariance(s *Strategy, a *Workload) *bandedCovariance {
	e := &bandedCovariance{a: a, n: s.Steps, m: max(1, s.Bands()-1)}
	e.rows = make([]float64, e.n*(e.m+1))
	var column []float64
	for i := range e.n {
		column = s.Column(column, i)
		for j, v := range column {
			e.rows[(i+j)*(e.m+1)+j] = v
		}
	}
	return e
}

// autoregression sets u to the coefficients of step i by slot and returns 1/C[i][i].
func (e *bandedCovariance) autoregression(u []float64, i int) float64 {
	row := e.rows[i*(e.m+1) : (i+1)*(e.m+1)]
	inverse := 1 / row[0]
	slot := i % e.m
	for _, c := range row[1:] {
		if slot--; slot < 0 {
			slot = e.m - 1
		}
		u[slot] = -c * inverse
	}
	return inverse
}

// symmetricTimes sets dst to K x, for the m × m matrix K. K is symmetric, but held whole: Dgemv is
// faster than the routine for symmetric matrices.
func symmetricTimes(dst, k, x []float64, m int) {
	blas64.Implementation().Dgemv(blas.NoTrans, m, m, 1, k, m, x, 1, 0, dst, 1)
}

// forward returns the variance of s_i at every step, and fills the tape.
func (e *bandedCovariance) forward() []float64 {
	tape := e.tape
	n, m, beta, pull := e.n, e.m, e.a.Momentum, e.a.pull()
	if tape != nil && len(tape.k) != n*m {
		*tape = covarianceTape{
			make([]float64, n*m),
			make([]float64, n*m),
			make([]float64, n*m),
			make([]float64, n*m),
		}
	}
	K, k, u := make([]float64, m*m), make([]float64, m), make([]float64, m)
	rs, rv := make([]float64, m), make([]float64, m)
	var state covariance
	variance := make([]float64, n)
	for i := range n {
		p, eta, keep := i%m, e.a.rate(i), e.a.keep(i)
		inverse := e.autoregression(u, i)
		symmetricTimes(k, K, u, m)
		if tape != nil {
			at := i * m
			copy(tape.k[at:], k)
			copy(tape.old[at:at+m], K[p*m:])
			copy(tape.rs[at:], rs)
			copy(tape.rv[at:], rv)
		}
		y, cs, cv := inverse*inverse, 0.0, 0.0 // Var y_i; covariance of the old s and v with y_i
		for b, v := range u {
			y += v * k[b]
			cs += v * rs[b]
			cv += v * rv[b]
		}
		state.advance(e.a, i, y, cs, cv)
		variance[i] = state.ss
		for b, v := range k {
			rv[b] = beta*rv[b] + v - pull*rs[b]
			rs[b] = keep*rs[b] + eta*rv[b]
			K[b*m+p] = v
		}
		copy(K[p*m:(p+1)*m], k)
		K[p*m+p] = y
		rv[p] = beta*cv + y - pull*cs
		rs[p] = keep*cs + eta*rv[p]
	}
	return variance
}

// backward adds to grad, of the shape of rows, the gradient of Σ_i variance[i] after a forward with a
// tape: the same recursion in reverse. A name with G is the derivative by that
// quantity.
func (e *bandedCovariance) backward(grad []float64) {
	n, m, beta, pull := e.n, e.m, e.a.Momentum, e.a.pull()
	K, KG := make([]float64, m*m), make([]float64, m*m)
	kG, u, uG := make([]float64, m), make([]float64, m), make([]float64, m)
	rsG, rvG := make([]float64, m), make([]float64, m)
	var stateG covariance
	e.lastCovariance(K)
	for i := n - 1; i >= 0; i-- {
		p, at, eta, keep := i%m, i*m, e.a.rate(i), e.a.keep(i)
		k, old, rs, rv := e.tape.k[at:at+m], e.tape.old[at:at+m], e.tape.rs[at:at+m], e.tape.rv[at:at+m]
		inverse := e.autoregression(u, i)

		yG, csG, cvG := stateG.retreat(e.a, i)
		rvG[p] += eta * rsG[p]
		csG = csG + keep*rsG[p] - pull*rvG[p]
		cvG += beta * rvG[p]
		yG = yG + rvG[p] + KG[p*m+p]
		for b := range kG {
			rvG[b] += eta * rsG[b]
			kG[b] = rvG[b] + KG[p*m+b] + KG[b*m+p] + yG*u[b]
			rsG[b] = keep*rsG[b] - pull*rvG[b] + csG*u[b]
			rvG[b] = beta*rvG[b] + cvG*u[b]
			KG[b*m+p] = 0
			K[b*m+p] = old[b]
		}
		kG[p] = yG * u[p]
		rvG[p], rsG[p] = cvG*u[p], csG*u[p]
		clear(KG[p*m : (p+1)*m])
		copy(K[p*m:(p+1)*m], old)

		symmetricTimes(uG, K, kG, m)
		blas64.Implementation().Dger(m, m, 1, kG, 1, u, 1, KG, m)
		diagonal := -2 * yG * inverse * inverse * inverse
		slot := p
		g := grad[i*(m+1) : (i+1)*(m+1)]
		for b := range uG {
			uG[b] += yG*k[b] + csG*rs[b] + cvG*rv[b]
			diagonal -= uG[b] * u[b] * inverse
		}
		for j := 1; j <= m; j++ {
			if slot--; slot < 0 {
				slot = m - 1
			}
			g[j] -= uG[slot] * inverse
		}
		g[0] += diagonal
	}
}

// lastCovariance rebuilds K after the last step from the tape, which has the covariances of each
// y_t with the earlier values that step t computed.
func (e *bandedCovariance) lastCovariance(K []float64) {
	n, m := e.n, e.m
	u := make([]float64, m)
	for t := max(0, n-m); t < n; t++ {
		k, p := e.tape.k[t*m:(t+1)*m], t%m
		inverse := e.autoregression(u, t)
		y := inverse * inverse
		for b, v := range k {
			y += u[b] * v
			K[p*m+b], K[b*m+p] = v, v
		}
		K[p*m+p] = y
	}
}
