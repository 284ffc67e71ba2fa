package mechanism

import (
	"errors"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// errNotPositive is the error of a decomposition that meets a pivot that is not positive.
var errNotPositive = errors.New("matrix is not positive definite")

// cyclicBlocks inverts symmetric positive definite matrices S. Their rows form blocks 0 … L. A
// block has entries only with its neighbours and, in a ring, block 0 with block L. Blocks are
// eliminated in order, with block L as a border that fills in. The diagonal blocks of S⁻¹ cost O(Σ
// size³), and all of S⁻¹ costs O(n²·size).
type cyclicBlocks struct {
	diagonal []blas64.General // L+1: S_JJ; then the inverse of its Schur complement
	next     []blas64.General // S_{J,J+1}, J+1 < L
	border   []blas64.General // S_{J,L}, J < L, with fill
	toNext   []blas64.General // inverse·next
	toBorder []blas64.General // inverse·border
}

// newGeneral returns a matrix of zeros.
func newGeneral(rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: max(1, cols), Data: make([]float64, rows*cols)}
}

// newCyclicBlocks returns blocks of zeros with the given numbers of rows.
func newCyclicBlocks(sizes []int) *cyclicBlocks {
	b := &cyclicBlocks{}
	last := len(sizes) - 1
	for j, size := range sizes {
		b.diagonal = append(b.diagonal, newGeneral(size, size))
		if j < last {
			b.border = append(b.border, newGeneral(size, sizes[last]))
			b.toBorder = append(b.toBorder, newGeneral(size, sizes[last]))
		}
		if j+1 < last {
			b.next = append(b.next, newGeneral(size, sizes[j+1]))
			b.toNext = append(b.toNext, newGeneral(size, sizes[j+1]))
		}
	}
	return b
}

// clear sets S to zero: eliminate has overwritten it.
func (b *cyclicBlocks) clear() {
	for _, list := range [][]blas64.General{b.diagonal, b.next, b.border} {
		for _, m := range list {
			clear(m.Data)
		}
	}
}

// invert replaces the symmetric positive definite m by its inverse.
func invert(m blas64.General) error {
	upper := blas64.Symmetric{N: m.Rows, Stride: m.Stride, Data: m.Data, Uplo: blas.Upper}
	factor, ok := lapack64.Potrf(upper)
	if !ok {
		return errNotPositive
	}
	if _, ok = lapack64.Potri(factor); !ok {
		return errNotPositive
	}
	for i := range m.Rows {
		for j := range i {
			m.Data[i*m.Stride+j] = m.Data[j*m.Stride+i]
		}
	}
	return nil
}

// eliminate turns S into its block factors, with the inverses of all Schur complements in diagonal.
func (b *cyclicBlocks) eliminate() error {
	last := len(b.diagonal) - 1
	for j := range last {
		inverse := b.diagonal[j]
		if err := invert(inverse); err != nil {
			return err
		}
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, inverse, b.border[j], 0, b.toBorder[j])
		blas64.Gemm(blas.Trans, blas.NoTrans, -1, b.border[j], b.toBorder[j], 1, b.diagonal[last])
		if j+1 < last {
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, inverse, b.next[j], 0, b.toNext[j])
			blas64.Gemm(blas.Trans, blas.NoTrans, -1, b.next[j], b.toNext[j], 1, b.diagonal[j+1])
			blas64.Gemm(blas.Trans, blas.NoTrans, -1, b.next[j], b.toBorder[j], 1, b.border[j+1])
		}
	}
	return invert(b.diagonal[last])
}

// diagonalBlocks calls use with every diagonal block of S⁻¹ after eliminate, the last first. It
// overwrites the factors' diagonal.
func (b *cyclicBlocks) diagonalBlocks(use func(j int, block blas64.General)) {
	last := len(b.diagonal) - 1
	use(last, b.diagonal[last])
	var after blas64.General // S⁻¹_{J+1,L}
	for j := last - 1; j >= 0; j-- {
		size, rows := b.diagonal[j].Rows, b.diagonal[last].Rows
		cross := newGeneral(size, rows) // S⁻¹_{J,L} = -toNext S⁻¹_{J+1,L} - toBorder S⁻¹_{LL}
		blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, b.toBorder[j], b.diagonal[last], 0, cross)
		if j+1 < last {
			blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, b.toNext[j], after, 1, cross)
			near := newGeneral(size, b.diagonal[j+1].Rows) // S⁻¹_{J,J+1}
			blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, b.toNext[j], b.diagonal[j+1], 0, near)
			blas64.Gemm(blas.NoTrans, blas.Trans, -1, b.toBorder[j], after, 1, near)
			blas64.Gemm(blas.NoTrans, blas.Trans, -1, near, b.toNext[j], 1, b.diagonal[j])
		}
		blas64.Gemm(blas.NoTrans, blas.Trans, -1, cross, b.toBorder[j], 1, b.diagonal[j])
		use(j, b.diagonal[j])
		after = cross
	}
}

// solve replaces x, with rows in the blocks' order, by S⁻¹x after eliminate. spare is as large
// as x.
func (b *cyclicBlocks) solve(x, spare blas64.General) {
	last := len(b.diagonal) - 1
	parts, spares := b.split(x), b.split(spare)
	for j := range last {
		blas64.Gemm(blas.Trans, blas.NoTrans, -1, b.toBorder[j], parts[j], 1, parts[last])
		if j+1 < last {
			blas64.Gemm(blas.Trans, blas.NoTrans, -1, b.toNext[j], parts[j], 1, parts[j+1])
		}
	}
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, b.diagonal[last], parts[last], 0, spares[last])
	for j := last - 1; j >= 0; j-- {
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, b.diagonal[j], parts[j], 0, spares[j])
		blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, b.toBorder[j], spares[last], 1, spares[j])
		if j+1 < last {
			blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, b.toNext[j], spares[j+1], 1, spares[j])
		}
	}
	copy(x.Data, spare.Data)
}

// split returns the rows of x that belong to each block, without a copy.
func (b *cyclicBlocks) split(x blas64.General) []blas64.General {
	parts := make([]blas64.General, len(b.diagonal))
	row := 0
	for j, d := range b.diagonal {
		parts[j] = blas64.General{Rows: d.Rows, Cols: x.Cols, Stride: x.Stride, Data: x.Data[row*x.Stride:]}
		row += d.Rows
	}
	return parts
}
