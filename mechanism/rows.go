package mechanism

import (
	"fmt"
	"math"
)

// rowErrors evaluates the squared errors of the rows of A C⁻¹ for a banded C. Its maker sets the
// rows of C beforehand: [n × (m+1)] numbers, C[i][i-j] at j of row i, zero where i < j.
type rowErrors interface {
	// forward returns the variance of every row, [n].
	forward() []float64
	// backward adds the gradient of Σ_i variance[i], after a forward, to grad, which has the shape of
	// the rows.
	backward(grad []float64)
}

// mostRowWork is the largest n²·bands of a workload that is evaluated row by row: one evaluation
// then takes some ten seconds.
const mostRowWork = 1 << 33

// checkRowWork refuses problems for which [bandedRows] would take too long.
func (a *Workload) checkRowWork(bands int) error {
	if work := float64(a.Steps) * float64(a.Steps) * float64(bands); !a.isRecursive() && work > mostRowWork {
		return fmt.Errorf(
			"%w: %d steps and %d bands with a workload %s: steps² times bands is %.3g, and must be at most %.3g",
			ErrTooLarge,
			a.Steps,
			bands,
			a.form(),
			work,
			float64(mostRowWork),
		)
	}
	return nil
}

// mostRowEntries is the largest number of entries of the rows of C: with all that backward needs they
// take some 2 GB.
const mostRowEntries = 1 << 25

// newToeplitzRows does the work of newToeplitzError by the rows of C.
func newToeplitzRows(a *Workload, bands int) (func(c, grad []float64) float64, error) {
	if err := a.checkRowWork(bands); err != nil {
		return nil, err
	}
	n, width := a.Steps, max(2, bands)
	if n*width > mostRowEntries {
		return nil, errTooLarge("steps times bands", n*width, mostRowEntries)
	}
	rows, byRow := make([]float64, n*width), make([]float64, n*width)
	e := newRowErrors(a, rows)
	return func(c, grad []float64) float64 {
		for i := range n {
			copy(rows[i*width:(i+1)*width], c[:min(len(c), i+1)])
		}
		total := 0.0
		for _, v := range e.forward() {
			total += v
		}
		if math.IsInf(total, 0) || math.IsNaN(total) || !(total > 0) {
			return math.Inf(1)
		}
		clear(byRow)
		e.backward(byRow)
		for i, v := range byRow {
			if j := i % width; j < len(grad) {
				grad[j] += v / total
			}
		}
		return math.Log(total / float64(n))
	}, nil
}

// newRowErrors returns the errors for a workload, with room for the rows of C.
func newRowErrors(a *Workload, rows []float64) rowErrors {
	n, m := a.Steps, len(rows)/a.Steps-1
	if a.isRecursive() {
		return &bandedCovariance{a: a, n: n, m: m, rows: rows, tape: new(covarianceTape)}
	}
	return &bandedRows{a: a, n: n, m: m, rows: rows}
}

// bandedRows are rowErrors for any workload, row by row in O(n²·m) (arXiv 2405.15913, Algorithm 3):
// with the row a of A and Cᵀb = a, the variance is ‖b‖², and its derivative by C[r][c] is -2 x_c
// b_r, where C x = b.
type bandedRows struct {
	a    *Workload
	n, m int
	rows []float64
	b    []float64 // of the last row, with m zeros after it
}

// solve sets b for a row of A.
func (e *bandedRows) solve(i int) {
	width := e.m + 1
	e.b = e.a.Row(e.b, i)
	e.b = append(e.b, make([]float64, e.m)...)
	for t := i; t >= 0; t-- {
		v := e.b[t]
		for j := 1; j <= min(e.m, i-t); j++ {
			v -= e.rows[(t+j)*width+j] * e.b[t+j]
		}
		e.b[t] = v / e.rows[t*width]
	}
}

// forward implements rowErrors.
func (e *bandedRows) forward() []float64 {
	variance := make([]float64, e.n)
	for i := range variance {
		e.solve(i)
		variance[i] = square(e.b)
	}
	return variance
}

// backward implements rowErrors. It solves for each b again instead of keeping all of them, which
// would take n² numbers.
func (e *bandedRows) backward(grad []float64) {
	width := e.m + 1
	x := make([]float64, e.n)
	for i := range e.n {
		e.solve(i)
		for r := range i + 1 {
			row := e.rows[r*width : (r+1)*width]
			v := e.b[r]
			for j := 1; j <= min(e.m, r); j++ {
				v -= row[j] * x[r-j]
			}
			x[r] = v / row[0]
			scale := -2 * e.b[r]
			for j := range min(e.m, r) + 1 {
				grad[r*width+j] += scale * x[r-j]
			}
		}
	}
}
