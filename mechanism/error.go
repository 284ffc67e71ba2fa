package mechanism

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"minsep/internal/param"
)

// Error is the expected error of a strategy on a workload at noise multiplier 1 and clip norm 1
// (F1): the error is A C⁻¹ z, z iid N(0,1). Multiply RMSE and MaxSE by the noise multiplier σ for
// the error of a mechanism. Without amplification, σ is the sensitivity times the σ of a Gaussian
// mechanism of sensitivity 1; with amplification, accounting finds it.
type Error struct {
	Variance []float64 // [steps]: row i's squared error, ‖(A C⁻¹)[i,:]‖²
	RMSE     float64   // ‖A C⁻¹‖_F / √steps
	MaxSE    float64   // ‖A C⁻¹‖_{2→∞}, the largest row norm
}

// newError returns the error with the given variances of the rows, at least one.
func newError(variance []float64) Error {
	sum := 0.0
	for _, v := range variance {
		sum += v
	}
	return Error{variance, math.Sqrt(sum / float64(len(variance))), math.Sqrt(slices.Max(variance))}
}

// Error returns the expected error of s on workload a, which must have as many steps. Both must be
// valid.
//
// Toeplitz strategies with Toeplitz workloads take O(n·bands) (arXiv 2405.15913, Proposition 3.1),
// and BLT O(n·buffers). With momentum and learning rates, banded strategies take O(n·bands²) and
// inverse-banded ones O(n·bands), normalised or not: the covariance of the noise's last bands-1
// rows is carried from step to step. Every other case takes A C⁻¹ column by column: O(n²) for Toeplitz
// strategies and O(n²·bands) for others. No case takes more than O(n·bands) memory.
func (s *Strategy) Error(a *Workload) (Error, error) {
	if s.Steps != a.Steps {
		return Error{}, param.Fault("workload steps", a.Steps, "must be the strategy's, %d", s.Steps)
	}
	var variance []float64
	switch {
	case s.IsToeplitz() && a.IsToeplitz():
		variance = s.toeplitzVariance(a)
	case s.InverseToeplitz != nil:
		variance = s.inverseVariance(a)
	case s.BLT == nil && s.Bands() <= s.Steps/4:
		variance = newBandedCovariance(s, a).forward()
	default:
		variance = s.columnVariance(a)
	}
	for i, v := range variance {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return Error{}, param.Fault("error at step", i, "must be finite: the strategy is unstable")
		}
	}
	return newError(variance), nil
}

// toeplitzVariance returns the variances of a Toeplitz A C⁻¹: its row i holds the first i+1 entries
// of w = C⁻¹ a (arXiv 2405.15913, Propositions 3.1 and D.1), so that prefix sums of squares do.
func (s *Strategy) toeplitzVariance(a *Workload) []float64 {
	plain := *s
	if s.Normalized { // one band: C is the identity
		plain = *Identity(s.Steps)
	}
	w := plain.Solve(a.FirstColumn(a.Steps))
	sum := 0.0
	for i, v := range w {
		sum += v * v
		w[i] = sum
	}
	return w
}

// columnVariance adds the squares of A C⁻¹ column by column. The columns of a Toeplitz C⁻¹ are the
// first one, moved down; with normalised columns of C, its rows are multiplied by their norms.
func (s *Strategy) columnVariance(a *Workload) []float64 {
	n, first := s.Steps, []float64(nil)
	variance, x := make([]float64, n), make([]float64, n)
	norms := s.ColumnNorms()
	if s.Columns == nil {
		plain := *s
		plain.Normalized = false
		x[0] = 1
		first = plain.Solve(x)
	}
	for j := range n {
		clear(x)
		if first == nil {
			x[j] = 1
			x = s.Solve(x)
		} else {
			copy(x[j:], first)
			if s.Normalized {
				floats.Mul(x, norms)
			}
		}
		for i, v := range a.Multiply(x) {
			variance[i] += v * v
		}
	}
	return variance
}

// inverseVariance returns the variances for a banded C⁻¹ on a recursive workload. It carries the
// covariance of the workload's state x_i = (model, velocity) with the last inputs z: y_i = d_i Σ_j
// h_j z_{i-j} enters x_i = Φ_i x_{i-1} + γ_i y_i.
func (s *Strategy) inverseVariance(a *Workload) []float64 {
	h := s.InverseToeplitz
	var norms []float64
	if s.Normalized {
		norms = s.ColumnNorms()
	}
	var state covariance
	r := make([][2]float64, len(h)) // covariance of the state with z_{i-j}, at slot (i-j) mod len(h)
	variance, pull := make([]float64, a.Steps), a.pull()
	for i := range variance {
		d, eta, beta, keep := 1.0, a.rate(i), a.Momentum, a.keep(i)
		if norms != nil {
			d = norms[i]
		}
		r[i%len(h)] = [2]float64{} // z_i is new, and z_{i-len(h)} is no longer needed
		var square float64
		var cross [2]float64 // covariance of the old state with y_i
		for j, v := range h[:min(len(h), i+1)] {
			slot := r[(i-j)%len(h)]
			square += v * v
			cross[0] += v * slot[0]
			cross[1] += v * slot[1]
		}
		square *= d * d
		cross[0] *= d
		cross[1] *= d
		state.advance(a, i, square, cross[0], cross[1])
		for j, v := range h[:min(len(h), i+1)] {
			slot := &r[(i-j)%len(h)]
			slot[1] = beta*slot[1] + d*v - pull*slot[0]
			slot[0] = keep*slot[0] + eta*slot[1]
		}
		variance[i] = state.ss
	}
	return variance
}

// StepDeviations returns the norms of the rows of C⁻¹, [steps]: the standard deviations of the
// noise that each step adds to its sum of gradients, at noise multiplier 1 and clip norm 1 (F1.2).
// It takes as long as [Strategy.Error].
func (s *Strategy) StepDeviations() ([]float64, error) {
	// The noise in a model that forgets everything in one step is the step's own noise.
	e, err := s.Error(&Workload{Steps: s.Steps, Forgetting: 1})
	for i, v := range e.Variance {
		e.Variance[i] = math.Sqrt(v)
	}
	return e.Variance, err
}

// StepNoise returns the standard deviation of the noise of one step at noise multiplier 1 and
// clip norm 1 (F1.2). For a Toeplitz strategy it is ‖h‖, with the first column h of C⁻¹: the
// noise of the last step, and of all but the first steps. For others it is the root mean square
// over the steps.
func (s *Strategy) StepNoise() (float64, error) {
	deviations, err := s.StepDeviations()
	switch {
	case err != nil:
		return 0, err
	case s.IsToeplitz():
		return deviations[len(deviations)-1], nil
	}
	return euclidean(deviations) / math.Sqrt(float64(len(deviations))), nil
}
