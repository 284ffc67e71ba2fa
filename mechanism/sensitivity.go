package mechanism

import (
	"errors"
	"fmt"
	"math"

	"minsep/internal/param"
)

// Participation is the (k, b) schema: an example participates at most MaxParticipations times, at
// least MinSep steps apart. A MaxParticipations of 0 means as often as fits. With Phases the data
// come in a fixed order, in epochs of MinSep steps: an example participates at steps s, s+b, s+2b,
// … for one of the b possible s (arXiv 2211.06530).
type Participation struct {
	MinSep            int  `json:"min_sep"`            // in steps, at least 1
	MaxParticipations int  `json:"max_participations"` // of one example, at least 0; 0: as many as fit
	Phases            bool `json:"phases,omitempty"`   // exactly every MinSep steps
}

// Validate returns every fault of p joined, or nil.
func (p Participation) Validate() error {
	check := param.Checker{}
	check.AtLeast("min-sep", p.MinSep, 1)
	check.AtLeast("max participations", p.MaxParticipations, 0)
	return check.Err()
}

// most returns the largest number of participations in n steps.
func (p Participation) most(n int) int {
	fits := (n + p.MinSep - 1) / p.MinSep
	if p.MaxParticipations == 0 {
		return fits
	}
	return min(fits, p.MaxParticipations)
}

// Ways of computing a sensitivity.
const (
	methodColumnSum  = "column-sum"  // ‖Σ_j C[:, jb]‖: non-negative Toeplitz, non-increasing from index b on, or normalised λ-CGD (F2)
	methodChain      = "chain"       // dynamic program: bands ≤ 2·min-sep, so that only neighbouring participations overlap
	methodEnumerated = "enumerated"  // all allowed sets
	methodPhases     = "phases"      // the sets {s, s+b, s+2b, …} of fixed epochs (arXiv 2211.06530)
	methodRowBound   = "row-bound"   // max over sets of Σ_i r_i, r_i the largest Σ_j |CᵀC|[i][j] of a set with i
	methodMajorant   = "majorant"    // the column sum of a Toeplitz matrix that is nowhere smaller and does not rise from index b on
	enumerationLimit = 1 << 20       // sets
	smallGram        = 1 << 18       // entries of CᵀC's band up to which a Toeplitz matrix has more than its majorant looked at
	gramLimit        = 1 << 27       // entries of CᵀC's band
	balanceTolerance = 4 * 0x1p-52   // of the largest entry: smaller ones have no sign
	monotoneSlack    = 1 + 8*0x1p-52 // rounding in a non-increasing first column
)

// Sensitivity is the largest change of C G in Euclidean norm that one example can make, at clip
// norm 1: the maximum over its participations and over contributions of norm at most one each.
type Sensitivity struct {
	Value  float64 `json:"value"`  // in units of the clip norm, at least 0
	Exact  bool    `json:"exact"`  // false: an upper bound
	Method string  `json:"method"` // how it was found
}

// ErrTooLarge is the error if every method that applies needs too much memory or time.
var ErrTooLarge = errors.New("too large")

