package mechanism

import (
	"math/cmplx"

	"gonum.org/v1/gonum/dsp/fourier"
	"gonum.org/v1/gonum/mat"

	"minsep/internal/param"
)

// Factorization is A = B C with an encoder C of any number of rows: the mechanism releases B (C G + ζ σ Z), Z of as many rows
// as C. Its privacy is that of C as for a [Strategy]. It is for mechanisms whose decoder B is not the best
// one for C; with the best one, C's Gram matrix alone decides, and a Strategy is made of it, which has the same sensitivity, error and
// noise ([Tree], [FFT]).
type Factorization struct {
	Encoder *mat.Dense // [rows, steps]
	Decoder *mat.Dense // [steps, rows]
}

// Error returns the expected error at noise multiplier 1: the decoder's row norms.
func (f *Factorization) Error() Error {
	n, _ := f.Decoder.Dims()
	variance := make([]float64, n)
	for i := range variance {
		variance[i] = square(f.Decoder.RawRowView(i))
	}
	return newError(variance)
}

// Sensitivity is as for a Strategy with the encoder's Gram matrix.
func (f *Factorization) Sensitivity(p Participation) (Sensitivity, error) {
	var gram mat.Dense
	gram.Mul(f.Encoder.T(), f.Encoder)
	s, err := fromGram(KindDense, symmetric(&gram))
	if err != nil {
		return Sensitivity{}, err
	}
	return s.Sensitivity(p)
}

// fromGram returns the lower triangular C with CᵀC = gram, by a Cholesky decomposition from below.
func fromGram(kind string, gram *mat.SymDense) (*Strategy, error) {
	n := gram.SymmetricDim()
	flipped := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			flipped.SetSym(i, j, gram.At(n-1-i, n-1-j))
		}
	}
	var factor mat.Cholesky
	if !factor.Factorize(flipped) {
		return nil, errNotPositive
	}
	upper := factor.RawU() // flipped = UᵀU, and C[i][j] = U[n-1-i][n-1-j]
	s := &Strategy{Kind: kind, Steps: n, Columns: make([][]float64, n)}
	for j := range n {
		column := make([]float64, n-j)
		for i := j; i < n; i++ {
			column[i-j] = upper.At(n-1-i, n-1-j)
		}
		s.Columns[j] = column
	}
	return valid(s)
}

func checkTree(arity, steps int) error {
	check := param.Checker{Package: "mechanism"}
	check.AtLeast("arity", arity, 2)
	check.AtLeast("steps", steps, 1)
	return check.Err()
}

// treeNodes returns the encoder's rows of an arity-ary tree over steps leaves, as ranges of steps: all nodes of the smallest
// complete tree that hold a step. Ranges are not cut at steps: what is beyond are virtual steps with zero
// gradients (arXiv 2211.06530, Appendix D.3).
func treeNodes(arity, steps int) (nodes [][2]int) {
	for size := 1; ; size *= arity {
		for from := 0; from < steps; from += size {
			nodes = append(nodes, [2]int{from, from + size})
		}
		if size >= steps {
			return nodes
		}
	}
}

// Tree returns tree aggregation of any arity with the full Honaker estimator, the best decoder for
// the tree's nodes (arXiv 2211.06530, Appendix D.4): the lower triangular strategy with the Gram
// matrix of the tree. Some of its entries may be negative.
func Tree(arity, steps int) (*Strategy, error) {
	if err := checkTree(arity, steps); err != nil {
		return nil, err
	}
	gram := mat.NewSymDense(steps, nil) // the number of nodes that hold both steps
	for _, node := range treeNodes(arity, steps) {
		for i := node[0]; i < min(node[1], steps); i++ {
			for j := i; j < min(node[1], steps); j++ {
				gram.SetSym(i, j, gram.At(i, j)+1)
			}
		}
	}
	return fromGram(KindTree, gram)
}

