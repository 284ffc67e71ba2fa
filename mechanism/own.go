package mechanism

import (
	"fmt"

	"gonum.org/v1/gonum/mat"

	"minsep/internal/param"
)

// KindOwn is a matrix of a program of its own, see [FromRows].
const KindOwn = "own"

// FromRows returns the strategy whose rows a function makes: row(i), for i from 0 to steps-1, is the
// end of row i of C up to its diagonal, 1 to i+1 entries, zeros before. So a banded strategy gives
// as many entries as it has bands, and a lower triangular matrix m is
//
//	mechanism.FromRows(len(m), func(i int) []float64 { return m[i][:i+1] })
//
// row is called once for each step, and what it returns is copied. Diagonal entries are above 0; all
// others may be any finite number. Every entry is held, 8 bytes each, at most 2^27 of them.
//
// Which schemes are certified with negative entries, or with more bands than min-sep, is in a table
// of docs/schemes.md. Scheme fixed is with every strategy, by [Strategy.Sensitivity], which is exact
// or an upper bound.
func FromRows(steps int, row func(i int) []float64) (*Strategy, error) {
	check := param.Checker{}
	check.Requiref(steps >= 1 && steps <= MaxSteps, "steps", steps, "must be 1 to %d", MaxSteps)
	if err := check.Err(); err != nil {
		return nil, err
	}
	s := &Strategy{Kind: KindOwn, Steps: steps, Columns: make([][]float64, steps)}
	entries := 0
	for i := range steps {
		r := row(i)
		if len(r) < 1 || len(r) > i+1 {
			const rule = "must be 1 to %d, the last of them on the diagonal"
			return nil, param.Fault(fmt.Sprintf("entries of row %d", i), len(r), rule, i+1)
		}
		if entries += len(r); entries > maxOwnEntries {
			return nil, errTooLarge("entries of the rows up to", i, maxOwnEntries)
		}
		for j, v := range r {
			if v == 0 {
				continue // zeros at the end of a column are left out
			}
			column, below := i+1-len(r)+j, len(r)-1-j
			c := s.Columns[column]
			for len(c) < below {
				c = append(c, 0)
			}
			s.Columns[column] = append(c, v)
		}
	}
	return valid(s)
}

// FromGram returns the strategy whose columns have given inner products, CᵀC = gram, by a Cholesky
// decomposition from below. It refuses a matrix that is not positive definite.
func FromGram(gram *mat.SymDense) (*Strategy, error) {
	n := gram.SymmetricDim()
	flipped := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			flipped.SetSym(i, j, gram.At(n-1-i, n-1-j))
		}
	}
	var factor mat.Cholesky
	if !factor.Factorize(flipped) { // flipped = UᵀU, and C[i][j] = U[n-1-i][n-1-j]
		return nil, errNotPositive
	}
	upper := factor.RawU()
	s := &Strategy{Kind: KindOwn, Steps: n, Columns: make([][]float64, n)}
	for j := range n {
		column := make([]float64, n-j)
		for i := j; i < n; i++ {
			column[i-j] = upper.At(n-1-i, n-1-j)
		}
		s.Columns[j] = column
	}
	return valid(s)
}

// maxOwnEntries is the largest number of entries of a matrix of a program's own.
const maxOwnEntries = 1 << 27