// Sensitivity returns the sensitivity of s under p (F2). s must be valid.
//
// It is exact in five cases: for one participation; for non-negative Toeplitz strategies that do
// not rise from index MinSep on; for normalised λ-CGD; for any strategy of at most 2·MinSep bands;
// and if all sets of participations can be enumerated and signs of the contributions attain the
// largest sum. Otherwise it is an upper bound. The contributions of an example are vectors. So a
// set π gives at most Σ_{i,j∈π} |CᵀC|[i][j], and exactly that if signs ±1 of the contributions make
// every term non-negative. Such signs exist if CᵀC ≥ 0, and along a chain of participations that
// overlap only pairwise.
func (s *Strategy) Sensitivity(p Participation) (Sensitivity, error) {
	if err := p.Validate(); err != nil {
		return Sensitivity{}, err
	}
	k, bands := p.most(s.Steps), s.Bands()
	if s.columnSumHolds(p.MinSep) {
		return Sensitivity{s.columnSum(p.MinSep, k), true, methodColumnSum}, nil
	}
	if p.Phases {
		return s.phaseSensitivity(p)
	}
	if bands <= p.MinSep || k == 1 {
		return Sensitivity{
			math.Sqrt(chain(s.columnSquares(), nil, max(bands, p.MinSep), max(bands, p.MinSep), k)),
			true,
			methodChain,
		}, nil
	}
	toeplitz := s.IsToeplitz()
	if toeplitz && bands > 2*p.MinSep && bands > smallGram/s.Steps {
		return Sensitivity{s.majorantBound(p.MinSep, k), false, methodMajorant}, nil
	}
	g, err := newGram(s, 1)
	if err != nil {
		return Sensitivity{}, err
	}
	if bands <= 2*p.MinSep {
		return Sensitivity{math.Sqrt(chain(g.diagonal(), g, p.MinSep, bands, k)), true, methodChain}, nil
	}
	if countSets(s.Steps, p.MinSep, k) <= enumerationLimit {
		square, exact := g.enumerate(p.MinSep, k)
		return Sensitivity{math.Sqrt(square), exact, methodEnumerated}, nil
	}
	bound := Sensitivity{math.Sqrt(g.rowBound(p.MinSep, k)), false, methodRowBound}
	if toeplitz {
		if v := s.majorantBound(p.MinSep, k); v < bound.Value {
			bound = Sensitivity{v, false, methodMajorant}
		}
	}
	return bound, nil
}

// phaseSensitivity takes the largest sum over the b sets {s, s+b, s+2b, …} of at most k steps.
func (s *Strategy) phaseSensitivity(p Participation) (Sensitivity, error) {
	g, err := newGram(s, p.MinSep)
	if err != nil {
		return Sensitivity{}, err
	}
	k := p.most(s.Steps)
	best, exact := 0.0, true
	for start := range min(p.MinSep, s.Steps) {
		var set []int
		for i := start; i < s.Steps && len(set) < k; i += p.MinSep {
			set = append(set, i)
		}
		if sum := g.sum(set); sum > best {
			best, exact = sum, g.balanced(set)
		}
	}
	return Sensitivity{math.Sqrt(best), exact, methodPhases}, nil
}

// columnSumHolds reports whether {0, b, 2b, …} is known to be the worst set of participations at
// least b apart.
//
// It is for a Toeplitz C ≥ 0 with a first column that does not rise from index b on, a little more
// general than Theorem 1 of arXiv 2605.18379. There (CᵀC)[i][i+d] = Σ_{t<n-i-d} c_t c_{t+d} falls
// with i, and with d ≥ b, because c_{t+d} falls and terms drop out. So no term becomes smaller if
// every participation moves to its earliest place, which keeps all distances at least b.
func (s *Strategy) columnSumHolds(b int) bool {
	if s.Columns != nil {
		return false
	}
	if s.Normalized {
		h := s.InverseToeplitz // normalised λ-CGD: C⁻¹ has the bands (h, -λh) with 0 ≤ λ ≤ 1
		return s.Bands() == 1 || len(h) == 2 && h[1] <= 0 && -h[1] <= h[0]
	}
	c := s.FirstColumn(nil)
	for t, v := range c {
		if v < 0 || t > b && v > c[t-1]*monotoneSlack {
			return false
		}
	}
	return true
}

// columnSum returns ‖Σ_{j<k} C[:, jb]‖ of a strategy that is not held by columns.
func (s *Strategy) columnSum(b, k int) float64 {
	c := s.FirstColumn(nil)
	var norms []float64
	if s.Normalized {
		norms = s.ColumnNorms()
	}
	sum := make([]float64, s.Steps)
	for j := range k {
		scale := 1.0
		if norms != nil {
			scale = 1 / norms[j*b]
		}
		for t, v := range c[:min(len(c), s.Steps-j*b)] {
			sum[j*b+t] += scale * v
		}
	}
	return euclidean(sum)
}

