package mechanism

import (
	"cmp"
	"context"

	"gonum.org/v1/gonum/mat"

	"minsep/internal/param"
)

// Kinds of tree aggregation.
const (
	KindFenwick = "fenwick" // 0/1 tree of one row a step (arXiv 2605.18379, Appendix B)
	KindTree    = "tree"    // with the full Honaker estimator (arXiv 2211.06530, Appendix D.4)
)

func init() {
	register(Family{
		Kind: KindFenwick, Rank: 120,
		Help: "a tree of --arity, with one node for each step",
		Size: AritySize, MaxSteps: maxWholeSteps,
		bands: largestNode,
		make:  func(_ Problem, p Params, _ bool) (*Strategy, error) { return Fenwick(p.Arity, p.Steps) },
	})
	register(Family{
		Kind: KindTree, Rank: 130,
		Help: "a tree of --arity, with the best decoder",
		Size: AritySize, MaxSteps: maxWholeSteps,
		bands: allBands,
		make: func(problem Problem, p Params, _ bool) (*Strategy, error) {
			return tree(problem.context(), p.Arity, p.Steps)
		},
	})
}

// largestNode returns the number of steps of the largest node of a Fenwick tree, which is the
// number of its bands.
func largestNode(p Params) int {
	size, arity := 1, cmp.Or(p.Arity, defaultArity)
	for size <= p.Steps/arity {
		size *= arity
	}
	return size
}

// checkTree requires an arity of at least 2, and a step.
func checkTree(arity, steps int) error {
	check := param.Checker{Package: "mechanism"}
	check.AtLeast("arity", arity, 2)
	check.AtLeast("steps", steps, 1)
	return check.Err()
}

// treeNodes returns the encoder's rows of an arity-ary tree over steps leaves, as ranges of
// steps: all nodes of the smallest complete tree that hold a step. Ranges are not cut at steps:
// beyond are virtual steps with zero gradients (arXiv 2211.06530, Appendix D.3).
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
func Tree(arity, steps int) (*Strategy, error) { return tree(context.Background(), arity, steps) }

// tree does the work of Tree, and ends when ctx ends.
func tree(ctx context.Context, arity, steps int) (*Strategy, error) {
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
	return fromGram(ctx, KindTree, gram)
}

// OnlineTree returns tree aggregation with Honaker's estimator from below (arXiv 2211.06530,
// Appendix D.3): a prefix sum is the sum of complete nodes, each estimated from itself and all
// nodes under it. The last sum comes from the completed tree if that is better, without the noise
// of virtual steps.
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

// honakerVariance returns the variance v of a node's estimate from below, in units of the variance
// of a node: 1/v = 1 + 1/(arity·v'), where v' is the value of its children. It is also the weight
// of the node itself.
func honakerVariance(arity, size int) float64 {
	v := 1.0
	for s := 1; s < size; s *= arity {
		v = 1 / (1 + 1/(float64(arity)*v))
	}
	return v
}

// Fenwick returns the 0/1 tree of one row a step (arXiv 2605.18379, Appendix B): row i-1 (i from 1)
// sums the last arity^v steps up to i, where arity^v is the largest power that divides i.
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
