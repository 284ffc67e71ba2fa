package mechanism

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"minsep/internal/param"
)

// KindDense is any lower triangular C, such as the optimum of arXiv 2211.06530.
const KindDense = "dense"

// denseGap is the largest relative duality gap of the dense optimum.
const denseGap = 1e-5

func init() {
	register(Family{
		Kind: KindDense, Rank: 150,
		Help:     "the best matrix for epochs of --min-sep steps in a fixed order (--phases)",
		MaxSteps: maxWholeSteps,
		bands:    allBands,
		seconds:  func(p Params) float64 { return 7 * math.Pow(float64(p.Steps)/2000, 3) },
		make: func(ctx context.Context, problem Problem, _ Params) (*Strategy, error) {
			// Phases are the only participation for which the dense optimum is known.
			problem.Participation.Phases = problem.Participation.Phases || problem.Participation.MinSep != 0
			s, _, err := optimalDense(ctx, problem, denseGap)
			return s, err
		},
	})
}

// quadratureTolerance is the relative error of the rational square root. roundingGap is added to a
// duality gap: the errors of the quadrature and of rounding are well below.
const (
	quadratureTolerance = 1e-11
	roundingGap         = 1e-9
)

// dual is the Lagrange dual of the dense optimum (arXiv 2211.06530). The problem is to minimise
// tr(M X⁻¹), with M = AᵀA and X = CᵀC, where the steps {s, s+b, …} of one class of examples have
// orthogonal columns of total squared norm at most 1. The dual's variables are a positive definite
// matrix U_s for every class, with a constant diagonal u_s. At U = diag(U_s) the Lagrangian is
// least at the geometric mean X = U⁻¹ # M, that is X U X = M, and the dual value is tr(U X)² / Σ_s
// u_s.
//
// X is evaluated as Σ_q weight_q (U + shift_q M⁻¹)⁻¹, a rational approximation of the square root.
// M⁻¹ is banded for momentum and learning rates, and U joins the steps of a class only. So with
// steps ordered by class every term is block cyclic tridiagonal. A class costs its size cubed, and
// nothing of size n×n is built until the end.
type dual struct {
	n, b      int
	classes   [][]int // steps of every class
	groups    [][]int // neighbouring classes that form one block
	order     []int   // steps in the order of the blocks' rows
	place     []int   // row of a step in that order
	offset    []int   // first row of a block
	minv      *mat.SymBandDense
	low, high float64 // bounds of M's eigenvalues
	blocks    *cyclicBlocks
}

// newDual prepares the dual for epochs of b steps.
func newDual(a *Workload, b int) *dual {
	n := a.Steps
	d := &dual{n: n, b: min(b, n)}
	for s := range d.b {
		var class []int
		for i := s; i < n; i += d.b {
			class = append(class, i)
		}
		d.classes = append(d.classes, class)
	}
	d.minv = a.inverseGram()
	_, reach := d.minv.SymBand()
	// classes a block: as many as M⁻¹ reaches, and enough rows for dense arithmetic
	size := max(reach, (8+len(d.classes[0])-1)/len(d.classes[0]))
	if d.b < 2*size {
		size = d.b
	}
	for s := 0; s < d.b; s += size {
		if rest := d.b - s; rest < 2*size {
			size = rest // no last block that M⁻¹ reaches across
		}
		var group []int
		for c := s; c < s+size; c++ {
			group = append(group, c)
		}
		d.groups = append(d.groups, group)
	}
	var sizes []int
	d.place = make([]int, n)
	for _, group := range d.groups {
		d.offset = append(d.offset, len(d.order))
		for _, s := range group {
			for _, i := range d.classes[s] {
				d.place[i] = len(d.order)
				d.order = append(d.order, i)
			}
		}
		sizes = append(sizes, len(d.order)-d.offset[len(d.offset)-1])
	}
	d.offset = append(d.offset, n)
	d.blocks = newCyclicBlocks(sizes)
	d.low, d.high = a.gramBounds(d.minv)
	return d
}

// inverseGram returns M⁻¹ = A⁻¹A⁻ᵀ. A⁻¹ maps the model s to the inputs, x_i = v_i - β
// v_{i-1} + pull·s_{i-1} with v_i = (s_i - keep_i s_{i-1})/η_i, and has at most three bands.
func (a *Workload) inverseGram() *mat.SymBandDense {
	n := a.Steps
	rows := make([][]float64, n) // row i of A⁻¹ backwards from the diagonal
	reach := min(n-1, 2)
	if a.Momentum == 0 {
		reach = min(n-1, 1)
	}
	for i := range rows {
		rows[i] = make([]float64, min(reach, i)+1)
		eta := 1 / a.rate(i)
		rows[i][0] = eta
		if i > 0 {
			before := a.Momentum / a.rate(i-1)
			rows[i][1] = -eta*a.keep(i) - before + a.pull()
			if a.Momentum != 0 && i > 1 {
				rows[i][2] = before * a.keep(i-1)
			}
		}
	}
	m := mat.NewSymBandDense(n, reach, nil)
	for i := range n {
		for j := i; j < min(n, i+reach+1); j++ {
			sum := 0.0
			for t := max(0, i-len(rows[i])+1, j-len(rows[j])+1); t <= i; t++ {
				sum += rows[i][i-t] * rows[j][j-t]
			}
			m.SetSymBand(i, j, sum)
		}
	}
	return m
}

// gramBounds returns bounds of the eigenvalues of M: the largest absolute row sum of M⁻¹, and the trace
// of M, which is the sum of the squares of A.
func (a *Workload) gramBounds(minv *mat.SymBandDense) (low, high float64) {
	rows := newBandedCovariance(Identity(a.Steps), a).forward()
	return 1 / mat.Norm(minv, math.Inf(1)), floats.Sum(rows)
}