// majorantBound returns the column sum of the Toeplitz matrix with first column max_{s≥t} |c_s|
// from index b on, and |c_t| before. Entry by entry this matrix is at least |C|, so that its Gram
// matrix is at least |CᵀC|, and its worst set is known.
func (s *Strategy) majorantBound(b, k int) float64 {
	c := s.FirstColumn(nil)
	largest := 0.0
	for t := len(c) - 1; t >= 0; t-- {
		c[t] = math.Abs(c[t])
		if t >= b {
			largest = max(largest, c[t])
			c[t] = largest
		}
	}
	return (&Strategy{Kind: KindToeplitz, Steps: s.Steps, Toeplitz: c}).columnSum(b, k)
}

// columnSquares returns the squared norms of C's columns.
func (s *Strategy) columnSquares() []float64 {
	norms := s.ColumnNorms()
	for i, v := range norms {
		norms[i] = v * v
		if s.Normalized {
			norms[i] = 1
		}
	}
	return norms
}

// chain returns the largest Σ squares[i] + 2 Σ |X[i][j]| over sets of at most k steps, at least b
// apart; the second sum is over neighbours i, j in the set. Steps at least reach apart do not
// overlap; g may be nil if reach ≤ b. Without a limit by k one round of the dynamic program does;
// with it, round r has the sets of at most r steps.
func chain(squares []float64, g *gram, b, reach, k int) float64 {
	n := len(squares)
	if reach <= b && nonIncreasing(squares) { // an earlier step is never worse: {0, b, 2b, …}
		sum := 0.0
		for j := range k {
			sum += squares[j*b]
		}
		return sum
	}
	limited := k < (n+b-1)/b
	rounds := 1
	if limited {
		rounds = k
	}
	best := make([]float64, n)  // best[i]: largest value of a set that ends at i
	ahead := make([]float64, n) // largest best[j], j ≤ i
	last := make([]float64, n)  // of the round before; unlimited: this round
	for i := range last {
		last[i] = math.Inf(-1) // no set yet
	}
	if !limited {
		last = best
	}
	for range rounds {
		for i := range n {
			v := 0.0
			if i >= reach {
				v = ahead[i-reach]
			}
			for d := b; d < reach && d <= i; d++ {
				v = max(v, last[i-d]+2*g.at(i-d, d))
			}
			best[i] = squares[i] + v
			if !limited {
				ahead[i] = best[i]
				if i > 0 {
					ahead[i] = max(ahead[i], ahead[i-1])
				}
			}
		}
		if limited {
			copy(last, best)
			copy(ahead, best)
			for i := 1; i < n; i++ {
				ahead[i] = max(ahead[i], ahead[i-1])
			}
		}
	}
	return ahead[n-1]
}

// nonIncreasing reports whether no entry is above the one before it.
func nonIncreasing(x []float64) bool {
	for i := 1; i < len(x); i++ {
		if x[i] > x[i-1] {
			return false
		}
	}
	return true
}

// countSets returns the number of sets of at most k of n steps, at least b apart. It stops counting
// beyond enumerationLimit.
func countSets(n, b, k int) float64 {
	total, term := 1.0, 1.0
	for m := 1; m <= k && total <= enumerationLimit; m++ {
		free := n - (m-1)*(b-1) // C(free, m) sets of m
		if free < m {
			break
		}
		term = 1
		for j := range m {
			term *= float64(free-j) / float64(m-j)
		}
		total += term
	}
	return total
}

// errTooLarge wraps ErrTooLarge with the figure.
func errTooLarge(what string, size, limit int) error {
	return fmt.Errorf("%w: %s %d: must be at most %d", ErrTooLarge, what, size, limit)
}
