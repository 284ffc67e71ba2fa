package mechanism

import (
	"context"

	"gonum.org/v1/gonum/mat"
)

// Factorization is A = B C with an encoder C of any number of rows. The mechanism releases B (C G +
// ζ σ Z), where Z has as many rows as C. Its privacy follows from C, as for a [Strategy]. It is for
// mechanisms with a decoder B that is not the best one for C. With the best decoder, only the Gram
// matrix of C matters, and a Strategy with the same Gram matrix has the same sensitivity, error and
// noise ([Tree], [FFT]).
type Factorization struct {
	Encoder *mat.Dense // [rows, steps]
	Decoder *mat.Dense // [steps, rows]
}

// Error returns the expected error at noise multiplier 1, from the decoder's row norms.
func (f *Factorization) Error() Error {
	n, _ := f.Decoder.Dims()
	variance := make([]float64, n)
	for i := range variance {
		variance[i] = square(f.Decoder.RawRowView(i))
	}
	return newError(variance)
}

// Sensitivity returns the sensitivity of a Strategy with the encoder's Gram matrix, which is the
// same.
func (f *Factorization) Sensitivity(p Participation) (Sensitivity, error) {
	var gram mat.Dense
	gram.Mul(f.Encoder.T(), f.Encoder)
	s, err := fromGram(context.Background(), KindDense, symmetric(&gram))
	if err != nil {
		return Sensitivity{}, err
	}
	return s.Sensitivity(p)
}

// fromGram returns the lower triangular C with CᵀC = gram, by a Cholesky decomposition from below,
// which ends when ctx ends.
func fromGram(ctx context.Context, kind string, gram *mat.SymDense) (*Strategy, error) {
	n := gram.SymmetricDim()
	flipped := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			flipped.SetSym(i, j, gram.At(n-1-i, n-1-j))
		}
	}
	upper, err := cholesky(ctx, flipped.RawSymmetric()) // flipped = UᵀU, and C[i][j] = U[n-1-i][n-1-j]
	if err != nil {
		return nil, err
	}
	s := &Strategy{Kind: kind, Steps: n, Columns: make([][]float64, n)}
	for j := range n {
		column := make([]float64, n-j)
		for i := j; i < n; i++ {
			column[i-j] = upper.Data[(n-1-i)*upper.Stride+n-1-j]
		}
		s.Columns[j] = column
	}
	return valid(s)
}

// ErrorOfStamps returns the error of a mechanism for prefix sums that is restarted times times,
// each block added to the last release of the blocks before, which is then fixed: block has the
// variances of one block (arXiv 2211.06530, Appendix D.4).
func ErrorOfStamps(block Error, times int) Error {
	var variance []float64
	fixed := 0.0
	for range times {
		for _, v := range block.Variance {
			variance = append(variance, fixed+v)
		}
		fixed += block.Variance[len(block.Variance)-1]
	}
	return newError(variance)
}
