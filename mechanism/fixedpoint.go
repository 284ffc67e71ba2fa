package mechanism

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Limits of the iteration for the dense optimum.
const (
	denseSweeps   = 400 // largest number of evaluations
	andersonDepth = 8   // earlier steps that an extrapolation combines
)

// denseFixedPoint iterates U_s ← tr(X_s)² u_s corr(U_s^½ corr(X_s)² U_s^½), where corr scales to a
// unit diagonal. At its fixed points the X_s are diagonal and have equal traces. It works on the
// logarithms of U_s: any combination of them, such as Anderson acceleration makes, is the logarithm
// of a positive definite matrix.
func denseFixedPoint(ctx context.Context, p Problem, d *dual, limit float64) (s *Strategy, gap float64, err error) {
	size := 0
	for _, c := range d.classes {
		size += len(c) * len(c)
	}
	y := make([]float64, size) // logarithms of U_s; zero is U = I
	mixer := &anderson{depth: andersonDepth}
	gap = math.Inf(1)
	best := 0.0
	target := math.Sqrt(limit / 6) // of the residual: the gap is of second order in it
	for range denseSweeps {
		classes := d.unpack(y)
		xs, trace, err := d.evaluate(ctx, classes)
		if err != nil {
			return nil, 0, err
		}
		total := 0.0
		for _, c := range classes {
			total += c.u.At(0, 0)
		}
		value := trace * trace / total / float64(d.n)
		next, residual := d.step(classes, xs)
		if residual <= target {
			s, err := d.strategy(ctx, classes)
			if err != nil {
				return nil, 0, err
			}
			loss, err := p.Loss(s)
			if err != nil {
				return nil, 0, err
			}
			if gap = 1 - value/loss + roundingGap; gap <= limit {
				return s, gap, nil
			}
			target /= 2
		}
		if value < best*(1-1e-3) { // an extrapolation went astray
			mixer.forget()
		}
		best = max(best, value)
		y = mixer.next(y, next)
	}
	return nil, gap, notConverged(gap, denseSweeps, limit)
}

// unpack returns the classes for the logarithms y, scaled so that each U_s has a constant diagonal.
func (d *dual) unpack(y []float64) []class {
	classes := make([]class, len(d.classes))
	for s, steps := range d.classes {
		k := len(steps)
		logarithm := mat.NewSymDense(k, nil)
		for i := range k {
			for j := i; j < k; j++ {
				logarithm.SetSym(i, j, y[i*k+j])
			}
		}
		y = y[k*k:]
		u := matrixFunction(logarithm, math.Exp)
		mean := 0.0
		for i := range k {
			mean += math.Log(u.At(i, i)) / float64(k)
		}
		u = correlation(u)
		u.ScaleSym(math.Exp(mean), u)
		classes[s] = class{u: u, low: math.Inf(1)}
		c := &classes[s]
		c.root = matrixFunction(u, func(v float64) float64 {
			c.low, c.high = min(c.low, v), max(c.high, v)
			return math.Sqrt(max(0, v))
		})
	}
	return classes
}

// step returns the logarithms of the next U_s. residual says how far X is from feasible: it is the
// largest correlation within a class, or the largest relative difference of traces.
func (d *dual) step(classes []class, xs []*mat.SymDense) (next []float64, residual float64) {
	traces, low, high := make([]float64, len(xs)), math.Inf(1), 0.0
	for s, x := range xs {
		traces[s] = mat.Trace(x)
		low, high = min(low, traces[s]), max(high, traces[s])
	}
	residual = 1 - low/high
	for s, x := range xs {
		k := x.SymmetricDim()
		c := correlation(x)
		for i := range k {
			for j := range i {
				residual = max(residual, math.Abs(c.At(i, j)))
			}
		}
		var half mat.Dense
		half.Mul(c, classes[s].root)
		var square mat.Dense
		square.Mul(half.T(), &half)
		u := correlation(symmetric(&square))
		t := traces[s] / high
		u.ScaleSym(t*t*classes[s].u.At(0, 0), u)
		logarithm := matrixFunction(u, func(v float64) float64 { return math.Log(max(v, 1e-300)) })
		for i := range k {
			for j := range k {
				next = append(next, logarithm.At(i, j))
			}
		}
	}
	return next, residual
}

