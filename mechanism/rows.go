package mechanism

import "math"

// mostRowEntries is the largest number of entries of the rows of C: with all that backward needs they
// take some 2 GB.
const mostRowEntries = 1 << 25

// newToeplitzRows does the work of newToeplitzError by the rows of C.
func newToeplitzRows(a *Workload, bands int) (func(c, grad []float64) float64, error) {
	n, width := a.Steps, max(2, bands)
	if n*width > mostRowEntries {
		return nil, errTooLarge("steps times bands", n*width, mostRowEntries)
	}
	rows, byRow := make([]float64, n*width), make([]float64, n*width)
	e := &bandedCovariance{a: a, n: n, m: width - 1, rows: rows, tape: new(covarianceTape)}
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
