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
// It is the recursion of SGD with momentum, which pulls the model back (F1.1). With x_j the input of
// step j, v the velocity and s the model, both 0 at first, v_j = β v_{j-1} + x_j - κ(1-β) s_{j-1}
// and s_j = (1 - η_j λ) s_{j-1} + η_j v_j. With κ = λ = 0 this is A[i][j] = Σ_{t=j}^{i} η_t β^{t-j};
// with β = 0 and no rates as well, prefix sums. It is a streaming linear operator (arXiv 2405.15913,
// Appendix D): nothing of size Steps×Steps is held.
type Workload struct {
	Steps         int       `json:"steps"`                    // at least 1
	Momentum      float64   `json:"momentum,omitempty"`       // β, 0 or more and below 1
	LearningRates []float64 `json:"learning_rates,omitempty"` // η: Steps entries, finite, at least 0, one of them above 0; nil: all 1
	Forgetting    float64   `json:"forgetting,omitempty"`     // κ: part of the model that a step at rate 1 pulls back in the end; at least 0, at most 1 at the largest rate
	Decay         float64   `json:"decay,omitempty"`          // λ: part of the model that a step at rate 1 takes off besides; at least 0, at most 1 at the largest rate
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
func (a *Workload) IsToeplitz() bool { return a.LearningRates == nil }

// checkToeplitz requires a Toeplitz workload.
func (a *Workload) checkToeplitz() error {
	if a.IsToeplitz() {
		return nil
	}
	return param.Fault("schedule", "of rates that change", "must be constant here")
}

// FirstColumn returns the first column of A, its first n entries, for a Toeplitz workload, and nil
// for others.
func (a *Workload) FirstColumn(n int) []float64 {
	if !a.IsToeplitz() {
		return nil
	}
	column := make([]float64, n)
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

// toeplitzNear returns the nearest Toeplitz workload to a, from which optimisations begin: constant
// learning rates.
func (a *Workload) toeplitzNear() *Workload {
	rate := a.largestRate()
	return &Workload{Steps: a.Steps, Momentum: a.Momentum, Forgetting: rate * a.Forgetting, Decay: rate * a.Decay}
}

// Multiply returns A x for x of Steps entries. It takes O(Steps).
func (a *Workload) Multiply(x []float64) []float64 {
	if len(x) != a.Steps {
		panic(fmt.Sprintf("mechanism: vector of %d entries for a workload of %d steps", len(x), a.Steps))
	}
	y := make([]float64, len(x))
	velocity, sum := 0.0, 0.0
	for i, v := range x {
		velocity = a.Momentum*velocity + v - a.pull()*sum
		sum = a.keep(i)*sum + a.rate(i)*velocity
		y[i] = sum
	}
	return y
}
