package mechanism

import (
	"context"
	"math/cmplx"

	"gonum.org/v1/gonum/dsp/fourier"
	"gonum.org/v1/gonum/mat"
)

// KindFFT is the FFT mechanism with the optimal decoder (arXiv 2211.06530, section 4).
const KindFFT = "fft"

func init() {
	register(Family{
		Kind:     KindFFT,
		Rank:     140,
		Help:     "the FFT mechanism for prefix sums, with the best decoder",
		MaxSteps: maxWholeSteps,
		bands:    allBands,
		make:     fft,
	})
}

// fft returns the FFT mechanism for prefix sums with the optimal decoder (arXiv 2211.06530,
// section 4): the lower triangular strategy with the steps×steps corner of |A_circ| as its Gram
// matrix.
func fft(ctx context.Context, _ Problem, p Params) (*Strategy, error) {
	steps := p.Steps
	first := fftGram(steps)
	gram := mat.NewSymDense(steps, nil)
	for i := range steps {
		for j := i; j < steps; j++ {
			gram.SetSym(i, j, first[j-i])
		}
	}
	return fromGram(ctx, KindFFT, gram)
}

// fftGram returns the first n entries of the first column of |A_circ|. Its eigenvalues are the
// absolute values of the discrete Fourier transform of the 2n-periodic extension of prefix sums, n
// ones and n zeros (arXiv 2211.06530, section 4 and Appendix J).
func fftGram(n int) []float64 {
	v := make([]complex128, 2*n)
	for i := range n {
		v[i] = 1
	}
	transform := fourier.NewCmplxFFT(2 * n)
	transform.Coefficients(v, v)
	for k, x := range v {
		v[k] = complex(cmplx.Abs(x)/float64(2*n), 0)
	}
	transform.Sequence(v, v)
	first := make([]float64, n)
	for i := range first {
		first[i] = real(v[i])
	}
	return first
}
