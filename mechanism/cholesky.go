package mechanism

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"
)

// choleskyBlock is the block size of LAPACK's dpotrf in gonum.
const choleskyBlock = 64

// cholesky replaces the upper triangle of the symmetric positive definite a by U with a = UᵀU, and
// returns U. It computes the same bits as LAPACK's dpotrf, but looks at ctx between blocks and ends
// with its error: a matrix of 2¹⁴ steps takes minutes. A matrix that is not positive definite gives
// errNotPositive.
func cholesky(ctx context.Context, a blas64.Symmetric) (blas64.Triangular, error) {
	n := a.N
	part := func(i, j, rows, cols int) blas64.General {
		return blas64.General{Rows: rows, Cols: cols, Stride: a.Stride, Data: a.Data[i*a.Stride+j:]}
	}
	for j := 0; j < n; j += choleskyBlock {
		if err := ctx.Err(); err != nil {
			return blas64.Triangular{}, err
		}
		size := min(choleskyBlock, n-j)
		diagonal := blas64.Symmetric{N: size, Stride: a.Stride, Data: a.Data[j*a.Stride+j:], Uplo: blas.Upper}
		if j > 0 {
			blas64.Syrk(blas.Trans, -1, part(0, j, j, size), 1, diagonal)
		}
		factor, ok := lapack64.Potrf(diagonal)
		if !ok {
			return blas64.Triangular{}, errNotPositive
		}
		if rest := n - j - size; rest > 0 {
			right := part(j, j+size, size, rest)
			if j > 0 {
				blas64.Gemm(blas.Trans, blas.NoTrans, -1, part(0, j, j, size), part(0, j+size, j, rest), 1, right)
			}
			blas64.Trsm(blas.Left, blas.Trans, 1, factor, right)
		}
	}
	return blas64.Triangular{N: n, Stride: a.Stride, Data: a.Data, Uplo: blas.Upper, Diag: blas.NonUnit}, nil
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
