package mechanism

import (
	"cmp"
	"context"
	"slices"

	"gonum.org/v1/gonum/mat"
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
		Size: AritySize, MaxSteps: 1 << 14,
		bands: largestNode,
		make:  fenwick,
	})
	register(Family{
		Kind: KindTree, Rank: 130,
		Help: "a tree of --arity, with the best decoder",
		Size: AritySize, MaxSteps: maxWholeSteps,
		bands: allBands,
		make:  tree,
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

// tree returns tree aggregation of any arity with the full Honaker estimator, the best decoder for
// the tree's nodes (arXiv 2211.06530, Appendix D.4): the lower triangular strategy with the Gram
// matrix of the smallest complete tree. Nodes beyond the last step hold virtual steps with zero
// gradients (Appendix D.3). Some entries may be negative.
func tree(ctx context.Context, _ Problem, p Params) (*Strategy, error) {
	arity, steps := p.Arity, p.Steps
	gram := mat.NewSymDense(steps, nil) // the number of nodes that hold both steps
	for size := 1; ; size *= arity {
		for i := range steps {
			for j := i; j < min(steps, i-i%size+size); j++ {
				gram.SetSym(i, j, gram.At(i, j)+1)
			}
		}
		if size >= steps {
			return fromGram(ctx, KindTree, gram)
		}
	}
}

// fenwick returns the 0/1 tree of one row a step (arXiv 2605.18379, Appendix B): row i-1 (i from 1)
// sums the last arity^v steps up to i, where arity^v is the largest power that divides i.
func fenwick(_ context.Context, _ Problem, p Params) (*Strategy, error) {
	ones := slices.Repeat([]float64{1}, p.Steps)
	s, err := FromRows(p.Steps, func(i int) []float64 {
		size := 1
		for (i+1)%(size*p.Arity) == 0 {
			size *= p.Arity
		}
		return ones[:size]
	})
	if err != nil {
		return nil, err
	}
	s.Kind = KindFenwick
	return s, nil
}

// fromGram returns [FromGram] of a kind. It does not begin after ctx ends.
func fromGram(ctx context.Context, kind string, gram *mat.SymDense) (*Strategy, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := FromGram(gram)
	if err != nil {
		return nil, err
	}
	s.Kind = kind
	return s, nil
}