// strategy returns the feasible C nearest to the classes' X: every class block is made diagonal by
// a congruence, which keeps X positive definite, and scaled to trace one; then X = CᵀC by a
// Cholesky decomposition from below.
func (d *dual) strategy(ctx context.Context, classes []class) (*Strategy, error) {
	x, err := d.full(ctx, classes)
	if err != nil {
		return nil, err
	}
	n := d.n
	// T_s = D_s^½ X_s^{-½}, trace D_s = 1
	dense := mat.NewDense(n, n, nil)
	dense.Copy(x)
	transforms := make([]*mat.Dense, len(d.classes))
	for s, steps := range d.classes {
		block := mat.NewSymDense(len(steps), nil)
		for i, a := range steps {
			for j, b := range steps[i:] {
				block.SetSym(i, i+j, x.At(a, b))
			}
		}
		trace := mat.Trace(block)
		root := matrixFunction(block, func(v float64) float64 { return 1 / math.Sqrt(v) })
		t := mat.NewDense(len(steps), len(steps), nil)
		for i := range steps {
			for j := range steps {
				t.Set(i, j, math.Sqrt(block.At(i, i)/trace)*root.At(i, j))
			}
		}
		transforms[s] = t
	}
	for range 2 { // rows, then by symmetry columns: T X Tᵀ
		for s, steps := range d.classes {
			rows := mat.NewDense(len(steps), n, nil)
			for i, a := range steps {
				rows.SetRow(i, dense.RawRowView(a))
			}
			var product mat.Dense
			product.Mul(transforms[s], rows)
			for i, a := range steps {
				dense.SetRow(a, product.RawRowView(i))
			}
		}
		dense = mat.DenseCopyOf(dense.T())
	}
	return fromGram(ctx, KindDense, symmetric(dense))
}

// matrixFunction returns f of a symmetric matrix.
func matrixFunction(m *mat.SymDense, f func(float64) float64) *mat.SymDense {
	n := m.SymmetricDim()
	var eigen mat.EigenSym
	if !eigen.Factorize(m, true) {
		panic("mechanism: no eigenvalues of a finite symmetric matrix") // QR iteration converges on finite ones
	}
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	scaled := mat.DenseCopyOf(&vectors)
	for j, v := range eigen.Values(nil) {
		w := f(v)
		for i := range n {
			scaled.Set(i, j, scaled.At(i, j)*w)
		}
	}
	var product mat.Dense
	product.Mul(scaled, vectors.T())
	return symmetric(&product)
}

// symmetric returns the symmetric part of m, which rounding alone keeps from being symmetric.
func symmetric(m *mat.Dense) *mat.SymDense {
	n, _ := m.Dims()
	s := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			s.SetSym(i, j, (m.At(i, j)+m.At(j, i))/2)
		}
	}
	return s
}

// correlation scales m to a unit diagonal.
func correlation(m *mat.SymDense) *mat.SymDense {
	n := m.SymmetricDim()
	c := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			c.SetSym(i, j, m.At(i, j)/math.Sqrt(m.At(i, i)*m.At(j, j)))
		}
	}
	return c
}

// anderson accelerates a fixed-point iteration y ← g(y): the next y is the combination of the last
// depth steps with the least residual g(y) - y.
type anderson struct {
	depth          int
	points, errors [][]float64
}

// forget restarts the acceleration.
func (m *anderson) forget() { m.points, m.errors = nil, nil }

// next returns the next y after y and g = g(y). The least squares are regularised a little, since
// the differences of late steps are nearly dependent.
func (m *anderson) next(y, g []float64) []float64 {
	f := make([]float64, len(y))
	for i := range f {
		f[i] = g[i] - y[i]
	}
	m.points, m.errors = append(m.points, y), append(m.errors, f)
	if len(m.points) > m.depth+1 {
		m.points, m.errors = m.points[1:], m.errors[1:]
	}
	last := len(m.points) - 1
	if last == 0 {
		return g
	}
	differences := mat.NewDense(len(y), last, nil)
	for j := range last {
		for i := range y {
			differences.Set(i, j, m.errors[j+1][i]-m.errors[j][i])
		}
	}
	var normal mat.Dense
	normal.Mul(differences.T(), differences)
	system := symmetric(&normal)
	trace := mat.Trace(system)
	for j := range last {
		system.SetSym(j, j, system.At(j, j)+1e-14*trace)
	}
	var right, gamma mat.VecDense
	right.MulVec(differences.T(), mat.NewVecDense(len(f), f))
	var factor mat.Cholesky
	if !factor.Factorize(system) || factor.SolveVecTo(&gamma, &right) != nil {
		m.forget()
		return g
	}
	next := make([]float64, len(y))
	copy(next, g)
	for j := range last {
		w := gamma.AtVec(j)
		for i := range next {
			next[i] -= w * (m.points[j+1][i] - m.points[j][i] + m.errors[j+1][i] - m.errors[j][i])
		}
	}
	return next
}