// class has U_s, its square root, and the range of its eigenvalues.
type class struct {
	u, root   *mat.SymDense
	low, high float64
}

// eachNode calls use for each node of the rational square root, with the node's weight, when blocks
// hold the factors of U + shift M⁻¹. It returns the error of ctx.
func (d *dual) eachNode(ctx context.Context, classes []class, use func(weight float64)) error {
	low, high := math.Inf(1), 0.0
	for _, c := range classes {
		low, high = min(low, c.low), max(high, c.high)
	}
	for _, q := range sqrtNodes(d.low*low, d.high*high, quadratureTolerance) {
		if err := ctx.Err(); err != nil {
			return err
		}
		d.assemble(classes, q.shift)
		if err := d.blocks.eliminate(); err != nil {
			return err
		}
		use(q.weight)
	}
	return nil
}

// evaluate returns the class blocks X_s of X and tr(U X), or the error of ctx.
func (d *dual) evaluate(ctx context.Context, classes []class) (xs []*mat.SymDense, trace float64, err error) {
	for _, c := range d.classes {
		xs = append(xs, mat.NewSymDense(len(c), nil))
	}
	err = d.eachNode(ctx, classes, func(weight float64) {
		d.blocks.diagonalBlocks(func(g int, block blas64.General) {
			row := 0
			for _, s := range d.groups[g] {
				x, size := xs[s], len(d.classes[s])
				for i := range size {
					for j := i; j < size; j++ {
						x.SetSym(i, j, x.At(i, j)+weight*block.Data[(row+i)*block.Stride+row+j])
					}
				}
				row += size
			}
		})
	})
	for s, x := range xs {
		for i := range x.SymmetricDim() {
			for j := range x.SymmetricDim() {
				trace += x.At(i, j) * classes[s].u.At(i, j)
			}
		}
	}
	return xs, trace, err
}

// assemble sets the blocks to U + shift M⁻¹.
func (d *dual) assemble(classes []class, shift float64) {
	d.blocks.clear()
	last := len(d.groups) - 1
	put := func(i, j int, v float64) { // i and j in the blocks' order
		g, h := d.blockOf(i), d.blockOf(j)
		var m blas64.General
		switch {
		case g == h:
			m = d.blocks.diagonal[g]
		case h == last:
			m = d.blocks.border[g]
		case h == g+1:
			m = d.blocks.next[g]
		default:
			return // the transposed block
		}
		m.Data[(i-d.offset[g])*m.Stride+j-d.offset[h]] += v
	}
	for s, c := range classes {
		for x, i := range d.classes[s] {
			for y, j := range d.classes[s] {
				put(d.place[i], d.place[j], c.u.At(x, y))
			}
		}
	}
	_, reach := d.minv.SymBand()
	for i := range d.n {
		for j := max(0, i-reach); j <= min(d.n-1, i+reach); j++ {
			put(d.place[i], d.place[j], shift*d.minv.At(i, j))
		}
	}
}

// blockOf returns the block that holds a row.
func (d *dual) blockOf(row int) int {
	return sort.Search(len(d.groups)-1, func(i int) bool { return d.offset[i+1] > row })
}

// full returns X in the order of steps, or the error of ctx.
func (d *dual) full(ctx context.Context, classes []class) (*mat.SymDense, error) {
	x := mat.NewSymDense(d.n, nil)
	inverse, spare := newGeneral(d.n, d.n), newGeneral(d.n, d.n)
	err := d.eachNode(ctx, classes, func(weight float64) {
		clear(inverse.Data)
		for i := range d.n {
			inverse.Data[i*d.n+i] = 1
		}
		d.blocks.solve(inverse, spare)
		for i := range d.n {
			for j := i; j < d.n; j++ {
				a, b := d.place[i], d.place[j]
				x.SetSym(i, j, x.At(i, j)+weight*(inverse.Data[a*d.n+b]+inverse.Data[b*d.n+a])/2)
			}
		}
	})
	return x, err
}

// optimalDense returns the lower triangular strategy of least mean error for examples that
// participate in phases (arXiv 2211.06530): in epochs of MinSep steps in a fixed order, as often as
// fits. The columns of one example's steps are orthogonal, and the sensitivity is 1. It stops when
// the relative duality gap, from the strategy's loss and the dual's value, is at most limit, and
// returns it: no such strategy has a loss below that of s times 1-gap.
//
// The Participation must have Phases and no MaxParticipations below the number that fits, or be
// empty for one participation.
func optimalDense(ctx context.Context, p Problem, limit float64) (s *Strategy, gap float64, err error) {
	schema, n := p.participation(), p.Workload.Steps
	fits := Participation{MinSep: schema.MinSep}.most(n)
	check := param.Checker{}
	check.Require(p.Objective != MaxError, "objective", p.Objective, "must be mean for a dense strategy")
	check.Require(
		schema.most(n) == fits,
		"max participations",
		schema.MaxParticipations,
		"must be as many as fit for a dense strategy",
	)
	check.Require(
		schema.Phases || fits == 1,
		"phases",
		schema.Phases,
		"must be set for a dense strategy with several participations",
	)
	if i := slices.Index(p.Workload.LearningRates, 0); i >= 0 {
		check.Require(false, "schedule", fmt.Sprintf("with the rate 0 at step %d", i), "must have rates above 0 for a dense strategy")
	}
	if err := check.Err(); err != nil {
		return nil, 0, err
	}
	return denseFixedPoint(ctx, p, newDual(p.Workload, schema.MinSep), limit)
}
