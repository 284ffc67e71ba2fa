package mechanism

import (
	"context"
	"math"
	"slices"

	"minsep/internal/param"
)

// KindBanded is banded with columns of norm one (arXiv 2405.15913, Algorithm 3).
const KindBanded = "banded"

func init() {
	register(Family{
		Kind: KindBanded,
		Rank: 30,
		Help: "the best strategy of --bands bands with columns of norm one",
		Size: BandsSize,
		check: func(p Params, c *param.Checker) {
			c.Require(
				p.Bands <= maxEntries/max(1, p.Steps),
				"bands",
				p.Bands,
				"steps times bands must be at most 2^28 for banded, which is held as a whole",
			)
		},
		seconds: func(p Params) float64 { return float64(p.Steps) * float64(p.Bands) * (5e-6 + 2e-7*float64(p.Bands)) },
		bands:   givenBands,
		make: func(ctx context.Context, problem Problem, p Params) (*Strategy, error) {
			return optimalBanded(ctx, problem, p.Bands)
		},
	})
}

// optimalBanded returns the banded strategy with columns of norm one of least mean loss
// (arXiv 2405.15913, Algorithm 3), by L-BFGS from the optimal Toeplitz strategy. With several
// participations bands may not exceed MinSep, so that the sensitivity is √k for equal column norms
// (F2). An evaluation with gradient takes O(n·bands²), by the noise's covariance.
func optimalBanded(ctx context.Context, p Problem, bands int) (*Strategy, error) {
	n, schema := p.Workload.Steps, p.participation()
	k := schema.most(n)
	check := param.Checker{}
	check.Require(p.Objective != MaxError, "objective", p.Objective, "must be mean for a banded strategy")
	check.Require(
		k == 1 || bands <= schema.MinSep,
		"bands",
		bands,
		"must be at most min-sep with several participations",
	)
	if err := check.Err(); err != nil {
		return nil, err
	}
	start, err := optimalToeplitz(ctx, Problem{Workload: p.Workload.toeplitzNear()}, bands)
	if err != nil {
		return nil, err
	}
	o := newBandedObjective(p.Workload, bands)
	x := make([]float64, 0, n*(bands-1))
	for i := range n {
		for _, v := range start.Toeplitz[1:min(bands, n-i)] {
			x = append(x, v/start.Toeplitz[0])
		}
	}
	loss, err := minimize(ctx, x, 20000, o.logError)
	if err != nil {
		return nil, err
	}
	s := &Strategy{Kind: KindBanded, Steps: n, Columns: make([][]float64, n)}
	for i := range n {
		column := append([]float64{1}, x[:min(bands, n-i)-1]...)
		x = x[len(column)-1:]
		norm := euclidean(column)
		for j := range column {
			column[j] /= norm
		}
		s.Columns[i] = column
	}
	return p.finish(s, loss*float64(k))
}

// bandedObjective evaluates ln(error) of the banded C with unit columns as a function of x: for
// every column its entries below the diagonal over the diagonal.
type bandedObjective struct {
	errors *bandedCovariance
	n, m   int       // steps, and bands-1 but at least 1
	rows   []float64 // of errors
	bands  int
	grad   []float64 // by rows
}

// newBandedObjective returns the objective for a workload and a number of bands.
func newBandedObjective(a *Workload, bands int) *bandedObjective {
	n, m := a.Steps, max(1, bands-1)
	o := &bandedObjective{n: n, m: m, rows: make([]float64, n*(m+1)), bands: bands, grad: make([]float64, n*(m+1))}
	o.errors = &bandedCovariance{a: a, n: n, m: m, rows: o.rows, tape: new(covarianceTape)}
	return o
}

// logError returns ln of the mean of the variances over the rows, and sets grad, which may be nil if
// x is empty, to its gradient by x.
func (o *bandedObjective) logError(x, grad []float64) float64 {
	width := o.m + 1
	norms := make([]float64, o.n)
	at := x
	for i := range o.n {
		size := min(o.bands, o.n-i) - 1
		norms[i] = math.Sqrt(1 + square(at[:size]))
		o.rows[i*width] = 1 / norms[i]
		for j, v := range at[:size] {
			o.rows[(i+1+j)*width+1+j] = v / norms[i]
		}
		at = at[size:]
	}
	variance := o.errors.forward()
	largest, total := slices.Max(variance), 0.0
	for _, v := range variance { // in this order, for the same strategies everywhere
		total += v
	}
	if !(largest > 0) || math.IsInf(largest, 0) {
		return math.Inf(1)
	}
	clear(o.grad)
	o.errors.backward(o.grad)
	at = x
	for i := range o.n {
		size := min(o.bands, o.n-i) - 1
		inner := o.grad[i*width] // ⟨gradient, column of x with diagonal 1⟩
		for j, v := range at[:size] {
			inner += o.grad[(i+1+j)*width+1+j] * v
		}
		inner /= norms[i] * norms[i]
		for j, v := range at[:size] {
			grad[j] = (o.grad[(i+1+j)*width+1+j] - inner*v) / norms[i] / total
		}
		at, grad = at[size:], grad[size:]
	}
	return math.Log(largest) + math.Log(total/largest/float64(o.n))
}
