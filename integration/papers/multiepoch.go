package main

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"minsep/mechanism"
)

const stepsMultiEpoch, epochMultiEpoch = 2000, 100

// tablesMultiEpoch is Table 1 of arXiv 2211.06530: sens²·‖B‖_F² for prefix sums over 20 epochs of
// 100 steps in a fixed order.
func tablesMultiEpoch() []table {
	return []table{{
		"arXiv 2211.06530, Appendix H.2: a contribution of two dimensions can weigh more than any of one, for a C with negative CᵀC, n = k = 3.\n" +
			"Of its Figure 5, per-iterate variance with momentum, only the picture is printed: nothing to compare.", rowsVectors,
	}, {
		"arXiv 2211.06530, Table 1: sens²·‖B‖_F², n = 2000, (k, b) = (20, 100). Trees and MF: sensitivity over the 100 exact patterns;\n" +
			"FFT: the spectral bound of its Theorem 2.1. MF(k, n)×s: optimum for k epochs, s times, optimal decoder.\n" +
			"Rows without a published figure are illegible in the text we have.", rowsMultiEpoch,
	}}
}

// rowsVectors are the two norms of Appendix H.2.
func rowsVectors() ([]row, error) {
	c := mat.NewDense(3, 3, []float64{2, 1, 1, 1, 2, -1, 1, -1, 2})
	c.Scale(1/math.Sqrt(24), c)
	g := mat.NewDense(3, 2, []float64{2, 1, 2, -1, 1, 2})
	g.Scale(1/math.Sqrt(5), g)
	one := 0.
	for signs := range 8 {
		u := mat.NewVecDense(3, nil)
		for i := range 3 {
			u.SetVec(i, float64(1-2*(signs>>i&1)))
		}
		var v mat.VecDense
		v.MulVec(c, u)
		one = max(one, v.Norm(2))
	}
	var two mat.Dense
	two.Mul(c, g)
	return []row{
		{name: "largest ‖Cu‖ over signs u", published: "1", computed: one},
		{name: "‖CG‖_F, squared", published: "1.1", computed: mat.Norm(&two, 2) * mat.Norm(&two, 2)},
	}, nil
}

func rowsMultiEpoch() ([]row, error) {
	var rows []row
	schema := mechanism.Participation{MinSep: epochMultiEpoch, Phases: true}
	exact := func(s *mechanism.Strategy) (float64, error) {
		sensitivity, err := s.Sensitivity(schema)
		return sensitivity.Value * sensitivity.Value, err
	}
	// add appends the row of block, stamped, with the optimal decoder, or with the mean variance given
	add := func(name, published string, block *mechanism.Strategy, squared func(*mechanism.Strategy) (float64, error), own float64) error {
		s, err := mechanism.Stamped(block, stepsMultiEpoch/block.Steps)
		if err != nil {
			return err
		}
		square, err := squared(s)
		if err != nil {
			return err
		}
		if own == 0 {
			e, err := s.Error(mechanism.Prefix(stepsMultiEpoch))
			if err != nil {
				return err
			}
			own = e.RMSE * e.RMSE
		}
		rows = append(rows, row{name: fmt.Sprintf("%s×%d", name, stepsMultiEpoch/block.Steps), published: published, computed: square * own * stepsMultiEpoch})
		return nil
	}
	for _, c := range []struct {
		n         int
		published string
	}{{2000, ""}, {1000, ""}, {500, ""}, {400, ""}, {200, "1.4e6"}, {100, "1.8e6"}} {
		tree, err := made(mechanism.Problem{Workload: mechanism.Prefix(c.n)}, mechanism.KindTree, 2)
		if err != nil {
			return nil, err
		}
		if err := add(fmt.Sprintf("Optimal Decoder Honaker(n=%d)", c.n), c.published, tree, exact, 0); err != nil {
			return nil, err
		}
	}
	for _, c := range []struct {
		k, n      int
		published string
	}{
		{20, 2000, "6.5e5"}, {10, 1000, "8.8e5"}, {5, 500, "1.2e6"}, {1, 2000, "1.6e6"}, {1, 1000, "1.37e6"},
		{1, 500, "1.4e6"}, {1, 400, "1.5e6"}, {1, 200, "1.8e6"}, {1, 100, "2.5e6"},
	} {
		p := mechanism.Problem{Workload: mechanism.Prefix(c.n)}
		if c.k > 1 {
			p.Participation = mechanism.Participation{MinSep: c.n / c.k, Phases: true}
		}
		s, err := made(p, mechanism.KindDense, 0)
		if err != nil {
			return nil, err
		}
		if err := add(fmt.Sprintf("MF(k=%d, n=%d)", c.k, c.n), c.published, s, exact, 0); err != nil {
			return nil, err
		}
		if c.k == 20 {
			loss, err := p.Loss(s)
			if err != nil {
				return nil, err
			}
			bound := loss * (1 - 1e-5) * stepsMultiEpoch // by the duality gap of dense strategies
			rows = append(rows, row{name: "lower bound of MF(k=20, n=2000)", published: "6.53e5", computed: bound})
		}
	}
	for _, c := range []struct {
		n            int
		own, optimal string
	}{{2000, "2.3e6", "2.2e6"}, {1000, "1.8e6", "1.5e6"}, {400, "1.6e6", "1.1e6"}, {200, "1.9e6", "1.2e6"}, {100, "2.5e6", "1.7e6"}} {
		s, err := made(mechanism.Problem{Workload: mechanism.Prefix(c.n)}, mechanism.KindFFT, 0)
		if err != nil {
			return nil, err
		}
		// Its own decoder gives every sum of a block the variance of a squared column norm
		// (Algorithm 1), on top of the blocks before (Appendix D.4).
		norm, blocks := s.ColumnNorms()[0], float64(stepsMultiEpoch/c.n)
		if err := add(fmt.Sprintf("FFT(n=%d)", c.n), c.own, s, spectralBound, norm*norm*(blocks+1)/2); err != nil {
			return nil, err
		}
		if err := add(fmt.Sprintf("FFT Optimal Decoder(n=%d)", c.n), c.optimal, s, spectralBound, 0); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// spectralBound is k·max_π ‖C[:, π]‖₂² over the exact patterns (arXiv 2211.06530, Theorem 2.1).
func spectralBound(s *mechanism.Strategy) (float64, error) {
	largest := 0.0
	k := s.Steps / epochMultiEpoch
	for start := range epochMultiEpoch {
		columns := mat.NewDense(s.Steps, k, nil)
		for j := range k {
			i := start + j*epochMultiEpoch
			for t, v := range s.Column(nil, i) {
				columns.Set(i+t, j, v)
			}
		}
		var svd mat.SVD
		if !svd.Factorize(columns, mat.SVDNone) {
			return 0, fmt.Errorf("no singular values of pattern %d", start)
		}
		largest = max(largest, svd.Values(nil)[0])
	}
	return float64(k) * largest * largest, nil
}
