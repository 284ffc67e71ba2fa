package mechanism

import (
	"fmt"
	"math"

	"minsep/internal/param"
)

// Workload is the matrix A whose rows are the sums of gradients that matter: Steps×Steps, lower
// triangular. Row i says what the model after step i (0-based) is made of. The error of a strategy
// is that of A C⁻¹ Z.
//
// It is a streaming linear operator (arXiv 2405.15913, Appendix D): nothing of size Steps×Steps is
// held unless Matrix is given. Exactly one of three forms holds:
//
//   - neither Toeplitz nor Matrix: SGD with Momentum β in [0,1) and LearningRates η (nil: all one),
//     A[i][j] = Σ_{t=j}^{i} η_t β^{t-j}; with β = 0 and no rates, prefix sums;
//   - Toeplitz: the first column of A, zeros beyond;
//   - Matrix: the rows, row i with its i+1 entries up to the diagonal.
type Workload struct {
	Steps         int         `json:"steps"`                    // at least 1
	Momentum      float64     `json:"momentum,omitempty"`       // β, 0 or more and below 1
	LearningRates []float64   `json:"learning_rates,omitempty"` // Steps entries, finite, positive
	Toeplitz      []float64   `json:"toeplitz,omitempty"`       // 1 to Steps entries
	Matrix        [][]float64 `json:"matrix,omitempty"`         // Steps rows, row i of i+1 finite entries
}

// Prefix is the workload of prefix sums: SGD with a constant learning rate.
func Prefix(steps int) *Workload { return &Workload{Steps: steps} }

// Momentum is the workload of SGD with momentum beta and learning rates, nil for a constant one.
func Momentum(steps int, beta float64, rates []float64) *Workload {
	return &Workload{Steps: steps, Momentum: beta, LearningRates: rates}
}

// Cooldown returns learning rates that are 1 and fall linearly to final over the last part, a share
// in [0,1], of the steps. Section 5 of arXiv 2211.06530 uses final = 0.05 over the last 25 %.
func Cooldown(steps int, part, final float64) []float64 {
	return ramp(steps, float64(steps)*(1-part), float64(steps), final)
}

// LinearDecay returns learning rates that are 1 up to step Steps/4, fall linearly to final at
// 3·Steps/4 and stay there. Section 7.2 of arXiv 2602.09338 uses final = 1/20.
func LinearDecay(steps int, final float64) []float64 {
	return ramp(steps, float64(steps)/4, 3*float64(steps)/4, final)
}

// ramp is 1 before step from, final from step to on, linear between.
func ramp(steps int, from, to, final float64) []float64 {
	rates := make([]float64, steps)
	for i := range rates {
		share := 1.0
		if at := float64(i + 1); at < to {
			share = max(0, at-from) / (to - from)
		}
		rates[i] = 1 + share*(final-1)
	}
	return rates
}

// Validate returns every fault of a joined, or nil.
func (a *Workload) Validate() error {
	check := param.Checker{Package: "mechanism"}
	check.AtLeast("workload steps", a.Steps, 1)
	check.Require(a.Momentum >= 0 && a.Momentum < 1, "momentum", a.Momentum, "must be in [0, 1)")
	if a.LearningRates != nil {
		check.Require(len(a.LearningRates) == a.Steps, "learning rates", len(a.LearningRates), "must be as many as the steps")
		for _, eta := range a.LearningRates {
			check.Positive("learning rate", eta)
		}
	}
	recursive := a.Momentum != 0 || a.LearningRates != nil
	check.Require(count(recursive, a.Toeplitz != nil, a.Matrix != nil) <= 1, "workload", "forms",
		"momentum and learning rates, toeplitz and matrix exclude each other")
	if a.Toeplitz != nil {
		checkEntries(&check, "workload column", a.Toeplitz, 1, a.Steps)
	}
	if a.Matrix != nil {
		check.Require(len(a.Matrix) == a.Steps, "workload rows", len(a.Matrix), "must be as many as the steps")
		for i, row := range a.Matrix {
			checkEntries(&check, fmt.Sprintf("workload row %d", i), row, i+1, i+1)
		}
	}
	return check.Err()
}

func checkEntries(check *param.Checker, name string, x []float64, low, high int) {
	check.Require(len(x) >= low && len(x) <= high, "length of "+name, len(x), fmt.Sprintf("must be %d to %d", low, high))
	for _, v := range x {
		check.Require(!math.IsNaN(v) && !math.IsInf(v, 0), name, v, "must be finite")
	}
}

func count(set ...bool) int {
	n := 0
	for _, b := range set {
		if b {
			n++
		}
	}
	return n
}

// IsToeplitz reports whether A[i][j] depends on i-j only.
func (a *Workload) IsToeplitz() bool { return a.Matrix == nil && a.LearningRates == nil }

// FirstColumn returns the first column of A, its first n entries, for a Toeplitz workload, and nil
// for others.
func (a *Workload) FirstColumn(n int) []float64 {
	if !a.IsToeplitz() {
		return nil
	}
	column := make([]float64, n)
	if a.Toeplitz != nil {
		copy(column, a.Toeplitz)
		return column
	}
	sum, power := 0.0, 1.0
	for t := range column {
		sum += power
		power *= a.Momentum
		column[t] = sum
	}
	return column
}

// rate is the learning rate of step i.
func (a *Workload) rate(i int) float64 {
	if a.LearningRates == nil {
		return 1
	}
	return a.LearningRates[i]
}

// isRecursive reports whether A is given by momentum and learning rates.
func (a *Workload) isRecursive() bool { return a.Toeplitz == nil && a.Matrix == nil }

// Multiply returns A x for x of Steps entries. It takes O(Steps) for momentum and learning rates.
func (a *Workload) Multiply(x []float64) []float64 {
	if len(x) != a.Steps {
		panic(fmt.Sprintf("mechanism: vector of %d entries for a workload of %d steps", len(x), a.Steps))
	}
	y := make([]float64, len(x))
	switch {
	case a.Toeplitz != nil:
		multiplyToeplitz(y, a.Toeplitz, x)
	case a.Matrix != nil:
		for i, row := range a.Matrix {
			for j, v := range row {
				y[i] += v * x[j]
			}
		}
	default:
		velocity, sum := 0.0, 0.0
		for i, v := range x {
			velocity = a.Momentum*velocity + v
			sum += a.rate(i) * velocity
			y[i] = sum
		}
	}
	return y
}

// Row appends row i (0-based) of A up to the diagonal, i+1 entries, to dst[:0].
func (a *Workload) Row(dst []float64, i int) []float64 {
	dst = dst[:0]
	switch {
	case a.Matrix != nil:
		return append(dst, a.Matrix[i]...)
	case a.Toeplitz != nil:
		for j := 0; j <= i; j++ {
			v := 0.0
			if i-j < len(a.Toeplitz) {
				v = a.Toeplitz[i-j]
			}
			dst = append(dst, v)
		}
		return dst
	}
	dst = append(dst, make([]float64, i+1)...)
	sum := 0.0 // A[i][j] = η_j + β A[i][j+1]
	for j := i; j >= 0; j-- {
		sum = a.rate(j) + a.Momentum*sum
		dst[j] = sum
	}
	return dst
}
