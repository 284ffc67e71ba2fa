package mechanism

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"minsep/internal/param"
)

// KindBandedToeplitz is the optimal banded Toeplitz C (arXiv 2405.15913).
const KindBandedToeplitz = "banded-toeplitz"

func init() {
	register(Family{
		Kind: KindBandedToeplitz, Rank: 20,
		Help:  "the best Toeplitz strategy of --bands bands",
		Size:  BandsSize,
		bands: givenBands,
		make: func(ctx context.Context, problem Problem, p Params) (*Strategy, error) {
			return optimalToeplitz(ctx, problem, p.Bands)
		},
	})
}

// optimalToeplitz returns the banded Toeplitz strategy of least loss (arXiv 2405.15913, section
// 3.2), scaled to column norm one. With more bands than MinSep, the optimum is among non-negative,
// non-increasing columns, which have a known sensitivity (F2).
func optimalToeplitz(ctx context.Context, p Problem, bands int) (*Strategy, error) {
	logError, err := newToeplitzError(p, bands)
	if err != nil {
		return nil, err
	}
	o := newToeplitzObjective(p)
	form := anyColumn
	if bands > o.b {
		form = fallingColumn
	}
	c, loss, err := minimizeColumn(ctx, bands, form, func(c, grad []float64) float64 {
		return logError(c, grad) + o.logSensitivity(c, grad)
	})
	if err != nil {
		return nil, err
	}
	floats.Scale(1/euclidean(c), c)
	return p.finish(&Strategy{Kind: KindBandedToeplitz, Steps: p.Workload.Steps, Toeplitz: c}, loss)
}

// columnForm says which first columns of C an optimisation chooses among. Its variables are, for
// each entry c_j but the first, which is 1:
type columnForm int

const (
	anyColumn      columnForm = iota // c_j
	positiveColumn                   // ln c_j
	fallingColumn                    // the log-odds x_j of positive columns that fall, c_j = c_{j-1}/(1+e^{-x_j})
)

// minimizeColumn returns the first column of C, with c_0 = 1, at which f is least, and exp(f). f
// adds its gradient to grad.
func minimizeColumn(
	ctx context.Context,
	bands int,
	form columnForm,
	f func(c, grad []float64) float64,
) (c []float64, loss float64, err error) {
	c, g, x := make([]float64, bands), make([]float64, bands), make([]float64, bands-1)
	c[0] = 1
	fractional(c[1:], .5)
	for j := range x {
		switch form {
		case anyColumn:
			x[j] = c[j+1]
		case positiveColumn:
			x[j] = math.Log(c[j+1])
		case fallingColumn:
			x[j] = -math.Log(c[j]/c[j+1] - 1)
		}
	}
	set := func(x []float64) {
		for j, v := range x {
			switch form {
			case anyColumn:
				c[j+1] = v
			case positiveColumn:
				c[j+1] = math.Exp(v)
			case fallingColumn:
				c[j+1] = c[j] / (1 + math.Exp(-v))
			}
		}
	}
	loss, err = minimize(ctx, x, 2000, func(x, grad []float64) float64 {
		set(x)
		clear(g)
		value := f(c, g)
		sum := 0.0 // of a falling column: a change of x_j moves c_j and all after it in proportion
		for j := len(x) - 1; j >= 0; j-- {
			switch form {
			case anyColumn:
				grad[j] = g[j+1]
			case positiveColumn:
				grad[j] = g[j+1] * c[j+1]
			case fallingColumn:
				sum += g[j+1] * c[j+1]
				grad[j] = sum * (1 - c[j+1]/c[j])
			}
		}
		return value
	})
	set(x)
	return c, loss, err
}

// newToeplitzError returns a function that computes ln of the squared error, by p's objective, of
// the Toeplitz C with first column c of bands entries, and adds its gradient to grad.
//
// For a Toeplitz workload an evaluation takes O(m·bands), where m ≤ n is the number of terms until
// C⁻¹a has converged to its limit in double precision (arXiv 2405.15913, Appendix I, without its
// approximation). For learning rates that change it takes O(n·bands²); if that is too much memory, the
// error wraps ErrTooLarge. Their objective must be the mean.
func newToeplitzError(p Problem, bands int) (func(c, grad []float64) float64, error) {
	a := p.Workload
	switch {
	case a.IsToeplitz():
		return newToeplitzObjective(p).logError, nil
	case p.Objective == MaxError:
		return nil, param.Fault("objective", p.Objective, "must be mean for a Toeplitz strategy and learning rates that change")
	}
	return newToeplitzRows(a, bands)
}

