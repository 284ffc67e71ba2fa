package mechanism

import (
	"context"
	"math/cmplx"

	"gonum.org/v1/gonum/dsp/fourier"
	"gonum.org/v1/gonum/mat"

	"minsep/internal/param"
)

// KindFFT is the FFT mechanism with the optimal decoder (arXiv 2211.06530, section 4).
const KindFFT = "fft"

func init() {
	register(Family{
		Kind: KindFFT, Rank: 140,
		Help:     "the FFT mechanism for prefix sums, with the best decoder",
		MaxSteps: maxWholeSteps,
		bands:    allBands,
		make:     func(problem Problem, p Params, _ bool) (*Strategy, error) { return fft(problem.context(), p.Steps) },
	})
}

// circulant returns the absolute values of the discrete Fourier transform of the 2n-periodic
// extension of prefix sums, n ones and n zeros: the eigenvalues of |A_circ| (arXiv 2211.06530,
// section 4 and Appendix J).
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
// section 4): the lower triangular strategy with the steps×steps corner of |A_circ| as its Gram
// matrix.
func FFT(steps int) (*Strategy, error) { return fft(context.Background(), steps) }

// fft does the work of FFT, and ends when ctx ends.
func fft(ctx context.Context, steps int) (*Strategy, error) {
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
	return fromGram(ctx, KindFFT, gram)
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
// Algorithm 1): the variance of every prefix sum is the mean of |A_circ|'s eigenvalues.
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