// OnlineTree returns tree aggregation with Honaker's estimator from below (arXiv 2211.06530,
// Appendix D.3): a prefix sum is the sum of complete nodes, each estimated from itself and all
// nodes under it. The last sum is that of the completed tree where this is better, without the
// noise of virtual steps.
func OnlineTree(arity, steps int) (*Factorization, error) {
	if err := checkTree(arity, steps); err != nil {
		return nil, err
	}
	nodes := treeNodes(arity, steps)
	index := make(map[[2]int]int, len(nodes))
	f := &Factorization{mat.NewDense(len(nodes), steps, nil), mat.NewDense(steps, len(nodes), nil)}
	for r, node := range nodes {
		index[node] = r
		for i := node[0]; i < min(node[1], steps); i++ {
			f.Encoder.Set(r, i, 1)
		}
	}
	// estimate adds weight times the estimate of a node from below to a decoder's row
	var estimate func(row []float64, from, size int, weight float64)
	estimate = func(row []float64, from, size int, weight float64) {
		r, real := index[[2]int{from, from + size}]
		if !real {
			return // virtual steps only: known to be zero
		}
		own := honakerVariance(arity, size)
		row[r] += weight * own
		if size > 1 {
			for c := range arity {
				estimate(row, from+c*size/arity, size/arity, weight*(1-own))
			}
		}
	}
	for i := range steps {
		row := f.Decoder.RawRowView(i)
		for from := 0; from <= i; {
			size := 1
			for from%(size*arity) == 0 && from+size*arity <= i+1 {
				size *= arity
			}
			estimate(row, from, size, 1)
			from += size
		}
	}
	completed := make([]float64, len(nodes))
	root := nodes[len(nodes)-1]
	estimate(completed, root[0], root[1], 1)
	if last := f.Decoder.RawRowView(steps - 1); square(completed) < square(last) {
		copy(last, completed)
	}
	return f, nil
}

// honakerVariance is the variance of a node's estimate from below in units of a node's: 1/v = 1 + 1/(arity·v'), v' that of its
// children. It is also the weight of the node itself.
func honakerVariance(arity, size int) float64 {
	v := 1.0
	for s := 1; s < size; s *= arity {
		v = 1 / (1 + 1/(float64(arity)*v))
	}
	return v
}

// Fenwick returns the 0/1 tree of one row a step (arXiv 2605.18379, Appendix B): row i-1 (i from 1)
// sums the last arity^v steps up to i, where v is how often arity divides i.
func Fenwick(arity, steps int) (*Strategy, error) {
	if err := checkTree(arity, steps); err != nil {
		return nil, err
	}
	s := &Strategy{Kind: KindFenwick, Steps: steps, Columns: make([][]float64, steps)}
	for i := 1; i <= steps; i++ {
		size := 1
		for i%(size*arity) == 0 {
			size *= arity
		}
		for j := i - size; j < i; j++ {
			c := s.Columns[j]
			for len(c) < i-1-j {
				c = append(c, 0)
			}
			s.Columns[j] = append(c, 1)
		}
	}
	return valid(s)
}

// circulant returns the absolute values of the discrete Fourier transform of the 2n-periodic extension of prefix sums, n ones and n
// zeros: the eigenvalues of |A_circ| (arXiv 2211.06530, section 4 and Appendix J).
func circulant(n int) []float64 {
	v := make([]complex128, 2*n)
	for i := range n {
		v[i] = 1
	}
	spectrum := make([]float64, 2*n)
	for k, x := range fourier.NewCmplxFFT(2*n).Coefficients(nil, v) {
		spectrum[k] = cmplx.Abs(x)
	}
	return spectrum
}

// FFT returns the FFT mechanism for prefix sums with the optimal decoder (arXiv 2211.06530,
// section 4): the lower triangular strategy whose Gram matrix is the steps×steps corner of
// |A_circ|.
func FFT(steps int) (*Strategy, error) {
	check := param.Checker{Package: "mechanism"}
	check.AtLeast("steps", steps, 1)
	if err := check.Err(); err != nil {
		return nil, err
	}
	first := fftGram(steps)
	gram := mat.NewSymDense(steps, nil)
	for i := range steps {
		for j := i; j < steps; j++ {
			gram.SetSym(i, j, first[j-i])
		}
	}
	return fromGram(KindFFT, gram)
}

// fftGram returns the first column of |A_circ|.
func fftGram(n int) []float64 {
	spectrum := circulant(n)
	values := make([]complex128, 2*n)
	for k, v := range spectrum {
		values[k] = complex(v/float64(2*n), 0)
	}
	first := make([]float64, n)
	for i, x := range fourier.NewCmplxFFT(2*n).Sequence(nil, values)[:n] {
		first[i] = real(x)
	}
	return first
}

// FFTError returns the error of the FFT mechanism with its own decoder F*Σ^½ (arXiv 2211.06530,
// Algorithm 1): every prefix sum has the mean of |A_circ|'s eigenvalues for its variance.
func FFTError(steps int) Error {
	mean := 0.0
	for _, v := range circulant(steps) {
		mean += v / float64(2*steps)
	}
	variance := make([]float64, steps)
	for i := range variance {
		variance[i] = mean
	}
	return newError(variance)
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
