package mechanism_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"minsep/mechanism"
)

func TestOnlineTreeFactorsPrefixSums(t *testing.T) {
	for _, arity := range []int{2, 3, 5} {
		for _, n := range []int{1, 2, 7, 8, 20, 27, 33} {
			f, err := mechanism.OnlineTree(arity, n)
			if err != nil {
				t.Fatal(err)
			}
			var product mat.Dense
			product.Mul(f.Decoder, f.Encoder)
			for i := range n {
				for j := range n {
					want := 0.0
					if j <= i {
						want = 1
					}
					if math.Abs(product.At(i, j)-want) > 1e-12 {
						t.Fatalf("arity %d, n %d: (B C)[%d][%d] = %v, want %v", arity, n, i, j, product.At(i, j), want)
					}
				}
			}
			full, err := mechanism.Tree(arity, n)
			if err != nil {
				t.Fatal(err)
			}
			// the same Gram matrix, and no decoder beats the full one
			var gram, other mat.Dense
			gram.Mul(f.Encoder.T(), f.Encoder)
			c := matrix(full)
			other.Mul(c.T(), c)
			if !mat.EqualApprox(&gram, &other, 1e-12) {
				t.Errorf("arity %d, n %d: Gram matrices differ", arity, n)
			}
			best := must2(full.Error(mechanism.Prefix(n)))(t)
			for i, v := range f.Error().Variance {
				if v < best.Variance[i]*(1-1e-12) {
					t.Errorf("arity %d, n %d: online variance %v at %d is below the full one, %v", arity, n, v, i, best.Variance[i])
				}
			}
			p := mechanism.Participation{MinSep: 3, Phases: true}
			if a, b := must2(f.Sensitivity(p))(t), must2(full.Sensitivity(p))(t); math.Abs(a.Value-b.Value) > 1e-9 {
				t.Errorf("arity %d, n %d: sensitivities %v and %v", arity, n, a, b)
			}
		}
	}
	// arXiv 2211.06530, Appendix D.3: a complete binary node of h levels below has variance
	// ½/(1-2^-(h+1))
	f := must2(mechanism.OnlineTree(2, 8))(t)
	if got, want := f.Error().Variance[7], .5/(1-1./16); math.Abs(got-want) > 1e-14 {
		t.Errorf("variance of a complete tree %v, want %v", got, want)
	}
}

func TestFenwick(t *testing.T) {
	s := must2(mechanism.Fenwick(2, 8))(t)
	c := matrix(s)
	for i, want := range []string{"10000000", "11000000", "00100000", "11110000", "00001000", "00001100", "00000010", "11111111"} {
		for j, x := range want {
			if c.At(i, j) != float64(x-'0') {
				t.Errorf("C[%d][%d] = %v, want %c", i, j, c.At(i, j), x)
			}
		}
	}
	if err := second(mechanism.Fenwick(1, 8)); err == nil {
		t.Error("arity 1 is accepted")
	}
}

func TestFFT(t *testing.T) {
	const n = 24
	s := must2(mechanism.FFT(n))(t)
	best := must2(s.Error(mechanism.Prefix(n)))(t)
	own := mechanism.FFTError(n).Variance[n-1]
	// |A_circ|'s eigenvalues: n, and 1/sin(πk/2n) at odd k (arXiv 2211.06530, Appendix J.4)
	sum := float64(n)
	for k := 1; k < 2*n; k += 2 {
		sum += 1 / math.Sin(math.Pi*float64(k)/(2*n))
	}
	if want := sum / (2 * n); math.Abs(own-want) > 1e-12 {
		t.Errorf("variance %v, want %v", own, want)
	}
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

func TestErrorOfStamps(t *testing.T) {
	block := must2(mechanism.OnlineTree(2, 5))(t).Error()
	all := mechanism.ErrorOfStamps(block, 3)
	for i, v := range all.Variance {
		if want := block.Variance[i%5] + float64(i/5)*block.Variance[4]; math.Abs(v-want) > 1e-14 {
			t.Errorf("variance %v at %d, want %v", v, i, want)
		}
	}
}
