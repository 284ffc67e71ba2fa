package mechanism

import (
	"fmt"
	"math"
	"slices"

	"minsep/internal/param"
)

// Workload is the matrix A, Steps×Steps and lower triangular, that takes the sums of gradients to
// the models: row i has the weights of the steps in the model after step i (0-based). The error of
// a strategy is A C⁻¹ Z.
//
// It is a streaming linear operator (arXiv 2405.15913, Appendix D): nothing of size Steps×Steps is
// held unless Matrix is given. Exactly one of three forms holds:
//
//   - neither Toeplitz nor Matrix: the recursion of SGD with momentum, which pulls the model back
//     (F1.1). With x_j the input of step j, v the velocity and s the model, both 0 at first,
//     v_j = β v_{j-1} + x_j - κ(1-β) s_{j-1} and s_j = (1 - η_j λ) s_{j-1} + η_j v_j.
//     With κ = λ = 0 this is A[i][j] = Σ_{t=j}^{i} η_t β^{t-j}; with β = 0 and no rates as well,
//     prefix sums;
//   - Toeplitz: the first column of A, zeros beyond;
//   - Matrix: the rows, row i with its i+1 entries up to the diagonal.
type Workload struct {
	Steps         int         `json:"steps"`                    // at least 1
	Momentum      float64     `json:"momentum,omitempty"`       // β, 0 or more and below 1
	LearningRates []float64   `json:"learning_rates,omitempty"` // η: Steps entries, finite, at least 0, one of them above 0; nil: all 1
	Forgetting    float64     `json:"forgetting,omitempty"`     // κ: part of the model that a step at rate 1 pulls back in the end; at least 0, at most 1 at the largest rate
	Decay         float64     `json:"decay,omitempty"`          // λ: part of the model that a step at rate 1 takes off besides; at least 0, at most 1 at the largest rate
	Toeplitz      []float64   `json:"toeplitz,omitempty"`       // 1 to Steps entries
	Matrix        [][]float64 `json:"matrix,omitempty"`         // Steps rows, row i of i+1 finite entries
}

// Prefix is the workload of prefix sums: SGD with a constant learning rate.
func Prefix(steps int) *Workload { return &Workload{Steps: steps} }

// Validate returns every fault of a joined, or nil.
func (a *Workload) Validate() error {
	check := param.Checker{}
	check.AtLeast("workload steps", a.Steps, 1)
	check.Require(a.Momentum >= 0 && a.Momentum < 1, "momentum", a.Momentum, "must be in [0, 1)")
	if a.LearningRates != nil {
		check.Require(
			len(a.LearningRates) == a.Steps,
			"learning rates",
			len(a.LearningRates),
			"must be as many as the steps",
		)
		checkRates(&check, a.LearningRates)
	}
	check.Require(
		a.Forgetting >= 0 && a.Forgetting*a.largestRate() <= 1,
		"forgetting",
		a.Forgetting,
		"must be at least 0, and at most 1 at the largest learning rate",
	)
	check.Require(
		a.Decay >= 0 && a.Decay*a.largestRate() <= 1,
		"decay",
		a.Decay,
		"must be at least 0, and at most 1 at the largest learning rate",
	)
	recursive := a.Momentum != 0 || a.LearningRates != nil || a.Forgetting != 0 || a.Decay != 0
	check.Require(count(recursive, a.Toeplitz != nil, a.Matrix != nil) <= 1, "workload", "forms",
		"the recursion of momentum and learning rates, toeplitz and matrix exclude each other")
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

// checkEntries requires low to high finite entries.
func checkEntries(check *param.Checker, name string, x []float64, low, high int) {
	if len(x) < low || len(x) > high {
		rule := fmt.Sprintf("must have %d to %d", low, high)
		if low == high {
			rule = fmt.Sprintf("must have %d", low)
		}
		check.Require(false, name, fmt.Sprintf("of %d entries", len(x)), rule)
		return
	}
	for _, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			check.Require(false, name, v, "must be of finite numbers")
			return
		}
	}
}

// count returns the number of true values.
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

// checkToeplitz requires a Toeplitz workload.
func (a *Workload) checkToeplitz() error {
	if a.IsToeplitz() {
		return nil
	}
	const rule = "must be Toeplitz here: of constant learning rates, or a file with toeplitz"
	return param.Fault("workload", a.form(), rule)
}

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
	sum, velocity := 0.0, 1.0
	for t := range column {
		if t > 0 {
			velocity = a.Momentum*velocity - a.pull()*sum
		}
		sum = (1-a.Decay)*sum + velocity
		column[t] = sum
	}
	return column
}

// pull returns κ(1-β), the factor of the model in the next step's velocity.
func (a *Workload) pull() float64 { return a.Forgetting * (1 - a.Momentum) }

// keep returns the part of the model that the decay of step i leaves.
func (a *Workload) keep(i int) float64 { return 1 - a.rate(i)*a.Decay }

// largestRate returns the largest learning rate, 1 if none are given.
func (a *Workload) largestRate() float64 {
	if len(a.LearningRates) == 0 {
		return 1
	}
	return slices.Max(a.LearningRates)
}

// rate returns the learning rate of step i.
func (a *Workload) rate(i int) float64 {
	if a.LearningRates == nil {
		return 1
	}
	return a.LearningRates[i]
}

// form describes a in words.
func (a *Workload) form() string {
	switch {
	case a.Matrix != nil:
		return "of a matrix"
	case a.Toeplitz != nil:
		return "of a first column"
	case a.LearningRates != nil:
		return "with learning rates that change"
	}
	return "with constant learning rates"
}

// toeplitzNear returns the nearest Toeplitz workload to a, from which optimisations begin: constant
// learning rates, and prefix sums in place of a matrix.
func (a *Workload) toeplitzNear() *Workload {
	switch {
	case a.IsToeplitz():
		return a
	case a.Matrix != nil:
		return Prefix(a.Steps)
	}
	rate := a.largestRate()
	return &Workload{Steps: a.Steps, Momentum: a.Momentum, Forgetting: rate * a.Forgetting, Decay: rate * a.Decay}
}

// isRecursive reports whether A is given by the recursion of momentum and learning rates.
func (a *Workload) isRecursive() bool { return a.Toeplitz == nil && a.Matrix == nil }

// Multiply returns A x for x of Steps entries. It takes O(Steps) for the recursion.
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
			velocity = a.Momentum*velocity + v - a.pull()*sum
			sum = a.keep(i)*sum + a.rate(i)*velocity
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
	model, velocity := 1.0, 0.0 // weights that the model and the velocity after a step have in s_i
	for j := i; j >= 0; j-- {
		entry := a.rate(j)*model + velocity
		dst[j] = entry
		model, velocity = a.keep(j)*model-a.pull()*entry, a.Momentum*entry
	}
	return dst
}