// fractional sets x to the coefficients 1, 2, … of (1-t)^-γ.
func fractional(x []float64, gamma float64) {
	v := 1.0
	for j := range x {
		v *= (float64(j) + gamma) / float64(j+1)
		x[j] = v
	}
}

// settledTolerance is the relative distance from the limit within which C⁻¹a counts as converged if
// it stays there for two turns of the recurrence. It is above rounding, and the distance falls
// geometrically from there on.
const settledTolerance = 1e-13

// toeplitzObjective evaluates the logarithms of the squared error and of the squared sensitivity of
// a banded Toeplitz C with first column c, and their gradients.
type toeplitzObjective struct {
	n, b, k int
	max     bool
	a       []float64 // first column of A; nil where A is not Toeplitz
	settled int       // a is constant from here on
	w, l    []float64
}

func newToeplitzObjective(p Problem) *toeplitzObjective {
	schema := p.participation()
	o := &toeplitzObjective{n: p.Workload.Steps, b: schema.MinSep, max: p.Objective == MaxError}
	o.k = schema.most(o.n)
	if !p.Workload.IsToeplitz() {
		return o
	}
	o.a = p.Workload.FirstColumn(o.n)
	o.settled = o.n - 1
	for o.settled > 0 && o.a[o.settled-1] == o.a[o.n-1] {
		o.settled--
	}
	return o
}

// weight returns the weight of w_i². In the mean over the rows it is (n-i)/n, since n-i rows have
// the term; in the last row, the one of the largest error, it is 1.
func (o *toeplitzObjective) weight(i int) float64 {
	if o.max {
		return 1
	}
	return float64(o.n-i) / float64(o.n)
}

// tailWeight is Σ_{i≥m} weight(i).
func (o *toeplitzObjective) tailWeight(m int) float64 {
	rest := float64(o.n - m)
	if o.max {
		return rest
	}
	return rest * (rest + 1) / 2 / float64(o.n)
}

// logError returns ln Σ_i weight_i w_i², w = C⁻¹a (arXiv 2405.15913, Propositions 3.1 and D.1), and
// adds its gradient to grad.
func (o *toeplitzObjective) logError(c, grad []float64) float64 {
	pad := len(c) - 1
	if len(o.w) != pad+o.n {
		o.w, o.l = make([]float64, pad+o.n), make([]float64, pad+o.n)
	}
	reversed := backwards(c[1:])
	inverse := 1 / c[0]
	limit := o.a[o.n-1] / floats.Sum(c)
	w := o.w // w_i at pad+i, after zeros
	total, m, calm := 0.0, 0, 0
	for m < o.n && calm <= 2*pad+2 {
		v := (o.a[m] - floats.Dot(reversed, w[m:m+pad])) * inverse
		w[pad+m] = v
		total += o.weight(m) * v * v
		if calm++; m < o.settled || !(math.Abs(v-limit) <= settledTolerance*math.Abs(limit)) {
			calm = 0
		}
		m++
	}
	tail := o.tailWeight(m)
	total += limit * limit * tail
	if math.IsInf(total, 0) || math.IsNaN(total) || !(total > 0) {
		return math.Inf(1)
	}
	// l solves Cᵀl = g, where g is the gradient by w; the derivative by c_j is -Σ_i l_i w_{i-j}.
	l := o.l[:m+pad]
	clear(l[m:])
	for i := m - 1; i >= 0; i-- {
		l[i] = (2*o.weight(i)*w[pad+i] - floats.Dot(c[1:], l[i+1:i+1+pad])) * inverse
	}
	drift := -2 * limit * limit * tail / floats.Sum(c)
	for j := range c {
		grad[j] += (drift - floats.Dot(l[j:m], w[pad:pad+m-j])) / total
	}
	return math.Log(total)
}

// logSensitivity returns ln ‖Σ_{j<k} C[:, jb]‖² and adds its gradient to grad. It is the squared
// sensitivity of a non-negative, non-increasing column. If columns do not overlap, it is that of any
// column: ln of k‖c‖², less the parts of columns that are cut off.
func (o *toeplitzObjective) logSensitivity(c, grad []float64) float64 {
	whole := make([]float64, o.n)
	copy(whole, c)
	square, g := columnSumSquare(whole, o.b, o.k)
	floats.AddScaled(grad[:len(c)], 1/square, g[:len(c)])
	return math.Log(square)
}
