package mechanism

import (
	"context"
	"errors"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestCholeskyIsLAPACKs compares bits around the size of a block.
func TestCholeskyIsLAPACKs(t *testing.T) {
	for _, n := range []int{1, 2, 63, 64, 65, 128, 200} {
		gram := mat.NewSymDense(n, nil)
		for i := range n {
			for j := i; j < n; j++ {
				gram.SetSym(i, j, math.Cos(float64(i*j))/float64(1+j-i))
			}
			gram.SetSym(i, i, 8)
		}
		var want mat.Cholesky
		if !want.Factorize(gram) {
			t.Fatal("not positive definite")
		}
		u, err := cholesky(context.Background(), gram.RawSymmetric())
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			for j := i; j < n; j++ {
				if got, want := u.Data[i*u.Stride+j], want.RawU().At(i, j); got != want {
					t.Fatalf("n %d: U[%d][%d] is %v, want %v", n, i, j, got, want)
				}
			}
		}
	}
	if _, err := cholesky(context.Background(), mat.NewSymDense(2, []float64{1, 2, 2, 1}).RawSymmetric()); !errors.Is(err, errNotPositive) {
		t.Errorf("an indefinite matrix: %v", err)
	}
}
