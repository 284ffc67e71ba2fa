package mechanism_test

import (
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"minsep/internal/must"
	"minsep/mechanism"
)

// TestTree: entry (i, j) of the Gram matrix is the number of nodes that hold both steps.
func TestTree(t *testing.T) {
	for _, arity := range []int{2, 3, 5} {
		for _, n := range []int{1, 2, 7, 8, 20, 27, 33} {
			c := matrix(must.Get(mechanism.Problem{Workload: mechanism.Prefix(n)}.Make(t.Context(), mechanism.KindTree, arity))(t))
			var gram mat.Dense
			gram.Mul(c.T(), c)
			for i := range n {
				for j := range n {
					nodes := 0
					for size, whole := 1, false; !whole; size *= arity {
						if i/size == j/size {
							nodes++
						}
						whole = size >= n
					}
					if math.Abs(gram.At(i, j)-float64(nodes)) > 1e-12 {
						t.Errorf("arity %d, n %d: steps %d and %d have %v, want %d", arity, n, i, j, gram.At(i, j), nodes)
					}
				}
			}
		}
	}
	must.Fail(t, "arity 1", "must be at least 2")(second(mechanism.Problem{Workload: mechanism.Prefix(8)}.Make(t.Context(), mechanism.KindTree, 1)))
}

func TestFenwick(t *testing.T) {
	s := must.Get(mechanism.Problem{Workload: mechanism.Prefix(8)}.Make(t.Context(), mechanism.KindFenwick, 2))(t)
	c := matrix(s)
	for i, want := range strings.Fields("10000000 11000000 00100000 11110000 00001000 00001100 00000010 11111111") {
		for j, x := range want {
			if c.At(i, j) != float64(x-'0') {
				t.Errorf("C[%d][%d] = %v, want %c", i, j, c.At(i, j), x)
			}
		}
	}
}

func TestFFT(t *testing.T) {
	const n = 24
	s := must.Get(mechanism.Problem{Workload: mechanism.Prefix(n)}.Make(t.Context(), mechanism.KindFFT, 0))(t)
	best := must.Get(s.Error(mechanism.Prefix(n)))(t)
	// The mechanism's own decoder has the mean of |A_circ|'s eigenvalues as the variance of every
	// sum: n, and 1/sin(πk/2n) at odd k (arXiv 2211.06530, Algorithm 1 and Appendix J.4).
	own := float64(n)
	for k := 1; k < 2*n; k += 2 {
		own += 1 / math.Sin(math.Pi*float64(k)/(2*n))
	}
	own /= 2 * n
	for i, v := range best.Variance {
		if v > own*(1+1e-12) {
			t.Errorf("optimal decoder has variance %v at %d, the mechanism's own %v", v, i, own)
		}
	}
	column := s.ColumnNorms()
	if math.Abs(column[0]*column[0]-own) > 1e-12 || math.Abs(column[n-1]*column[n-1]-own) > 1e-12 {
		t.Errorf("squared column norms %v, %v, want %v", column[0]*column[0], column[n-1]*column[n-1], own)
	}
}
