// Package likelihood holds the likelihood-ratio recursions: one number a step, backward in time, in
// log domain.
//
// Every Ratio gives ln P(y)/Q(y) for one family of participation processes, with Q = N(0, σ²I) over
// Steps steps. It sees the output y only through u_i =
// ⟨c_i, y⟩/σ², c_i the i-th column of C, and C itself through norms and inner products of columns
// divided by σ². So the matrix, the randomness and the recursions are checked apart from each
// other. Results hold to 1e-9 for log ratios up to 1e4 in size. Steps are 0-based here and 1-based
// in the formulas.
package likelihood

import (
	"math"
	"slices"

	"minsep/mechanism"
)

// Columns is the strategy matrix as the recursions and the kernel see it: its columns from the
// diagonal down, cut after the last step. It is read-only after construction and safe for
// concurrent use.
type Columns struct {
	Steps, Bands int

	first   []float64   // the first column of a Toeplitz matrix, before scale; nil when columns is set
	scale   []float64   // factors of the columns of a normalised Toeplitz matrix; nil for 1
	columns [][]float64 // otherwise
}

// NewColumns returns the columns of a valid strategy.
func NewColumns(s *mechanism.Strategy) *Columns {
	if s.Columns != nil {
		columns := make([][]float64, s.Steps)
		for i := range columns {
			columns[i] = s.Column(nil, i)
		}
		return General(columns)
	}
	c := Toeplitz(s.Steps, s.FirstColumn(nil))
	if s.Normalized {
		c.scale = s.ColumnNorms()
		for i, norm := range c.scale {
			c.scale[i] = 1 / norm
		}
	}
	return c
}

// Toeplitz returns the columns of the Toeplitz matrix with a first column of any length, zeros
// beyond it.
func Toeplitz(steps int, first []float64) *Columns {
	first = first[:min(len(first), steps)]
	return &Columns{Steps: steps, Bands: len(first), first: first}
}

// General returns columns given one by one; column i has at most len(columns)-i entries, zeros
// beyond.
func General(columns [][]float64) *Columns {
	c := &Columns{Steps: len(columns), columns: columns}
	for _, column := range columns {
		c.Bands = max(c.Bands, len(column))
	}
	return c
}

// Column returns column i from the diagonal down and the factor to multiply it with. The slice is
// not to be changed.
func (c *Columns) Column(i int) (entries []float64, scale float64) {
	if c.columns != nil {
		return c.columns[i], 1
	}
	return c.first[:min(c.Bands, c.Steps-i)], c.Scale(i)
}

// Scale returns the factor of column i.
func (c *Columns) Scale(i int) float64 {
	if c.scale == nil {
		return 1
	}
	return c.scale[i]
}

// First returns the column that every column is a cut multiple of, or nil when there is none.
func (c *Columns) First() []float64 { return c.first }

// InnerNonNegative reports whether no inner product of two columns is negative, but for rounding. All
// that is proven for a C without negative entries holds for such a C too, if it stands for another
// matrix without any, as montecarlo.Spec.ByPatterns makes it.
func (c *Columns) InnerNonNegative() bool {
	least, largest := 0.0, 0.0
	c.Backward(func(_ int, inner []float64) {
		least, largest = min(least, slices.Min(inner)), max(largest, inner[0])
	})
	return least >= -1e-10*largest
}

// Dot returns ⟨c_i, y⟩ for y of Steps entries.
func (c *Columns) Dot(i int, y []float64) float64 {
	column, scale := c.Column(i)
	return scale * dot(column, y[i:i+len(column)])
}

// SquaredNorms returns ‖c_i‖²·factor for every i.
func (c *Columns) SquaredNorms(factor float64) []float64 {
	norms := make([]float64, c.Steps)
	if c.columns != nil {
		for i, column := range c.columns {
			norms[i] = factor * dot(column, column)
		}
		return norms
	}
	sum := 0.0
	for i := c.Steps - 1; i >= 0; i-- {
		if size := c.Steps - i; size <= c.Bands {
			sum += c.first[size-1] * c.first[size-1]
		}
		norms[i] = factor * sum * c.Scale(i) * c.Scale(i)
	}
	return norms
}

// Inner returns ⟨c_i, c_j⟩.
func (c *Columns) Inner(i, j int) float64 {
	if i > j {
		i, j = j, i
	}
	a, scaleA := c.Column(i)
	b, scaleB := c.Column(j)
	if j-i >= len(a) {
		return 0
	}
	a = a[j-i:]
	size := min(len(a), len(b))
	return scaleA * scaleB * dot(a[:size], b[:size])
}

// Backward calls visit with i = Steps-1, …, 0 and ⟨c_i, c_{i+t}⟩ at t = 0 … min(Bands, Steps-i)-1.
// It takes O(Bands) a step for a Toeplitz matrix. inner holds until the next call.
func (c *Columns) Backward(visit func(i int, inner []float64)) {
	inner := make([]float64, c.Bands)
	sums := make([]float64, c.Bands) // of products of entries t apart, as far as both columns go
	for i := c.Steps - 1; i >= 0; i-- {
		reach := min(c.Bands, c.Steps-i)
		for t := range reach {
			if c.first == nil {
				inner[t] = c.Inner(i, i+t)
				continue
			}
			if last := c.Steps - i - 1; last < c.Bands { // column i+t goes one entry further than for i+1
				sums[t] += c.first[last] * c.first[last-t]
			}
			inner[t] = c.Scale(i) * c.Scale(i+t) * sums[t]
		}
		visit(i, inner[:reach])
	}
}

func dot(a, b []float64) (sum float64) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// LogSum returns ln(e^a + e^b). Minus infinity stands for zero.
func LogSum(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}
